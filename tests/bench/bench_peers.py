"""The cost of a node by the number of its peers, and its longest turn when it loses one.

    python -m tests.bench.bench_peers [idle [PEERS...] | loss [HANDOVERS...]]

Processor time in one thread, without sockets, on a clock that this program sets. `idle`: a prefill
node whose peers say only that they are there, each at another time of the second. `loss`: a pair
with so many hand-overs open; a peer ends, or no hand-over waits for it any longer, or it is done
with all of them, or the application closes them, or the node drains. Beside the longest turn stands
that of as many turns that only wait for the end of their time: what the machine adds. Garbage is
not collected meanwhile; what a collection of everything takes stands behind it, since the process
pays it in whatever thread allocates. After the table of peers comes the exponent of its growth.
"""

import gc
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heapreplace
from math import log
from time import monotonic, process_time
from typing import Final

from pdproto.node.core import Core, run_turn
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.ports import Arrived
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.batches import encode
from pdproto.runtime.wire import Introduce, Life
from pdproto.transport.watchdog import TURN_S
from tests.bench.bench_control import NoBytes
from tests.bench.bench_turns import Host

PEERS: Final = (1, 10, 100, 1_000, 4_000)
HANDOVERS: Final = (1_000, 10_000, 100_000)
SECONDS: Final = 4.0  # of the clock
GOLDEN: Final = 0.618  # spreads times evenly over a second
HERE: Final = "decode"


class ByHand(Host):
    """A host whose clock is set by hand. longest_s: of its turns, in processor time."""

    now = 1_000.0

    def __init__(self, name: str, hosts: dict[str, Host]) -> None:
        super().__init__(name, hosts)
        self.longest_s = 0.0
        self.due = 0.0

    def clock(self) -> float:
        return ByHand.now

    def connect(self, name: str, endpoint: str) -> "Nobody":  # type: ignore[override]  # no host
        return super().connect(name, endpoint) if endpoint in self._hosts else Nobody()  # type: ignore[return-value]

    def turn(self) -> None:
        began = process_time()
        super().turn()
        self.longest_s = max(self.longest_s, process_time() - began)


class Nobody:
    """A connection that leads nowhere."""

    def send(self, _data: bytes) -> bool:
        return True

    def probe(self) -> None:
        """Nothing is found out."""

    def close(self) -> None:
        """There is nothing to close."""


def idle(peers: int) -> float:
    """Processor seconds of a second of the clock."""
    hosts: dict[str, Host] = {}
    host = ByHand("prefill", hosts)
    node = Prefill("prefill", NoBytes(), link=Link(), incarnation=1)
    host.run(node)
    core, names = node.core, [f"d{i}" for i in range(peers)]
    for i, name in enumerate(names):
        greeting = Introduce(Life(i, 2 + i, 0), (name,), HERE)
        turn(core, [(name, encode(name, 2 + i, 0, [greeting]))])
        ByHand.now += 1.0 / peers
    signs = [(ByHand.now + i * GOLDEN % 1.0, i) for i in range(peers)]
    data = [encode(name, 2 + i, 0, ()) for i, name in enumerate(names)]
    heapify(signs)
    due, spent, ends = ByHand.now, 0.0, ByHand.now + SECONDS
    while ByHand.now < ends:
        ByHand.now = max(ByHand.now, min(due, signs[0][0]))
        come = []
        while signs[0][0] <= ByHand.now:
            when, i = signs[0]
            heapreplace(signs, (when + 1.0, i))
            come.append((names[i], data[i]))
        began = process_time()
        due = turn(core, come)
        spent += process_time() - began
    return spent / SECONDS


def turn(core: Core, come: Sequence[tuple[str, bytes]]) -> float:
    """A turn with these batches. Returns when the next is due."""
    return run_turn(core, Arrived((), [(name, [data]) for name, data in come]), ByHand.now)


class Open:
    """A pair of nodes with hand-overs that wait for their bytes."""

    def __init__(self, count: int) -> None:
        hosts: dict[str, Host] = {}
        self.hosts: Final = ByHand("decode", hosts), ByHand("prefill", hosts)
        self.decode: Final = Decode("decode", NoBytes(), link=Link(), incarnation=11)
        self.prefill: Final = Prefill("prefill", NoBytes(), link=Link(), incarnation=12)
        for host, node in zip(self.hosts, (self.decode, self.prefill), strict=True):
            host.run(node)
        self.senders: Final[list[Sender]] = []
        self.receivers: Final[list[Receiver]] = []
        for begin in range(0, count, 500):
            for room in range(begin, min(begin + 500, count)):
                self.senders.append(self.prefill.open(room))
                self.receivers.append(self.decode.open(
                    room, {"prefill": "prefill"}, pages=(room,), slot=room))
            self.settle()
        for host in self.hosts:
            host.longest_s = 0.0

    def settle(self, *hosts: ByHand) -> None:
        """Take turns until nothing is left to do."""
        hosts = hosts or self.hosts
        while any(host.wants_turn for host in hosts):
            for host in hosts:
                if host.wants_turn:
                    host.turn()


