"""The other side of library.py, and what the tests of both real libraries have in common."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import Final

import numpy as np
import psutil
import pytest

from pdproto.engine.contract import Address, EngineError, Extent, Result
from pdproto.engine.one_sided import Description
from pdproto.engine.one_sided_source import OneSidedSource
from tests.engine.engines import ENGINES, MISSING, finished, write
from tests.waiting import PATIENCE_S, until

OLD: Final = 0xAB
NEW: Final = 0x5C
LENGTH: Final = 256 << 20  # takes long enough to be met in the middle
TRIES: Final = 20


class Other:
    """A sink in a process of its own, and a source of ours that writes to it."""

    def __init__(self, name: str, length: int = LENGTH) -> None:
        if MISSING[name]:
            pytest.skip(MISSING[name])
        command = [sys.executable, "-m", "tests.engine.sink_process", name, str(length)]
        self.process: Final = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        source = ENGINES[name].source()
        assert isinstance(source, OneSidedSource)
        self.source: Final = source
        self.address: Final = Address.decode(bytes.fromhex(self._read()))
        self.target: Final = int(self._read())

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def count(self, byte: int) -> int:
        return int(self.ask(f"count {byte}"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        status = psutil.Process(self.process.pid).status
        until(lambda: status() == psutil.STATUS_STOPPED, "the sink to stop")

    def close(self) -> None:
        self.source.close()
        if self.process.poll() is None:
            self.process.communicate("end\n")
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def other(name: str, length: int = LENGTH) -> Iterator[Other]:
    process = Other(name, length)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.send_signal(signal.SIGCONT)
        process.close()


@dataclass(frozen=True, slots=True)
class Found:
    """What a library does with memory that is taken back from it in the middle of a transfer.

    landed: bytes, when that had ended. ended: whether well. again: whether one ended well that
    began after the memory had been taken back, and again_bytes: that landed of it.
    """

    landed: int
    ended: bool
    again: bool
    again_bytes: int


def extent_of(memory: np.ndarray) -> Extent:
    return Extent(memory.ctypes.data, memory.nbytes)


def unregistered_in_mid_write(name: str) -> Found:
    """Take memory back from the library while one transfer to it runs, and begin another.

    In the middle: the first byte had landed before, and the last had not landed after that. Whether
    a try has met it there, its sink says; how long anything took does not matter.
    """
    data, other_data = np.full(LENGTH, OLD, np.uint8), np.full(4096, NEW, np.uint8)
    with other(name) as sink, ThreadPoolExecutor(1) as thread:
        transport = sink.source.transport
        for memory in (data, other_data):
            transport.register(extent_of(memory))

        def transfer(peer: str, memory: np.ndarray) -> bool:
            """A library may wait in `begin` until it has ended."""
            try:
                handle = transport.begin(peer, extent_of(memory), sink.target)
            except EngineError:
                return False
            while (well := transport.ended(handle)) is None:
                sleep(1e-4)
            return well

        for _ in range(TRIES):
            description = Description.decode(bytes.fromhex(sink.ask("fresh")))
            transport.meet(description)
            first = thread.submit(transfer, description.peer, data)
            last = sink.ask("unregister")
            ended = first.result(timeout=60)
            if int(last) != OLD:
                landed = sink.count(OLD)
                again = thread.submit(transfer, description.peer, other_data).result(timeout=60)
                return Found(landed, ended, again, sink.count(NEW))
    pytest.fail(f"no transfer of {LENGTH} bytes was met in the middle in {TRIES} tries")


def killed_in_mid_write(name: str) -> None:
    """A sink that dies with a write under way: an error that names engine and peer, and an end."""
    with other(name, 64 << 20) as sink:
        assert write(sink.source, sink.address, bytes(9)).result is Result.LANDED
        sink.stop()
        sink.source.post(sink.address, 0, [np.full(64 << 20, OLD, np.uint8)])
        until(lambda: sink.source.counts().writes == 1, "the write to be posted")
        sink.process.kill()
        sink.process.wait(PATIENCE_S)
        (outcome,) = finished(sink.source)
        assert outcome.result is not Result.LANDED
        assert sink.address.endpoint in outcome.reason
        again = write(sink.source, sink.address, bytes(9))
        assert again.result is Result.REFUSED
        assert sink.address.endpoint in again.reason


def ends_well(name: str) -> None:
    """A process that has used the library, and closed nothing, exits with status 0."""
    if MISSING[name]:
        pytest.skip(MISSING[name])
    program = f"""
from tests.engine.engines import ENGINES, write
sink, source = ENGINES[{name!r}].sink(), ENGINES[{name!r}].source()
print(write(source, sink.lease("life", "source", 9).address, bytes(9)).result.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "LANDED", done.stderr
    assert done.returncode == 0, done.stderr
