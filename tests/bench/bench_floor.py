"""How many round trips of two processes a small hand-over takes, with one in flight.

    python -m tests.bench.bench_floor [ROUNDS]

Each round (default: 5) measures in turns, in us, between two processes of this machine:

    C           a round trip of 150 bytes over a local socket, with epoll
    Python      the same in Python
    ZeroMQ      the same over two sockets of ZeroMQ and loopback, as nodes talk
    a write     4 KiB by the engine `shm`, from `post` until the outcome is known
    a hand-over of a page of 4 KiB over `shm`, from decode's `open` until it has succeeded

The last line says the medians over the rounds, and how many round trips each takes.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter, sleep
from typing import Any, Final

import numpy as np
import zmq

from pdproto.engine.contract import Address
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.handle import ENDED
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode

ROUNDS: Final = 5
TRIPS: Final = 1_000
HANDOVERS: Final = 300
WARM: Final = 30
PACKET: Final = bytes(150)
PAGE: Final = (1, 1, 4_096)

Times = list[float]  # seconds, of each


def in_c(binary: Path) -> Times:
    """Round trips between two processes of `floor.c`."""
    told = subprocess.run([binary, str(TRIPS)], check=True, capture_output=True, text=True).stdout
    return [int(line) / 1e9 for line in told.split()]


def beside(target: Callable[[Connection], None], run: Callable[[Connection], Times]) -> Times:
    """The measurement of this process beside another one, which ends when its pipe does."""
    here, there = get_context("fork").Pipe()
    process = get_context("spawn").Process(target=target, args=(there,))
    process.start()
    there.close()
    try:
        return run(here)
    finally:
        here.close()
        process.join()


def timed(times: int, act: Callable[[int], None]) -> Times:
    """How long each call takes, after some that are not counted."""
    took = []
    for number in range(WARM + times):
        began = perf_counter()
        act(number)
        took.append(perf_counter() - began)
    return took[WARM:]


def _echo(pipe: Connection) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(pipe.recv())
        ready = select.epoll()
        ready.register(sock, select.EPOLLIN)
        while True:
            ready.poll()
            packet = sock.recv(4096)
            if not packet:
                return
            sock.send(packet)


def in_python(pipe: Connection) -> Times:
    """Round trips over a local socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        name = f"\0pdproto-floor-{os.getpid()}"
        listener.bind(name)
        listener.listen()
        pipe.send(name)
        sock, _ = listener.accept()
    ready = select.epoll()
    ready.register(sock, select.EPOLLIN)

    def trip(_number: int) -> None:
        sock.send(PACKET)
        ready.poll()
        sock.recv(4096)

    with sock:
        return timed(TRIPS, trip)


class Sockets:
    """The ZeroMQ of a node: a socket that hears, one that says, and epoll on the first."""

    def __init__(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self.hears: Final = context.socket(zmq.ROUTER)
        self.hears.bind("tcp://127.0.0.1:*")
        self.says: Final = context.socket(zmq.DEALER)
        self._ready: Final = select.epoll()
        self._ready.register(self.hears.fileno(), select.EPOLLIN)

    def meet(self, pipe: Connection) -> None:
        pipe.send(self.hears.getsockopt_string(zmq.LAST_ENDPOINT))
        self.says.connect(pipe.recv())

    def hear(self) -> bytes:
        while True:
            try:
                return bytes(self.hears.recv_multipart(zmq.NOBLOCK)[1])
            except zmq.Again:
                if self.hears.get(zmq.EVENTS) not in {zmq.POLLIN, zmq.POLLIN | zmq.POLLOUT}:
                    self._ready.poll()

    def close(self) -> None:
        self.hears.close(0)
        self.says.close(0)


def _zmq_echo(pipe: Connection) -> None:
    sockets = Sockets()
    sockets.meet(pipe)
    while packet := sockets.hear():
        sockets.says.send(packet)
    sockets.close()


def over_zmq(pipe: Connection) -> Times:
    """Round trips over ZeroMQ."""
    sockets = Sockets()
    sockets.meet(pipe)

    def trip(_number: int) -> None:
        sockets.says.send(PACKET)
        sockets.hear()

    took = timed(TRIPS, trip)
    sockets.says.send(b"")
    pipe.poll(1)
    sockets.close()
    return took


def _sink(pipe: Connection) -> None:
    sink = open_sink("shm")
    lease = sink.lease("life", "source", 4096)
    assert lease is not None
    pipe.send(lease.address.encode())
    pipe.poll(None)
    sink.close()


def writes(pipe: Connection) -> Times:
    """Writes of the engine."""
    address, source, ended = Address.decode(pipe.recv()), open_source("shm"), Event()
    source.attach(ended.set)
    data = np.ones(4096, np.uint8)

    def write(_number: int) -> None:
        source.post(address, 0, [data])
        ended.wait()
        ended.clear()
        assert source.completed()

    took = timed(TRIPS, write)
    source.close()
    return took


def _prefill(pipe: Connection) -> None:
    node = PrefillNode("p", SourcePages([np.ones((2, *PAGE), np.uint8)], open_source("shm")))
    sent = set()

    def watch(sender: Any) -> None:
        if sender.poll() is KVPoll.WAITING_FOR_INPUT and sender.room not in sent:
            sent.add(sender.room)
            sender.send([0], last=True)

    senders = [node.open(room, watcher=watch) for room in range(WARM + HANDOVERS)]
    pipe.send(node.endpoint)
    pipe.poll(None)
    del senders
    node.close()


def hand_overs(pipe: Connection) -> Times:
    """Hand-overs, one after the other."""
    node = DecodeNode("d", SinkPages({"p": [np.zeros((2, *PAGE), np.uint8)]}, open_sink("shm")))
    sources, took = {"p": pipe.recv()}, []
    for room in range(WARM + HANDOVERS):
        ended, began = Event(), perf_counter()
        receiver = node.open(room, sources, pages=(0,), slot=1, watcher=partial(_watch, ended))
        ended.wait()
        took.append(perf_counter() - began)
        assert receiver.poll() is KVPoll.SUCCESS
        receiver.close()
        while not receiver.released:
            sleep(0.000_2)
    node.close()
    return took[WARM:]


def _watch(ended: Event, receiver: Any) -> None:
    if receiver.poll() in ENDED:
        ended.set()


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "floor"
        subprocess.run(["cc", "-O2", "-o", binary, Path(__file__).with_name("floor.c")], check=True)
        cases: dict[str, Callable[[], Times]] = {
            "C": lambda: in_c(binary),
            "Python": lambda: beside(_echo, in_python),
            "ZeroMQ": lambda: beside(_zmq_echo, over_zmq),
            "a write": lambda: beside(_sink, writes),
            "a hand-over": lambda: beside(_prefill, hand_overs),
        }
        found: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(rounds):
            for name, case in cases.items():
                found[name].append(median(case()) * 1e6)
            say(f"round {number + 1}, load {os.getloadavg()[0]:.1f}: " + ", ".join(
                f"{name} {of[-1]:.0f} us" for name, of in found.items()))
    medians = {name: median(of) for name, of in found.items()}
    say("medians: " + ", ".join(f"{name} {us:.0f} us" for name, us in medians.items()))
    for name in ("a write", "a hand-over"):
        say(f"{name} takes {medians[name] / medians['C']:.1f} round trips in C, "
            f"{medians[name] / medians['Python']:.1f} in Python, "
            f"{medians[name] / medians['ZeroMQ']:.1f} over ZeroMQ")
    return 0


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())
