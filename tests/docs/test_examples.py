"""The short examples: they run, and say what their texts say."""

import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.cli.main import main
from tests.docs.documents import ROOT

LEASE = f"{ROOT / 'examples' / 'lease.py'}:SYSTEM"


def test_the_lease_has_one_holder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LEASE, "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "4 states" in told  # free, or held by one of three
    assert main(["lint", LEASE]) == 0


def test_the_lease_without_its_guard_has_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = (ROOT / "examples" / "lease.py").read_text(encoding="utf-8").replace("when=free, ", "")
    (tmp_path / "lease_without_a_guard.py").write_text(broken, encoding="utf-8")
    assert main(["check", f"{tmp_path / 'lease_without_a_guard.py'}:SYSTEM", "--quiet"]) == 1
    assert "one_holder violated" in capsys.readouterr().out


def test_two_nodes_hand_over_every_byte() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "hand_over.py"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("every byte is the same: True\n", "")