def source_ends(pair: Open) -> ByHand:
    """Decode hears that prefill has ended."""
    host = pair.hosts[0]
    host.ask(lambda: pair.decode.core.declare_gone("prefill"))
    pair.settle(host)
    return host


def sink_ends(pair: Open) -> ByHand:
    """Prefill hears that decode has ended."""
    host = pair.hosts[1]
    host.ask(lambda: pair.prefill.core.declare_gone("decode"))
    pair.settle(host)
    return host


def source_is_overdue(pair: Open) -> ByHand:
    """Decode waits no longer for prefill."""
    host, core = pair.hosts[0], pair.decode.core
    host.ask(lambda: core.on_overdue(core.peers["prefill"], "nothing heard for 60 s"))
    pair.settle(host)
    return host


def source_returns(pair: Open) -> ByHand:
    """Decode hears of prefill again, and repeats all its messages."""
    host, core = pair.hosts[0], pair.decode.core
    host.ask(lambda: core.on_returned(core.peers["prefill"]))
    pair.settle(host)
    return host


def sink_is_done(pair: Open) -> ByHand:
    """Decode says that it is done with every life."""
    host = pair.hosts[1]
    host.batches.append(("decode", [encode("decode", 11, 1 << 40, ())]))
    pair.settle(host)
    return host


def decode_closes(pair: Open) -> ByHand:
    """Decode's application leaves all of them, and a peer hears of it."""
    for receiver in pair.receivers:
        receiver.close()
    pair.settle()
    return max(pair.hosts, key=lambda host: host.longest_s)


def prefill_closes(pair: Open) -> ByHand:
    """Prefill's application leaves all of them, and a peer hears of it."""
    for sender in pair.senders:
        sender.close()
    pair.settle()
    return max(pair.hosts, key=lambda host: host.longest_s)


def prefill_drains(pair: Open) -> ByHand:
    """Prefill counts what its drain waits for."""
    from pdproto.node.drain import Drain  # noqa: PLC0415 - beside its only use

    host = pair.hosts[1]
    host.ask(Drain(pair.prefill).begin)
    pair.settle(host)
    return host


LOSSES: Final[tuple[Callable[[Open], ByHand], ...]] = (
    source_ends, sink_ends, source_is_overdue, source_returns, sink_is_done, decode_closes,
    prefill_closes, prefill_drains)


def exponent(found: Sequence[tuple[int, float]]) -> float:
    """Of the growth from the second size on: the first has little besides what is fixed."""
    (first, least), (last, most) = found[-2], found[-1]
    return log(most / least) / log(last / first)


def table_of_peers(sizes: Sequence[int]) -> Iterator[str]:
    found = []
    for peers in sizes:
        best = min(idle(peers) for _ in range(3))
        found.append((peers, best))
        each = best / peers * 1e6
        yield f"{peers:6,} peers  {best:7.2%} of a core  {each:6.1f} us a peer and second"
    if len(found) > 1:
        yield f"growth with peers: {exponent(found):.2f}"


def waiting(turns: int) -> float:
    """Processor seconds of the longest of these turns, which only look at the clock."""
    longest = 0.0
    for _ in range(turns):
        began, ends = process_time(), monotonic() + TURN_S
        while monotonic() < ends:
            pass
        longest = max(longest, process_time() - began)
    return longest


def table_of_losses(sizes: Sequence[int]) -> Iterator[str]:
    for loss in LOSSES:
        for count in sizes:
            gc.collect()  # the pair before this one
            pair = Open(count)
            began = process_time()
            gc.collect()
            collection, turns = process_time() - began, sum(host.turns for host in pair.hosts)
            host = loss(pair)
            turns = sum(host.turns for host in pair.hosts) - turns
            yield (f"{loss.__name__:18} {count:8,} open  longest turn {host.longest_s * 1e3:5.1f} "
                   f"ms, without work {waiting(turns) * 1e3:5.1f} ms, a collection "
                   f"{collection * 1e3:6.1f} ms")
            del pair, host


def main(words: Sequence[str]) -> None:
    logging.disable(logging.CRITICAL)
    gc.disable()
    sizes = [int(word) for word in words[1:]]
    if not words or words[0] == "idle":
        for line in table_of_peers(sizes or PEERS):
            print(line, flush=True)  # noqa: T201 - this is a command
    if not words or words[0] == "loss":
        for line in table_of_losses(sizes or HANDOVERS):
            print(line, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    main(sys.argv[1:])
