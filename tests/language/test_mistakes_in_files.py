"""Mistakes in a user's file: each is told in one line, with the file, the line and a remedy.

`mistakes.txt` is the table: a line of a spec, and below it the whole message. The words that the
lines use are in `words_of_mistakes.py`.
"""

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from pdproto.check.load import LoadError, load
from pdproto.spec.language.place import SpecError

TABLE: Final = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
MISTAKES: Final = [tuple(map(str.strip, entry.split("\n", 1))) for entry in TABLE.split("\n\n")]
OURS: Final = r"pdproto|0x|<class|<function|__|Traceback|parts=|dataclass"


def refusal(line: str) -> str:
    """The message for a file whose third line is this one."""
    is_statement = re.match(r"\w+ = |import |from ", line)
    Path("spec.py").write_text(
        "from pdproto.spec.language import *\n"
        "from tests.language.words_of_mistakes import *\n"
        f"{'' if is_statement else 'SYSTEM = '}{line}\n",
        encoding="utf-8")
    with pytest.raises((LoadError, SpecError)) as caught:
        load("spec.py:SYSTEM")
    sys.modules.pop("spec", None)  # a file that can be imported, whose edit is malformed
    return str(caught.value)


@pytest.mark.parametrize(("line", "told"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_told_in_one_line(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refusal(line)
    assert said == told
    assert said.startswith("spec.py:3: ")
    assert not re.search(OURS, said)


def test_there_are_a_hundred_of_them() -> None:
    assert len({line for line, _ in MISTAKES}) == len(MISTAKES) >= 100
