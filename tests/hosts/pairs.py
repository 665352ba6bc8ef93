"""A prefill node on one host and a decode node on another, in this process."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.engines import open_sink, open_source
from pdproto.net.hosts import without_zone
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link, tcp_at
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.keys import Keys, new_secret, of_secret
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.hosts.namespaces import Host
from tests.node.work import assert_no_slow_turn, clock_counts_work
from tests.waiting import ended

KEYS: Final[Keys] = of_secret(new_secret())  # of both hosts
PATIENCE_S: Final = 30.0
EVERY_S: Final = 0.05
ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)


def pages() -> list[NDArray[np.uint8]]:
    """Two pools of 64 pages of 4 KiB."""
    return [np.zeros((64, 1, 1, 4096), np.uint8) for _ in range(2)]


class Pair:
    """version: of IP. source_host, sink_host: the addresses of the engines, if not those of their
    hosts.
    """

    def __init__(
        self, prefill: Host, decode: Host, version: int, *, engine: str = "tcp",
        prefill_link: Link | None = None, decode_link: Link | None = None,
        source_host: str | None = None, sink_host: str | None = None,
        waits: dict[str, float] | None = None,
    ) -> None:
        self.theirs, self.ours = pages(), pages()
        self._counting = ExitStack()
        self._counting.enter_context(clock_counts_work())
        here, there = prefill.address(version), decode.address(version)
        self.prefill = prefill.call(lambda: PrefillNode(
            "p0", SourcePages(self.theirs, open_source(engine, source_host or here)),
            link=prefill_link or Link(tcp_at(here), curve=KEYS.curve), waits=waits))
        self.decode = decode.call(lambda: DecodeNode(
            "d0", SinkPages({"p0": self.ours}, open_sink(engine, sink_host or there)),
            link=decode_link or Link(tcp_at(there), curve=KEYS.curve), waits=waits))
        zone = "".join(here.partition("%")[1:])  # of the host that asks
        self.where = prefill.call(lambda: self.prefill._loop.address_for(
            tcp_at(without_zone(there) + zone, 1)))

    def hand_over(self, room: int) -> Receiver:
        """One hand-over of two pages, to its end."""
        value = room % 251
        for layer in self.theirs:
            layer[:2] = value
        sender = self.prefill.open(room)
        receiver = self.decode.open(room, {"p0": self.where}, pages=[8, 9], slot=0)
        sent = False
        deadline = time.monotonic() + PATIENCE_S
        while receiver.poll() not in ENDED:
            if not sent and sender.poll() is KVPoll.WAITING_FOR_INPUT:
                sender.send([0, 1])
                sent = True
            assert time.monotonic() < deadline, f"room {room} never ended: {receiver.poll()}"
            time.sleep(0.001)
        if receiver.poll() is KVPoll.SUCCESS:
            assert all((layer[8:10] == value).all() for layer in self.ours)
        sender.close()
        receiver.close()
        return receiver

    def close(self) -> None:
        self.prefill.close()
        self.decode.close()
        self._counting.close()


@contextmanager
def joined(pair: Pair) -> Iterator[Pair]:
    try:
        yield pair
    finally:
        pair.close()


@dataclass(slots=True)
class Traffic:
    """Hand-overs without end, one after the other. ended: when each has, and why it failed, if."""

    pair: Pair
    ended: list[tuple[float, str]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        room = 0
        try:
            while not self.ending.wait(EVERY_S):
                room += 1
                receiver = self.pair.hand_over(room)
                why = "" if receiver.poll() is KVPoll.SUCCESS else str(receiver.failure)
                self.ended.append((time.monotonic(), why))
        except BaseException as error:
            self.errors.append(error)

    def success_after(self, moment: float, within_s: float) -> bool:
        """Wait for a hand-over to succeed after a moment; whether one does in time."""
        while time.monotonic() < moment + within_s and not self.errors:
            if any(when > moment and not why for when, why in list(self.ended)):
                return True
            time.sleep(0.01)
        return False

    @property
    def failures(self) -> list[str]:
        return [why for _, why in self.ended if why]


@contextmanager
def flowing(pair: Pair) -> Iterator[Traffic]:
    """Hand-overs between the two nodes, of which the first have succeeded."""
    running = Traffic(pair)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        assert running.success_after(time.monotonic(), 10.0)
        yield running
    finally:
        running.ending.set()
        ended(thread)
    assert running.errors == []
    for node in (pair.prefill, pair.decode):
        assert node._loop.turn_errors == node._core.mistakes == 0
        assert_no_slow_turn(node.name, node._loop.pace)
