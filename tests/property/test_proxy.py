"""The proxy does what it says to what passes through it, and no more."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from operator import methodcaller
from typing import Final

import pytest
import zmq

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.testing.proxy import DOUBLED, LOST, PASSES, Fate, Proxy, split
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls
from tests.property.network import Network, network
from tests.waiting import until

WAIT_MS: Final = 10_000


class Line:
    """A DEALER that calls a ROUTER through the proxy."""

    def __init__(self, net: Network) -> None:
        self._context = zmq.Context()
        self.router = self._context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        where = net.do(lambda proxy: proxy.open("listener", f"tcp://127.0.0.1:{port}"))
        self.dealer = self._context.socket(zmq.DEALER)
        self.dealer.setsockopt_string(zmq.IDENTITY, "caller")
        self.dealer.setsockopt(zmq.RECONNECT_IVL, 10)
        self.dealer.connect(where)
        self.say(b"hello")
        assert self.hear(1) == [[b"caller", b"hello"]]

    def say(self, *parts: bytes) -> None:
        self.dealer.send_multipart(parts)

    def hear(self, count: int) -> list[list[bytes]]:
        """The next messages, and no more than those."""
        heard: list[list[bytes]] = []
        for _ in range(count):
            assert self.router.poll(WAIT_MS), f"only {heard} came"
            heard.append(self.router.recv_multipart())
        assert not self.router.poll(50)
        return heard

    def close(self) -> None:
        self.dealer.close(linger=0)
        self.router.close(linger=0)
        self._context.term()


@contextmanager
def line(net: Network) -> Iterator[Line]:
    it = Line(net)
    try:
        yield it
    finally:
        it.close()


def fated(net: Network, *fates: Fate) -> None:
    """So it goes with the next messages, and all others pass."""
    of = chain(fates, repeat(PASSES))
    net.do(lambda proxy: setattr(proxy, "fate", lambda _: next(of)))


def connected(net: Network, count: int) -> bool:
    return net.proxy.counts["connections"] == count


SLOW: Final = Fate(delay_s=0.1)
OVERTAKEN: Final = Fate(delay_s=0.1, in_order=False)


@pytest.mark.parametrize(("fates", "heard"), [
    ([], "abcd"),
    ([LOST], "bcd"),
    ([PASSES, DOUBLED], "abbcd"),
    ([PASSES, OVERTAKEN], "acdb"),
    ([PASSES, SLOW], "abcd"),
    ([OVERTAKEN, LOST, DOUBLED], "ccda"),
])
def test_fates(fates: Sequence[Fate], heard: str) -> None:
    """Messages of several frames, short and long, keep whole whatever becomes of them.

    All have come before the first that is late goes on: until then the clock stands still.
    """
    now = 0.0
    with network(lambda: now) as net, line(net) as it:
        fated(net, *fates)
        come = net.proxy.counts["messages"]
        for letter in "abcd":
            it.say(letter.encode(), b"x" * 300)
        until(lambda: net.proxy.counts["messages"] == come + 4)
        now = 1.0
        wanted = [[b"caller", letter.encode(), b"x" * 300] for letter in heard]
        assert it.hear(len(heard)) == wanted


def test_a_message_that_is_larger_than_one_read() -> None:
    with network() as net, line(net) as it:
        it.say(b"y" * 3_000_000)
        assert it.hear(1) == [[b"caller", b"y" * 3_000_000]]


def test_connections_are_cut_and_come_back() -> None:
    with network() as net, line(net) as it:
        for count in (2, 3):
            net.do(lambda proxy: proxy.cut("listener"))
            until(partial(connected, net, count))
            it.say(b"again")
            assert it.hear(1) == [[b"caller", b"again"]]
        assert net.proxy.counts["ended"] == 2


def test_a_door_that_is_held() -> None:
    with network() as net, line(net) as it:
        net.do(lambda proxy: proxy.hold("listener"))
        it.say(b"late")
        assert it.hear(0) == []
        net.do(Proxy.heal)
        assert it.hear(1) == [[b"caller", b"late"]]


def test_nobody_is_behind_the_door() -> None:
    """Who calls is sent away, and let in when somebody is there."""
    with network() as net, line(net) as it:
        net.do(lambda proxy: proxy.aim("listener", "tcp://127.0.0.1:1"))
        net.do(lambda proxy: proxy.cut("listener"))
        until(lambda: net.proxy.counts["unanswered"])
        port = it.router.getsockopt_string(zmq.LAST_ENDPOINT)
        net.do(lambda proxy: proxy.aim("listener", port))
        it.say(b"there")
        assert it.hear(1) == [[b"caller", b"there"]]


def test_whole_messages_are_told_from_incomplete_ones() -> None:
    """At every place where the bytes may be torn apart."""
    ping = b"\x04\x03abc"
    message = b"\x01\x01m" + b"\x02" + (300).to_bytes(8) + b"n" * 300
    stream = ping + message + ping
    for place in range(len(stream) + 1):
        heard = bytearray(stream[:place])
        parts = [*split(heard)]
        heard += stream[place:]
        parts += split(heard)
        assert parts == [(ping, False), (message, True), (ping, False)]
        assert not heard


def test_nodes_that_advertise_another_endpoint() -> None:
    """All that they say goes through the listeners, and they have no other way to each other."""
    fabric = Fabric()
    with network() as net:
        at = {name: net.do(methodcaller("open", name)) for name in ("p0", "d0")}
        prefill = PrefillNode("p0", SourceDataPath("p0", fabric), link=Link(advertise=at["p0"]))
        decode = DecodeNode("d0", SinkDataPath("d0", fabric), link=Link(advertise=at["d0"]))
        for node in (prefill, decode):
            net.do(methodcaller("aim", node.name, node.bound))
        sender, receiver = prefill.open(7), decode.open(7, {"p0": prefill.endpoint})
        receiver.publish([1, 2])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([3, 4])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        assert decode._core.peers["p0"].endpoint == at["p0"]
        assert prefill._core.peers["d0"].endpoint == at["d0"]
        assert net.proxy.counts["connections"] == 2
        prefill.close()
        decode.close()
