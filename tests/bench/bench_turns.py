"""Processor time of both nodes for a hand-over, without threads and sockets.

Other load disturbs this figure least, so that it tells two versions apart:

    python -m tests.bench.bench_turns [RUNS [profile]]

A prefill and a decode node take their turns one after the other in this thread, and pass batches
to each other in lists. A line is printed for 128 hand-overs in flight and for 1: the best and
median of RUNS runs (default: 7) in microseconds, and the batches and turns of both nodes for each
hand-over. With `profile`, the functions that take the most time are listed instead.
"""

import gc
import pstats
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from cProfile import Profile
from itertools import islice
from statistics import median
from time import monotonic, process_time
from typing import Final, TypeVar

from pdproto.node.core import Core, run_turn
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.node import Node
from pdproto.node.ports import Arrived
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.watchdog import Watchdog
from tests.bench.bench_control import NoBytes

T = TypeVar("T")

RUNS: Final = 7
CASES: Final = ((128, 4_000), (1, 2_000))  # in flight, rooms
WARM: Final = 20_000  # more rooms than a node remembers, so that its memory is that of later days


class Line:
    """A connection of a host to another."""

    def __init__(self, caller: "Host", to: "Host") -> None:
        self._caller: Final = caller
        self._to: Final = to

    def probe(self) -> None:
        """Nothing is found out."""

    def send(self, data: bytes) -> bool:
        self._caller.sent += 1
        self._to.batches.append((self._caller.name, [data]))
        return True

    def close(self) -> None:
        pass


class Host:
    """The transport of one node. sent, turns: how many so far."""

    def __init__(self, name: str, hosts: dict[str, "Host"]) -> None:
        self.name: Final = name
        self.pace: Final = Watchdog(name)
        self.batches: Final[deque[tuple[str, Sequence[bytes]]]] = deque()
        self.sent = self.turns = 0
        self._hosts: Final = hosts
        self._requests: Final[deque[Callable[[], None]]] = deque()
        self._node: Core
        self._in_turn = self._again = False
        hosts[name] = self

    def run(self, node: Node) -> None:
        """Run this node from now on."""
        self._node = node.core
        node.core.begin(self)

    def clock(self) -> float:
        return monotonic()

    def ask(self, request: Callable[[], None]) -> None:
        self._requests.append(request)

    ask_later = ask

    def wake(self) -> None:
        if self._in_turn:
            self._node.again = True
        self._again = True

    def address_for(self, _endpoint: str) -> str:
        return self.name

    def connect(self, _name: str, endpoint: str) -> Line:
        return Line(self, self._hosts[endpoint])

    @property
    def wants_turn(self) -> bool:
        return bool(self._requests or self.batches or self._again or self._node.wants_turn)

    def turn(self) -> None:
        self.turns += 1
        self._again, self._in_turn = False, True
        run_turn(self._node, Arrived(_taken(self._requests), _taken(self.batches)), monotonic())
        self._again, self._in_turn = False, False
        self.pace.end()


def _taken(queue: deque[T]) -> Iterator[T]:
    """What is in the queue now. A turn without time leaves the rest there."""
    for _ in range(len(queue)):
        yield queue.popleft()


class Pair:
    """A prefill and a decode node."""

    def __init__(self) -> None:
        hosts: dict[str, Host] = {}
        self.hosts: Final = (Host("decode", hosts), Host("prefill", hosts))
        self._prefill: Final = Prefill("prefill", NoBytes(), link=Link(), incarnation=11)
        self._decode: Final = Decode("decode", NoBytes(), link=Link(), incarnation=12)
        for host, node in zip(self.hosts, (self._decode, self._prefill), strict=True):
            host.run(node)

    def hand_over(self, rooms: range, in_flight: int) -> None:
        """Hand over all rooms, so many at a time."""
        left, done = iter(rooms), 0
        senders: list[Sender] = []
        receivers: list[Receiver] = []
        while done < len(rooms):
            for room in islice(left, in_flight - len(receivers)):
                senders.append(self._prefill.open(room))
                receivers.append(self._decode.open(
                    room, {"prefill": "prefill"}, pages=(room,), slot=room))
            while any(host.wants_turn for host in self.hosts):
                for host in self.hosts:
                    if host.wants_turn:
                        host.turn()
            ready, senders = _parted(senders, KVPoll.WAITING_FOR_INPUT)
            for sender in ready:
                sender.send((sender.room % 100,), metadata=b"a token, and what belongs to it")
            over, receivers = _parted(receivers, KVPoll.SUCCESS)
            for receiver in over:
                receiver.close()
            done += len(over)


H = TypeVar("H", Sender, Receiver)


def _parted(handles: list[H], status: KVPoll) -> tuple[list[H], list[H]]:
    """Those in this status, and the others."""
    return ([one for one in handles if one.status is status],
            [one for one in handles if one.status is not status])


def measured(in_flight: int, rooms: int, runs: int) -> str:
    """A line of the output."""
    pair, took = Pair(), list[float]()
    pair.hand_over(range(WARM), in_flight)
    before = [(host.sent, host.turns) for host in pair.hosts]
    for run in range(runs):
        gc.collect()
        began = process_time()
        pair.hand_over(range(WARM + run * rooms, WARM + (run + 1) * rooms), in_flight)
        took.append((process_time() - began) / rooms * 1e6)
    sent, turns = (sum(counts) / rooms / runs for counts in zip(
        *((host.sent - was[0], host.turns - was[1])
          for host, was in zip(pair.hosts, before, strict=True)), strict=True))
    return (f"{in_flight:9}  {min(took):7.1f} us  {median(took):7.1f} us  {sent:7.2f}  "
            f"{turns:5.2f}")


def profiled(in_flight: int, rooms: int) -> None:
    """List the functions that take the most time."""
    pair, profile = Pair(), Profile()
    pair.hand_over(range(WARM), in_flight)
    profile.runcall(pair.hand_over, range(WARM, WARM + rooms), in_flight)
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


def main(arguments: list[str]) -> int:
    """Exit status: 0."""
    gc.disable()
    if "profile" in arguments:
        for case in CASES:
            profiled(*case)
        return 0
    runs = int(arguments[0]) if arguments else RUNS
    print("in flight        best      median  batches  turns")  # noqa: T201
    for in_flight, rooms in CASES:
        print(measured(in_flight, rooms, runs))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
