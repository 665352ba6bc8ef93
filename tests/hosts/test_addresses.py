"""Which address a peer on another host is told, and which is refused."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final, TypeVar

import pytest

from pdproto.engine.contract import EngineError
from pdproto.engine.tcp_sink import TcpSink
from pdproto.net.hosts import is_elsewhere, route_to
from pdproto.node.link import Link, tcp_at
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import RefusedError, Registration
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.poll import KVPoll
from tests.hosts.namespaces import Host, hosts
from tests.hosts.pairs import KEYS, Pair, joined

T = TypeVar("T")

ONE_RANK: Final[dict[str, Any]] = {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_port": 7}


def asked(host: Host, registry: str, question: Callable[[RegistryClient], T]) -> T:
    """What the registry answers to a client on that host."""
    def ask() -> T:
        with closing(RegistryClient(registry, keys=KEYS)) as client:
            return question(client)
    return host.call(ask)


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    with hosts() as found:
        yield found


@pytest.mark.parametrize(("bind", "version"), [
    ("tcp://*:0", 4), ("tcp://0.0.0.0:0", 4), ("tcp://[::]:0", 4), ("tcp://[::]:0", 6)])
def test_a_wildcard_tells_each_peer_the_address_of_the_route_to_it(
    pair: tuple[Host, Host], bind: str, version: int
) -> None:
    link = Link(bind, curve=KEYS.curve)
    with joined(Pair(*pair, version, prefill_link=link, decode_link=link)) as ends:
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        told = ends.prefill._core.peers["d0"].endpoint
    assert told.startswith(tcp_at(pair[1].address(version)).removesuffix("0"))


def test_a_wildcard_without_ipv6_is_not_told_to_a_peer_that_has_only_that(
    pair: tuple[Host, Host],
) -> None:
    with joined(Pair(*pair, 6, decode_link=Link("tcp://*:0", curve=KEYS.curve))) as ends:
        receiver = ends.hand_over(1)
        assert receiver.poll() is KVPoll.FAILED
        assert r"Link('tcp://[::]:0')" in str(receiver.failure)


def test_a_node_on_the_loopback_interface_says_what_to_do_about_a_peer_elsewhere(
    pair: tuple[Host, Host],
) -> None:
    with joined(Pair(*pair, 4, decode_link=Link(curve=KEYS.curve))) as ends:
        receiver = ends.hand_over(1)
        assert receiver.metrics.seconds < 1
        assert (f"node d0 listens on 127.0.0.1, which {pair[0].v4} cannot call: start it with "
                f"Link('tcp://{pair[1].v4}:0')") in str(receiver.failure)
        assert ends.prefill._core.peers == {}


def test_an_engine_on_the_loopback_interface_is_not_published_elsewhere(
    pair: tuple[Host, Host],
) -> None:
    with joined(Pair(*pair, 4, sink_host="127.0.0.1")) as ends:
        receiver = ends.hand_over(1)
        assert receiver.metrics.seconds < 1
        assert (f"the engine listens on 127.0.0.1, which a source at {pair[0].v4} cannot call: "
                f"start it on {pair[1].v4}") in str(receiver.failure)


@pytest.mark.parametrize("version", [4, 6])
def test_shared_memory_between_hosts_is_refused_by_name(
    pair: tuple[Host, Host], version: int
) -> None:
    with joined(Pair(*pair, version, engine="shm")) as ends:
        receiver = ends.hand_over(1)
        assert receiver.metrics.seconds < 1
        assert (f"shared memory works only within this host, and the source is at "
                f"{pair[0].address(version)}") in str(receiver.failure)


def test_shared_memory_takes_any_address_of_its_own_host(pair: tuple[Host, Host]) -> None:
    with joined(Pair(pair[0], pair[0], 6, engine="shm")) as ends:
        assert ends.hand_over(1).poll() is KVPoll.SUCCESS


def test_a_wildcard_is_no_address_to_call() -> None:
    with pytest.raises(EngineError, match=r"sources cannot be told to call '0\.0\.0\.0'"):
        TcpSink(host="0.0.0.0")  # noqa: S104 - it is refused
    with joined(Pair(LOCAL, LOCAL, 4)) as ends, pytest.raises(
            RemoteProtocolError, match="stands for every address of a host"):
        ends.decode._loop.address_for("tcp://0.0.0.0:5")
    sink = TcpSink(host="::", advertised="127.0.0.1")
    sink.close()


class Here(Host):
    """This host: nothing is entered."""

    def enter(self) -> None:
        pass


LOCAL: Final = Here("", "lo", "127.0.0.1", "::1")


def test_a_host_knows_its_own_addresses(pair: tuple[Host, Host]) -> None:
    one, other = pair
    for version in (4, 6):
        near, far = one.address(version), other.address(version)
        assert one.call(lambda far=far: route_to(far)) == near  # type: ignore[misc]
        assert one.call(lambda far=far: is_elsewhere(far))  # type: ignore[misc]
        assert not one.call(lambda near=near: is_elsewhere(near))  # type: ignore[misc]
    assert not one.call(lambda: is_elsewhere("127.0.0.1"))
    assert not one.call(lambda: is_elsewhere("some-name"))


@pytest.mark.parametrize("version", [4, 6])
def test_a_registry_at_every_address_answers_both_families(
    pair: tuple[Host, Host], version: int
) -> None:
    one, other = pair
    server = RegistryServer("::", keys=KEYS)
    one.call(server.start)
    try:
        address = tcp_at(one.address(version), server.port).removeprefix("tcp://")
        registration = Registration(**ONE_RANK, rank_ip=other.address(version))
        asked(other, address, lambda client: client.register(registration))
        found = asked(other, address, RegistryClient.look_up_all)
        assert [r.address.rank_ip for r in found.ranks] == [other.address(version)]
    finally:
        server.stop()


@pytest.mark.parametrize("rank_ip", ["127.0.0.1", "::1", "0.0.0.0", "::"])  # noqa: S104 - refused
def test_the_registry_takes_no_address_that_nobody_else_can_call(
    pair: tuple[Host, Host], rank_ip: str
) -> None:
    one, other = pair
    server = RegistryServer(one.v4, keys=KEYS)
    one.call(server.start)
    try:
        registration = Registration(**ONE_RANK, rank_ip=rank_ip)
        with pytest.raises(RefusedError, match=f"rank_ip: {rank_ip} "):
            asked(other, server.address, lambda client: client.register(registration))
    finally:
        server.stop()


def test_decode_does_not_call_what_only_the_registrys_host_can(pair: tuple[Host, Host]) -> None:
    one, other = pair
    server = RegistryServer("0.0.0.0", keys=KEYS)  # noqa: S104 - of a namespace
    one.call(server.start)
    try:
        registration = Registration(**ONE_RANK, rank_ip="127.0.0.1")
        asked(one, f"127.0.0.1:{server.port}", lambda client: client.register(registration))
        with pytest.raises(RefusedError, match=r"127\.0\.0\.1, which only its own host can reach"):
            asked(other, f"{one.v4}:{server.port}", RegistryClient.look_up_all)
        assert asked(one, f"127.0.0.1:{server.port}", RegistryClient.look_up_all).ranks
    finally:
        server.stop()
