"""Mistakes on the command line: each is told in one line, with the user's own word and a remedy.

`mistakes.txt` is the table: a command line, and below it the whole message. A number before the
message is the exit status, where it is not 2.
"""

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from lab.catalogue import LAB, OWN_VERBS
from lab.compare import CHECKERS
from pdproto.check.load import SHOWN
from pdproto.cli.main import PDPROTO, VERBS, Program, command
from pdproto.cli.systems import BUILT_IN
from tests.cli.own_specs import PAGE

TABLE: Final = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
OURS: Final = r"Traceback|0x[0-9a-f]{6}|<class|<function|Errno|__\w+__|site-packages|functools"
FILES: Final = {
    "page.py": PAGE,
    "empty.py": "",
    "broken.py": "x = 1\nif x\n",
    "unclosed.py": "x = 1\ny = (1,\n",
    "raises.py": "x = 1\ny = x // 0\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "imports.py": "import no_such_package\n",
    "endless.py": "def again():\n    again()\n\n\nagain()\n",
    "two.py": PAGE.replace("SYSTEM = ", "ONE = ") + "TWO = ONE\n",
    "unreadable.py": PAGE,
    "world.py": 'from pdproto.spec.language import Machine, System, Table\n'
                'SYSTEM = System("sky", "", tables=(Table(Machine("sky", world=True)),))\n',
    "lemma.py": f'{PAGE}\nLEMMAS = Always("idle", phase(w) == Phase.IDLE)\n',
    "notes.txt": "no Python\n",
    "none.jsonl": "",
    "begun.jsonl": '{"n":1,"node":"p0","machine":"source","end":1,"begins":{}}\n',
    "report.json": '{"system": "page", "sizes": {}, "faults": [], "properties": []}',
}


class Mistake(NamedTuple):
    """A command line of a program, the exit status, and the whole message."""

    program: Program
    line: str
    status: int
    told: str


def mistakes() -> Iterator[Mistake]:
    """The entries of the table."""
    for entry in TABLE.rstrip("\n").split("\n\n"):
        line, _, told = entry.partition("\n")
        found = re.fullmatch(r"    (?:\((\d)\) )?(.*)", told)
        assert found is not None, entry
        program = LAB if line.startswith(LAB.name) else PDPROTO
        yield Mistake(program, line.removeprefix(program.name).strip(), int(found[1] or 2),
                      found[2])


MISTAKES: Final = tuple(mistakes())


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """A port on which something listens already."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder. It is forgotten afterwards, with the modules in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("binary.py").write_bytes(b"\0\1\2\xff")
    Path("folder.py").mkdir()
    read = SourceFileLoader.get_data

    def forbidden(self: SourceFileLoader, path: str) -> bytes:
        if path.endswith("unreadable.py"):  # root may read every file
            raise PermissionError(13, "Permission denied", path)
        return read(self, path)

    monkeypatch.setattr(SourceFileLoader, "get_data", forbidden)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        where = getattr(sys.modules[name], "__file__", None)
        if where is not None and Path(where).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.line for mistake in MISTAKES])
def test_a_mistake_is_told_in_one_line(
    mistake: Mistake, folder: Path, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "folder": folder, "taken": taken, "verbs": ", ".join(map(repr, VERBS)),
        "checkers": ", ".join(map(repr, CHECKERS)), "more": len(BUILT_IN) - SHOWN,
    }  # fmt: skip
    before = sorted(os.listdir())
    status = command(shlex.split(mistake.line.format(**names)), mistake.program)
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"pdproto: {mistake.told.format(**names)}\n")
    assert status == mistake.status
    assert not re.search(OURS, err)
    assert sorted(os.listdir()) == before  # nothing is begun, and nothing left


def test_there_are_sixty_of_them_over_all_verbs() -> None:
    assert len({mistake.line for mistake in MISTAKES}) == len(MISTAKES) >= 60
    verbs = {mistake.line.split(" ")[0] for mistake in MISTAKES}
    assert {*VERBS, *OWN_VERBS} - verbs == set(), "want a mistake of it in mistakes.txt"
