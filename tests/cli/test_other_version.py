"""Nothing that another version of pdproto has kept is an answer of this one: seen with one that
calls every obligation proved, and every property kept.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cli.test_proved_mark import MARK, SPEC, TRUE

ROOT: Final = Path(__file__).parents[2]
PROVED: Final = '''

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status.PROVED)
'''
KEPT: Final = '''
from dataclasses import replace

_asked = check


def check(*given, **named):
    found = _asked(*given, **named)
    return replace(found, findings=tuple(
        replace(one, verdict=Verdict.HOLDS, trace=None) for one in found.findings))
'''
EDITS: Final = {"prove/judgement.py": PROVED, "checking.py": KEPT}
COMMAND: Final = "import sys; from pdproto.cli.main import main; sys.exit(main(sys.argv[1:]))"


def asked(where: Path, folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and the output of the version in a folder. All share one cache."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments, "--quiet"], cwd=folder, text=True, check=False,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(where), "COLUMNS": "250",
                                  "XDG_CACHE_HOME": str(folder / "cache")})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.nightly
def test_an_answer_of_another_version_is_asked_anew(tmp_path: Path) -> None:
    """Seen red: with a digest of the code that is always the same, all were recalled."""
    other = tmp_path / "other"
    for name in ("spec", "kernels", "pdproto"):
        shutil.copytree(ROOT / name, other / name, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name, more in EDITS.items():
        with (other / "pdproto/check" / name).open("a", encoding="utf-8") as file:
            file.write(more)
    (tmp_path / "spec.py").write_text(SPEC.format(**{**TRUE, "guard": "~bad()", "lemmas": "*()"}))
    proof, search = ("prove", "spec.py:SYSTEM"), ("check", "spec.py:SYSTEM", "--size", "N=3")
    shards = [(*proof, "--shard", f"{number}/2", "--answers", f"{number}") for number in (1, 2)]
    false = [asked(other, tmp_path, *one) for one in (proof, search, *shards)]
    assert [status for status, _ in false[:2]] == [0, 0], false
    assert MARK in false[1][1]
    assert "other code" in asked(ROOT, tmp_path, "prove", "--merge", "1", "2")[1]
    assert asked(ROOT, tmp_path, *shards[1])[0] == 3
    assert "other code" in asked(ROOT, tmp_path, "prove", "--merge", "1", "2")[1]
    assert "from an earlier run" in asked(other, tmp_path, *search)[1]
    true = [asked(ROOT, tmp_path, *one) for one in (search, proof, search)]
    assert [status for status, _ in true] == [1, 1, 1], true
    assert not any(MARK in told for _, told in true)
