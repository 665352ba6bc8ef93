"""How much of a plain copy's speed the engines keep: writes of 4 MiB to another process.

    python -m tests.bench.bench_engine [ROUNDS [ENGINE ...]]

Each round (default: 15) times a plain copy and then the engine, over the same memory and as many
bytes; the ratio is taken within the round, so that what else the machine does disturbs both.

    shared memory   against `numpy.copyto` in one process, source and target touched before
    tcp             against `sendall` and `recv_into` of the same sizes over a loopback socket
    mooncake        against the same, where it is installed; it has no goal
    nixl            against `numpy.copyto`, where it is installed; it has no goal

`deep`: 16 writes in flight. `single`: the next write is posted when the last has its outcome.
`leased`: single, and every write has a lease of its own, which the other process is asked for.
"""

import multiprocessing
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from threading import Event
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.contract import (
    Address,
    EngineError,
    Lease,
    Result,
    SinkEngine,
    SourceEngine,
)
from pdproto.engine.engines import require
from pdproto.engine.mooncake import MooncakeSink, MooncakeSource
from pdproto.engine.nixl import NixlSink, NixlSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource

ROUNDS: Final = 15
CHUNK_BYTES: Final = 4 << 20
BUFFERS: Final = 16
WRITES: Final = 48  # a round
GOAL: Final = 0.60
ENGINES: Final[dict[str, tuple[Callable[..., SinkEngine], Callable[..., SourceEngine]]]] = {
    "shared memory": (SharedSink, SharedSource),
    "tcp": (TcpSink, TcpSource),
    "mooncake": (MooncakeSink, MooncakeSource),
    "nixl": (NixlSink, NixlSource),
}
GOALS: Final = {"shared memory": GOAL, "tcp": GOAL}
OVER_SOCKETS: Final = ("tcp", "mooncake")

Bytes = NDArray[np.uint8]


def other_end(name: str, pipe: Connection) -> None:
    """The sink's process: leases, one after the other, until it is told to end.

    Over the pipe come: -1 to end, 0 for a fresh lease, n to release lease n.
    """
    sink = ENGINES[name][0]()
    leases: dict[int, Lease] = {}
    while (told := pipe.recv()) >= 0:
        if told:
            sink.release(leases.pop(told))
            continue
        lease = sink.lease("life", "source", CHUNK_BYTES)
        assert lease is not None
        leases[lease.number] = lease
        pipe.send((lease.number, lease.address.encode()))
    sink.close()


class Writer:
    """The source's end, and the wait for its outcomes."""

    def __init__(self, name: str) -> None:
        self.pipe, there = multiprocessing.Pipe()
        self._process: Final = multiprocessing.get_context("spawn").Process(
            target=other_end, args=(name, there)
        )
        self._process.start()
        self._source: Final = ENGINES[name][1]()
        self._ended: Final = Event()
        self._source.attach(self._ended.set)
        self._addresses: Final = [self.lease()[1] for _ in range(BUFFERS)]

    def lease(self) -> tuple[int, Address]:
        self.pipe.send(0)
        number, address = self.pipe.recv()
        return number, Address.decode(address)

    def write(self, buffers: list[Bytes], in_flight: int) -> None:
        """Write them in turn, so many at once."""
        posted = ended = 0
        while ended < WRITES:
            while posted < WRITES and posted - ended < in_flight:
                place = posted % BUFFERS
                self._source.post(self._addresses[place], 0, [buffers[place]])
                posted += 1
            ended += self._wait()

    def write_leased(self, buffers: list[Bytes]) -> None:
        for number in range(WRITES):
            lease, address = self.lease()
            self._source.post(address, 0, [buffers[number % BUFFERS]])
            self._wait()
            self.pipe.send(lease)

    def _wait(self) -> int:
        self._ended.wait()
        self._ended.clear()
        outcomes = self._source.completed()
        assert all(outcome.result is Result.LANDED for outcome in outcomes)
        return len(outcomes)

    def close(self) -> None:
        self._source.close()
        self.pipe.send(-1)
        self._process.join()


def receive_plainly(pipe: Connection) -> None:
    """The other end of a plain socket copy: a byte back for every round."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        sock, _ = listener.accept()
    buffers = [memoryview(bytearray(CHUNK_BYTES)) for _ in range(BUFFERS)]
    with sock:
        while True:
            for number in range(WRITES):
                left = buffers[number % BUFFERS]
                while left:
                    count = sock.recv_into(left)
                    if not count:
                        return
                    left = left[count:]
            sock.send(b"x")


def plain_socket() -> tuple[Callable[[list[Bytes]], None], Callable[[], None]]:
    """A plain copy over a socket, and how to end it."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receive_plainly, args=(there,))
    process.start()
    sock = socket.create_connection(("127.0.0.1", here.recv()))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def copy(buffers: list[Bytes]) -> None:
        for number in range(WRITES):
            sock.sendall(buffers[number % BUFFERS].data)
        sock.recv(1)

    def end() -> None:
        sock.close()
        process.join()

    return copy, end


def plain_memory() -> tuple[Callable[[list[Bytes]], None], Callable[[], None]]:
    """A plain copy in memory, likewise."""
    targets = [np.ones(CHUNK_BYTES, np.uint8) for _ in range(BUFFERS)]

    def copy(buffers: list[Bytes]) -> None:
        for number in range(WRITES):
            np.copyto(targets[number % BUFFERS], buffers[number % BUFFERS])

    return copy, lambda: None


def seconds(step: Callable[[], None]) -> float:
    began = perf_counter()
    step()
    return perf_counter() - began


def measure(name: str, rounds: int) -> None:
    """Print a line for each way of writing."""
    buffers = [np.full(CHUNK_BYTES, number, np.uint8) for number in range(BUFFERS)]
    plain, end = plain_socket() if name in OVER_SOCKETS else plain_memory()
    writer = Writer(name)
    ways: dict[str, Callable[[], None]] = {
        "deep": lambda: writer.write(buffers, BUFFERS),
        "single": lambda: writer.write(buffers, 1),
        "leased": lambda: writer.write_leased(buffers),
    }
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for round_number in range(-1, rounds):  # The first touches all memory, and does not count.
        for way, step in ways.items():
            pair = seconds(lambda: plain(buffers)), seconds(step)
            if round_number >= 0:
                times[way].append(pair)
    writer.close()
    end()
    goal = f", goal {GOALS[name]:.2f}" if name in GOALS else ""
    for way, pairs in times.items():
        ratios = sorted(base / engine for base, engine in pairs)
        rate = [WRITES * CHUNK_BYTES / median(part) / 1e9 for part in zip(*pairs, strict=True)]
        print(  # noqa: T201 - this is a command
            f"{name:13}  {way:6}  plain {rate[0]:5.2f} GB/s  engine {rate[1]:5.2f} GB/s"
            f"  ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}){goal}"
        )


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for name in sys.argv[2:] or ENGINES:
        try:
            require(name)
        except EngineError as error:
            print(f"{name:13}  {error}")  # noqa: T201 - this is a command
            continue
        measure(name, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
