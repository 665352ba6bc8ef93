"""Servers of this release and of the next one hand over to each other, in processes of their own.

The next release is a copy of this one with a version more, and a field that it adds to a message of
prefill.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import pdproto
from pdproto.runtime.versions import VERSION

HERE = Path(pdproto.__file__).parent
NEXT = VERSION + 1
ROOMS = 12  # at most the 64 pages of a pool divided by the 4 of a room, which they all hold at once
ABORTED = 3


class Server:
    """A process of tests/e2e/release.py, with the pdproto of this folder."""

    def __init__(self, role: str, package: Path) -> None:
        self.name = role
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("release.py")), role],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(package.parent)})
        self.endpoint, ran = self._read()
        assert ran == str(package), f"{self.name} runs {ran}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)

    def ask(self, rooms: range, peer: "Server") -> None:
        """Begin these rooms with the peer. The last of them are aborted."""
        order = {"rooms": [rooms.start, rooms.stop], "peer": [peer.name, peer.endpoint],
                 "aborted": list(rooms[-ABORTED:])}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[int]:
        """How many rooms succeeded, and the version that is written to the peer."""
        return list(self._read())

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self.name} has ended"
        return json.loads(line)


def hand_over(prefill: Server, decode: Server, first: int) -> tuple[list[int], list[int]]:
    """Answers of both ends to the same rooms."""
    rooms = range(first, first + ROOMS)
    prefill.ask(rooms, decode)
    decode.ask(rooms, prefill)
    return prefill.answer(), decode.answer()


def replaced(file: Path, pattern: str, by: str) -> None:
    text, count = re.subn(pattern, by, file.read_text())
    assert count == 1, f"{file.name}: {pattern} is there {count} times"
    file.write_text(text)


@pytest.fixture(scope="module")
def the_next(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The next release."""
    package = tmp_path_factory.mktemp("next") / "pdproto"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
    replaced(package / "runtime/versions.py", r"(?m)^VERSION: Final = \d+$",
             f"VERSION: Final = {NEXT}")
    replaced(package / "runtime/wire.py", r"    use: U63 = 0\n",
             f"    use: U63 = 0\n    hint: Annotated[str, Meta(extra={{'since': {NEXT}}})] = ''\n")
    replaced(package / "node/sender.py", r"self\.metadata\), self\.use\)",
             "self.metadata), self.use, 'of the next release')")
    yield package
    shutil.rmtree(package)


def test_servers_are_upgraded_one_after_the_other(the_next: Path) -> None:
    """Either side first: each pair hands over, and writes the newest version of both."""
    well = ROOMS - ABORTED
    with Server("prefill", HERE) as prefill:
        with Server("decode", HERE) as decode:
            assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
        with Server("decode", the_next) as decode:
            assert hand_over(prefill, decode, 100) == ([well, VERSION], [well, VERSION])
    with Server("decode", HERE) as decode, Server("prefill", the_next) as prefill:
        assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
    with Server("decode", the_next) as decode:
        with Server("prefill", HERE) as prefill:
            assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
        with Server("prefill", the_next) as prefill:
            assert hand_over(prefill, decode, 200) == ([well, NEXT], [well, NEXT])
