"""RANKINGS beside a user's own system, without any LEMMAS."""

import re
from pathlib import Path

import pytest

from pdproto.cli.main import main
from tests.docs.documents import ROOT

TUTORIAL = (ROOT / "docs/tutorial/check-your-own-protocol.md").read_text(encoding="utf-8")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file answer.py of the tutorial, which has RANKINGS and no LEMMAS."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (text,) = [part.split("```")[0] for part in TUTORIAL.split("```python\n")
               if part.startswith("# answer.py\n")]
    assert "LEMMAS" not in text
    path = tmp_path / "answer.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_they_prove_it_for_every_size(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", f"{spec.name}:SYSTEM", "--quiet", "--no-cache"]) == 0
    assert ("proved    a_request_is_answered: for all sizes, where every timer fires (6 "
            "obligations") in capsys.readouterr().out


def test_without_a_row_that_repeats_it_is_not_proved(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace('Help("repeat", ~ask(r)), ', ""), encoding="utf-8")
    assert main(["prove", f"{spec.name}:SYSTEM", "--quiet", "--no-cache"]) == 1
    assert "failed    a_request_is_answered:" in capsys.readouterr().out


def test_one_ranking_is_no_tuple(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = spec.read_text(encoding="utf-8")
    start = text.index("RANKINGS = (")
    spec.write_text(f'{text[:start]}RANKINGS = Ranking("a_request_is_answered", helpers=())\n',
                    encoding="utf-8")
    assert main(["prove", f"{spec.name}:SYSTEM", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert told.endswith("want a tuple of Ranking, as in RANKINGS = (Ranking(...),)\n")
    assert told.startswith("pdproto: RANKINGS of answer in ")


@pytest.mark.parametrize(("line", "want"), [
    ("MONOTONE = 5", "MONOTONE of answer in .* is 5: want a tuple of Monotone"),
    ("MONOTONE = (5,)", "want a tuple of Monotone"),
    ("FAULT_FREE = ()", "want FaultFree"),
    ("ASSUMED = [5]", "want formulas by name"),
    ("ASSUMED = {'x': 5}", "want formulas by name"),
    ("LEMMAS = {'x': 5}", "want a tuple of Always"),
])
def test_a_name_of_a_proof_is_what_a_proof_has_there(
    spec: Path, line: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red without the kinds of MONOTONE: AttributeError, an internal error."""
    spec.write_text(f"{spec.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    assert main(["prove", f"{spec.name}:SYSTEM", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert re.search(want, told), told
    assert told.startswith("pdproto: ")
    assert told.count("\n") == 1


ALONE = """
from pdproto.spec.language import *

class Node(Sort):
    "A node."

n = Node("n")
machine = Machine("machine")
up = machine.relation("up")
chosen = Rigid("chosen", n)
SYSTEM = System("alone", "", (Table(machine, rows=(
    Row("go", on=Call("go", n), when=chosen(n), do=up().to(True)),)),), (Always("never", ~up()),),
    final=TRUE)
"""


def test_what_is_assumed_needs_no_lemmas(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: without LEMMAS, ASSUMED was left out, and nothing said so."""
    spec.write_text(ALONE, encoding="utf-8")
    assert main(["prove", f"{spec.name}:SYSTEM", "--quiet", "--no-cache"]) == 1
    other = spec.with_name("other.py")
    other.write_text(f"{ALONE}\nASSUMED = {{'nobody': forall(n, ~chosen(n))}}\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["prove", f"{other.name}:SYSTEM", "--quiet", "--no-cache"]) == 0
    assert "assumed   nobody: for all n: not chosen(n)" in capsys.readouterr().out
