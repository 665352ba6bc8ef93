"""A process whose /dev/shm is full, and which may make no file longer for a while.

test_full_shm.py runs it in a mount namespace of its own.
"""

import logging
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from pdproto.engine.memory import PAGE_BYTES
from tests.vllm.pair import Servers

SHM: Final = Path("/dev/shm")  # noqa: S108 - a file system of this process
SMALL_BYTES: Final = 1 << 16
TOKENS: Final = 10
THERE, HERE = [3, 9, 4], [7, 1, 8]
WHY: Final = "no staging memory of 4096 bytes: [Errno 27] File too large"


def fill() -> None:
    """Raises AssertionError if the file system is not this process's own."""
    assert SHM.stat().st_dev != SHM.parent.stat().st_dev
    assert os.statvfs(SHM).f_blocks * os.statvfs(SHM).f_frsize == SMALL_BYTES
    with suppress(OSError), (SHM / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(PAGE_BYTES)):
            pass


@contextmanager
def no_longer_files() -> Iterator[None]:
    """The system refuses to give a file any length, as it refuses memory that it does not have."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


class Told(logging.Handler):
    """Keeps the messages of this process in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Final[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def hand_over(servers: Servers, name: str) -> bool:
    """Returns whether decode has got its blocks."""
    servers.decode.arrive(name, TOKENS, servers.prefill.finish(name, TOKENS, THERE))
    servers.decode.place(name, HERE)
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    return not servers.decode.heard[name]


def main() -> int:
    told = Told()
    logging.getLogger("pdproto").addHandler(told)
    fill()
    with ExitStack() as closing:
        servers = Servers(closing, engine="shm")
        with no_longer_files():
            assert not hand_over(servers, "refused")
        for words in ("request refused was not loaded: ", "decode did not take its KV cache: "):
            assert any(words in line and WHY in line for line in told.lines), told.lines
        assert hand_over(servers, "next"), told.lines
        servers.check(dict(zip(THERE, HERE, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
