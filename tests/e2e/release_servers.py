"""The two processes of tests/e2e/release.py, prefill and decode, as a test sees them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pdproto

HERE = Path(pdproto.__file__).parent
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

    def kill(self) -> None:
        """End the process, which tells nobody."""
        self._process.kill()
        self._process.wait(timeout=10)

    def ask(self, rooms: range, peer: "Server", aborted: int = ABORTED) -> None:
        """Begin these rooms with the peer. The last of them are aborted."""
        order = {"rooms": [rooms.start, rooms.stop], "peer": [peer.name, peer.endpoint],
                 "aborted": list(rooms[len(rooms) - aborted:])}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[int]:
        """How many rooms succeeded, and the version that is written to the peer."""
        well, version, slow = self._read()
        assert slow == 0, f"{self.name}: {slow:g} turns of its loop took over 50 ms"
        return [well, version]

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
