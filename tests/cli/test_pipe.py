"""What a reader that is no terminal gets: whole names, one finding on a line."""

import subprocess
import sys

import pytest

from pdproto.cli.main import main
from pdproto.cli.systems import load


def test_a_name_is_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pdproto check agreement-loss --coverage | grep NAME` finds each property and each row."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["check", "agreement-loss", "--coverage", "--quiet"]) == 0
    words = capsys.readouterr().out.split()
    system = load("agreement-loss")
    names = [claim.name for claim in system.properties]
    names += [row.name for table in system.tables for row in table.rows
              if row.kind == "row"]
    assert max(map(len, names)) > 25
    assert [name for name in names if name not in words] == []


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "pdproto", "--version"], capture_output=True,
                          text=True, check=True)
    assert done.stdout.startswith("pdproto 0.1.0")
