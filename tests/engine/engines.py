"""The engines that the contract's tests hold to the contract. Another one is a line of `OTHERS`.

`stop_midway` is for the process that is stopped in the middle of a write: called there before the
source is made, it has the process stop itself (SIGSTOP) after the first bytes of a write have left
and before the last, at whatever moment is the worst for this engine.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from examples.process_memory_engine import ProcessMemory, ProcessMemorySource
from pdproto.engine.contract import Address, EndedWrite, EngineError, SinkEngine, SourceEngine
from pdproto.engine.device_pieces import GRANULE_BYTES
from pdproto.engine.engines import require
from pdproto.engine.memory import PAGE_BYTES
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlSink, NixlSource
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import Move, Mover
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from tests.waiting import until

SENT_BYTES: Final = 100_000  # before the process stops inside a segment
CONTINUED: Final = threading.Event()  # since it was stopped, which happens once


@dataclass(frozen=True, slots=True)
class Engine:
    """How to make both ends of an engine, with any of its own arguments. name: in addresses.
    piece_bytes: of the smallest piece of its memory. is_local: its sink listens on a local socket.
    keeps: it gives back no memory whose writer is gone without a report (rule 2 of one_sided.py).
    """

    name: str
    sink: Callable[..., SinkEngine]
    source: Callable[..., SourceEngine]
    stop_midway: Callable[[], None]
    piece_bytes: int = PAGE_BYTES
    is_local: bool = False
    keeps: bool = False


def stop() -> None:
    """Stop this process; the call returns when it is continued."""
    os.kill(os.getpid(), signal.SIGSTOP)
    # The thread that asks for it may go on for as long as another, which is told, has no turn.
    CONTINUED.wait()


def stoppable() -> None:
    """Take note, in the main thread, of being continued."""
    signal.signal(signal.SIGCONT, lambda *_: CONTINUED.set())


def stop_before_a_store() -> None:
    """Between the look at what the sink says and the store that it allows."""
    stoppable()
    copyto, calls = np.copyto, count()

    def stopping(target: Any, source: Any) -> None:
        if next(calls) == 1:
            stop()
        copyto(target, source)

    patch.object(np, "copyto", stopping).start()


def stop_inside_a_segment() -> None:
    """When a part of a segment has left, so that the sink waits for its rest."""
    stoppable()
    sendmsg, calls = socket.socket.sendmsg, count()

    def stopping(sock: socket.socket, buffers: list[memoryview]) -> int:
        if next(calls):
            return sendmsg(sock, buffers)
        sent = sendmsg(sock, [buffers[0], buffers[1][:SENT_BYTES]])
        stop()
        return sent

    patch.object(socket.socket, "sendmsg", stopping).start()


def stop_before_a_transfer() -> None:
    """When one transfer of a write has begun, and the next has been granted."""
    stoppable()
    register, calls = Mover._register, count()

    def stopping(mover: Mover, move: Move) -> None:
        if next(calls) == 1:
            stop()
        register(mover, move)

    patch.object(Mover, "_register", stopping).start()  # called before each transfer of any library


def stop_inside_a_copy() -> None:
    """When the device has copied some pieces of a write."""
    from tests.engine.played import before_a_piece  # noqa: PLC0415 - needs torch

    stoppable()
    before_a_piece(stop)


def played(name: str) -> Callable[..., Any]:
    """A class of played.py, which needs torch."""
    def make(**arguments: Any) -> Any:
        from tests.engine import played  # noqa: PLC0415 - needs torch

        return getattr(played, name)(**arguments)

    return make


BUILT_IN: Final = {
    "shared-memory": Engine("shared-memory", SharedSink, SharedSource, stop_before_a_store,
                            is_local=True),
    "tcp": Engine("tcp", TcpSink, TcpSource, stop_inside_a_segment),
}
ONE_SIDED: Final = {
    "mooncake": Engine("mooncake", MooncakeSink, MooncakeSource, stop_before_a_transfer),
    "nixl": Engine("nixl", NixlSink, NixlSource, stop_before_a_transfer),
}


def missing(name: str) -> str:
    """Why an engine cannot run here, if it cannot. Loading it opens files that it never closes."""
    try:
        require(name)
    except EngineError as error:
        return str(error)
    return ""


MISSING: Final = {name: missing(name) for name in ONE_SIDED}
INSTALLED: Final = {name: engine for name, engine in ONE_SIDED.items() if not MISSING[name]}
ON_DEVICE: Final = {
    "cuda-ipc": Engine("cuda-ipc", played("SharedPlayedSink"), played("SharedPlayedSource"),
                       stop_inside_a_copy, GRANULE_BYTES, is_local=True),
    **({} if MISSING["nixl"] else {
        "nixl-gpu": Engine("nixl-gpu", played("NixlPlayedSink"), played("NixlPlayedSource"),
                           stop_before_a_transfer, GRANULE_BYTES, keeps=True)}),
} if find_spec("torch") else {}
OTHERS: Final = {
    "process-memory": Engine(
        "process-memory",
        lambda **arguments: OneSidedSink(ProcessMemory(), **arguments),
        lambda **arguments: ProcessMemorySource(ProcessMemory(), **arguments),
        stop_before_a_transfer),
}
ENGINES: Final = {**BUILT_IN, **INSTALLED, **ON_DEVICE, **OTHERS}
LOCAL: Final = {name: engine for name, engine in ENGINES.items() if engine.is_local}


def finished(source: SourceEngine, writes: int = 1) -> list[EndedWrite]:
    """Wait for the outcomes of so many writes."""
    outcomes: list[EndedWrite] = []

    def enough() -> bool:
        outcomes.extend(source.completed())
        return len(outcomes) >= writes

    until(enough, f"{writes} outcomes")
    return outcomes


def write(source: SourceEngine, address: Address, data: Any, offset: int = 0) -> EndedWrite:
    """Write, and wait for the outcome."""
    number = source.post(address, offset, [data])
    (outcome,) = finished(source)
    assert outcome.write == number
    return outcome


class Pair:
    """Both ends of an engine in this process."""

    def __init__(self, engine: Engine, capacity_bytes: int = 128 << 20) -> None:
        self.engine: Final = engine
        self.sink: Final = engine.sink(capacity_bytes=capacity_bytes)
        self.source: Final = engine.source()

    def close(self) -> None:
        self.source.close()
        self.sink.close()
