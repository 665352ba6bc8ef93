"""Two hosts that are joined by a cable alone: link-local addresses, on interfaces with other names.

A zone (fe80::1%eth0) names an interface of the host that reads it, so no peer is told one.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest

from pdproto.net.hosts import in_zone, route_to
from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode
from tests.hosts.namespaces import Host, hosts
from tests.hosts.pairs import KEYS, Pair, joined
from tests.node.data_paths import Fabric, SinkDataPath
from tests.waiting import until

SECOND: Final = "pdsecond"  # one more interface
WILDCARD: Final = Link("tcp://[::]:0", curve=KEYS.curve)


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    with hosts() as (one, other):
        yield linked(one, 1), linked(other, 2)


def linked(host: Host, place: int) -> Host:
    """The host at an address of its interface alone."""
    bare = f"fe80::47:{place}"
    host.ip("addr", "add", f"{bare}/64", "dev", host.device, "nodad")
    return replace(host, v6=f"{bare}%{host.device}")


def second(host: Host) -> None:
    """Give the host one more interface with link-local addresses."""
    host.ip("link", "add", SECOND, "type", "veth", "peer", "name", f"{SECOND}p")
    host.ip("link", "set", SECOND, "up")
    host.ip("addr", "add", "fe80::9/64", "dev", SECOND, "nodad")


@pytest.mark.parametrize("interfaces", [1, 2])
def test_interfaces_with_other_names_hand_over(
    pair: tuple[Host, Host], interfaces: int
) -> None:
    if interfaces == 2:
        for host in pair:
            second(host)
    with joined(Pair(*pair, 6)) as ends:
        assert pair[0].device != pair[1].device
        assert "%" not in ends.where + ends.prefill.endpoint + ends.decode.endpoint
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure


def test_a_wildcard_calls_by_the_only_interface(pair: tuple[Host, Host]) -> None:
    with joined(Pair(*pair, 6, decode_link=WILDCARD)) as ends:
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure


def second_cable(one: Host, other: Host) -> None:
    """Join the hosts by one more pair of interfaces, which has the addresses of the first."""
    one.ip("link", "add", SECOND, "type", "veth", "peer", "name", f"{SECOND}p", "netns", other.path)
    for host, device in ((one, SECOND), (other, f"{SECOND}p")):
        host.ip("link", "set", device, "up")
        host.ip("addr", "add", f"{host.v6.partition('%')[0]}/64", "dev", device, "nodad")


@pytest.mark.parametrize("cable", [0, 1])
def test_a_wildcard_calls_back_by_the_interface_by_which_it_was_called(
    pair: tuple[Host, Host], cable: int
) -> None:
    """Prefill is at every address, and two interfaces could be meant. It did not take decode's
    introduction, and decode waited for its clock.
    """
    one, other = pair
    second_cable(one, other)
    if cable:
        bare = [host.v6.partition("%")[0] for host in pair]
        one = replace(one, v6=f"{bare[0]}%{SECOND}")
        other = replace(other, v6=f"{bare[1]}%{SECOND}p")
    with joined(Pair(one, other, 6, prefill_link=WILDCARD)) as ends:
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        assert ends.prefill._core.peers["d0"].ours == ends.where


def test_an_engine_at_every_address_names_the_interfaces_that_may_be_meant(
    pair: tuple[Host, Host]
) -> None:
    """An engine is called by nobody, so it cannot know which is meant."""
    second_cable(*pair)
    with joined(Pair(*pair, 6, prefill_link=WILDCARD, source_host="::")) as ends:
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.FAILED
        assert str(receiver.failure).startswith("p0: a write to d0 was refused: [fe80::47:2]:")
        assert f" may be at each of {pair[0].device}, {SECOND}: start this" in str(receiver.failure)


def test_a_host_with_two_interfaces_asks_for_one(pair: tuple[Host, Host]) -> None:
    one, other = pair
    second(one)
    bare = other.v6.partition("%")[0]
    assert one.call(lambda: route_to(f"{bare}%{one.device}")).endswith(f"%{one.device}")
    with pytest.raises(OSError, match=f"may be at each of .*{SECOND}.*start this node at its own"):
        one.call(lambda: in_zone(bare))
    with closing(one.call(lambda: DecodeNode(
            "d0", SinkDataPath("d0", Fabric()), link=WILDCARD))) as node:
        receiver = node.open(7, {"p0": f"tcp://[{bare}]:5"})
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert "may be at each of" in str(receiver.failure)
