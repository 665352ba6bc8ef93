"""Link-local addresses, whose zone names an interface: fe80::1%eth0.

Seen red with (host, port) given to the sockets: each test here.
"""

import socket
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Final

import psutil
import pytest

from pdproto.engine.source import dial
from pdproto.net.hosts import (
    is_elsewhere,
    is_loopback,
    joined,
    listening,
    own_address,
    place_in_kernel,
    route_to,
    split,
)
from pdproto.node.link import Link, host_of, tcp_at
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.settings import load
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls, published
from tests.node.processes import victim
from tests.skips import NO_LINK_LOCAL
from tests.waiting import until


def zoned() -> str | None:
    """A link-local address of this host, with its zone."""
    found = [one.address for each in psutil.net_if_addrs().values() for one in each
             if one.family == socket.AF_INET6 and one.address.startswith("fe80:")]
    return next((one for one in found if "%" in one), None)


HERE: Final = zoned()
needs_one = pytest.mark.skipif(HERE is None, reason=NO_LINK_LOCAL)


def is_called(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def prefill_process(bind: str, pipe: Connection) -> None:
    """A prefill rank at that address, until it is killed."""
    node = PrefillNode("p0", SourceDataPath("p0", Fabric()), link=Link(bind=bind, insecure=True))
    pipe.send(node.endpoint)
    node.open(7)
    pipe.recv()


def test_a_zone_is_the_number_of_an_interface_of_this_host() -> None:
    (number, name), *_ = socket.if_nameindex()
    assert place_in_kernel(f"fe80::1%{name}", 5) == ("fe80::1", 5, 0, number)
    assert place_in_kernel("fe80::1%3", 5) == ("fe80::1", 5, 0, 3)
    assert place_in_kernel("fd00::1", 5) == ("fd00::1", 5)
    assert split(joined(f"fe80::1%{name}", 5)) == (f"fe80::1%{name}", 5)
    assert host_of(tcp_at(f"fe80::1%{name}", 5)) == f"fe80::1%{name}"


def test_a_zone_of_another_host_is_refused_with_its_name() -> None:
    with pytest.raises(OSError, match=r"fe80::1%nowhere: this host has no interface nowhere: want"):
        place_in_kernel("fe80::1%nowhere", 5)


@pytest.mark.parametrize("bound", ["[::1]", "[::]", "127.0.0.1"])
def test_a_node_calls_no_peer_in_a_zone_of_another_host(bound: str) -> None:
    """Seen red with a node that asks no kernel about the zone, where it listens at one address."""
    link = Link(bind=f"tcp://{bound}:0", insecure=True)
    with closing(DecodeNode("d0", SinkDataPath("d0", Fabric()), link=link)) as node, \
            pytest.raises(RemoteProtocolError, match="this host has no interface nowhere"):
        node._loop.address_for("tcp://[fe80::1%nowhere]:5")


@needs_one
def test_a_socket_listens_and_is_called_there() -> None:
    assert HERE is not None
    assert not is_loopback(HERE)
    assert not is_elsewhere(HERE)
    assert route_to(HERE) == HERE
    with listening(HERE, 0) as listener:
        assert own_address(listener) == HERE
        with closing(dial(joined(HERE, listener.getsockname()[1]))) as calling:
            until(lambda: is_called(listener))
            assert own_address(calling) == HERE
    assert load({}, [f"host={HERE}", "insecure=1"]).link().bind == f"tcp://[{HERE}]:0"


@needs_one
def test_a_process_that_is_killed_there_is_lost_at_once() -> None:
    """The kernel of its host refuses the next connection."""
    assert HERE is not None
    link = Link(bind=tcp_at(HERE), insecure=True, absent_s=600.0)
    with victim(prefill_process, tcp_at(HERE)) as (process, pipe):
        node = DecodeNode("d0", SinkDataPath("d0", Fabric()), link=link)
        try:
            (receiver,) = published([node.open(7, {"p0": pipe.recv()})])
            until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
            process.kill()
            until(polls([receiver], KVPoll.FAILED))
            assert "its host refuses" in str(receiver.failure)
        finally:
            node.close()
