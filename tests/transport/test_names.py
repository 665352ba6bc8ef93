"""Endpoints with the name of a host: a name server that is silent stops no other hand-over."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event
from time import sleep
from typing import Any

import pytest

from pdproto.node.link import Link, place_of
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import resolver
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls
from tests.waiting import until

QUICK = Link(sign_of_life_s=0.05, silent_s=0.2, grace_s=0.1)


class Names:
    """The name server: it knows one name, is silent about another, and has no other."""

    def __init__(self) -> None:
        self.silent = Event()

    def ask(self, name: str, *_: Any, **__: Any) -> Any:
        if name == "prefill.test":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
        if name == "silent.test":
            self.silent.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr(resolver, "getaddrinfo", made.ask)
    yield made
    made.silent.set()


def test_names_are_resolved_beside_the_hand_overs(names: Names) -> None:
    """Seen red with names given to ZeroMQ: "prefill.test" is never reached."""
    fabric = Fabric()
    with ExitStack() as opened:
        decode = DecodeNode("d", SinkDataPath("d", fabric), link=QUICK)
        opened.callback(decode.close)
        prefills = [PrefillNode(name, SourceDataPath(name, fabric), link=QUICK)
                    for name in ("p", "q")]
        for one in prefills:
            opened.callback(one.close)
        silent = decode.open(100, {"s": "tcp://silent.test:5000"}, pages=[100])
        unknown = decode.open(101, {"u": "tcp://unknown.test:5000"}, pages=[101])
        named = f"tcp://prefill.test:{place_of(prefills[1].endpoint)[1]}"
        for room, (prefill, endpoint) in enumerate(
                [(prefills[0], prefills[0].endpoint), (prefills[1], named)] * 3):
            sender = prefill.open(room)
            receiver = decode.open(room, {prefill.name: endpoint}, pages=[room])
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            sender.send([room])
            until(polls([receiver], KVPoll.SUCCESS))
            receiver.close()
        until(polls([unknown], KVPoll.FAILED))
        assert "name unknown.test is not resolved: " in str(unknown.failure)
        sleep(0.8)  # four times as long as an address has to answer
        assert silent.poll() is not KVPoll.FAILED, "no name server has said that there is no host"
        names.silent.set()
        until(polls([silent], KVPoll.FAILED))


def test_a_node_that_is_closed_waits_for_no_name(names: Names) -> None:
    decode = DecodeNode("d", SinkDataPath("d", Fabric()), link=QUICK)
    decode.open(1, {"s": "tcp://silent.test:5000"}, pages=[1])
    until(lambda: "s" in decode._core.peers)
    decode.close()  # it would hang for as long as the name server is silent
    names.silent.set()


def test_names_that_are_asked_for_are_bounded(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "UNDER_WAY_MAX", 1)
    fabric = Fabric()
    with ExitStack() as opened:
        decode = DecodeNode("d", SinkDataPath("d", fabric), link=QUICK)
        opened.callback(decode.close)
        decode.open(1, {"s": "tcp://silent.test:5000"}, pages=[1])
        other = decode.open(2, {"t": "tcp://other.test:5000"}, pages=[2])
        until(polls([other], KVPoll.FAILED))
        assert "name other.test is not resolved: the name server has not" in str(other.failure)
        names.silent.set()
