"""`pdproto prove --faults`: under which layers of faults a proof holds."""

import json
from pathlib import Path

import pytest

from pdproto.cli.main import main

SPEC = '''
from pdproto.spec.language import Always, Machine, Row, System, Table

world, box = Machine("world", world=True), Machine("box")
full = box.relation("full")
SYSTEM = System("box", "A box that only a fault fills.",
    tables=(Table(box, rows=(Row("empty", when=[full()], do=[full().to(False)]),)),),
    properties=(Always("never_full", ~full()),),
    faults={"filled": (Table(world, rows=(
        Row("fill", when=[~full()], do=[full().to(True)], fair=False),)),)},
)
'''


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "box.py").write_text(SPEC, encoding="utf-8")
    return f"{tmp_path / 'box.py'}:SYSTEM"


def test_a_proof_without_faults_says_so(box: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", box, "--quiet"]) == 1
    assert "there are no" not in capsys.readouterr().out
    assert main(["prove", box, "--quiet", "--faults", "none"]) == 0
    told = capsys.readouterr().out
    assert "assumed   there are no filled faults" in told
    assert main(["prove", box, "--quiet", "--faults", "none", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["without_faults"] == ["filled"]


def test_an_unknown_layer_is_told(box: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", box, "--quiet", "--faults", "fild"]) == 2
    assert "box has no fault layer 'fild'" in capsys.readouterr().err
