"""A control connection that is cut one way heals by itself, and health() says so meanwhile.

A hand-over every 50 ms from a prefill node on one host to a decode node on another, over TCP.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from pdproto.engine.contract import Result
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.node.link import place_of
from pdproto.transport.nodes import RunningNode
from tests.hosts.cuts import severable
from tests.hosts.namespaces import hosts
from tests.hosts.pairs import Pair, Traffic, flowing, joined
from tests.hosts.wire import Wire
from tests.waiting import until

HEALS_S: Final = 5.0  # after the network has healed
WRITTEN_BYTES: Final = 32 << 20
CUT_S: Final = 12.0
DELAY_S: Final = 0.1  # each way: health() is not well for several times that, until the redial
WAITS: Final = {"bootstrap_timeout": 6.0, "transfer_timeout": 6.0, "no_drain": 1.0}


@contextmanager
def traffic(wire: Wire, version: int = 4) -> Iterator[Traffic]:
    with (hosts(wire.join) as found, joined(Pair(*found, version, waits=WAITS)) as pair,
          flowing(pair) as running):
        yield running


def said(node: RunningNode, until: float) -> set[str]:
    """All that health() says until then, without its numbers."""
    found = set()
    while time.monotonic() < until:
        health = node.health()
        if health is not None:
            found.add(" ".join(word for word in health.split() if not word.isdigit()))
        time.sleep(0.02)
    return found


def heal_time(running: Traffic) -> str:
    now = time.monotonic()
    return str([(round(when - now, 1), why[:90]) for when, why in running.ended[-12:]])


@pytest.mark.parametrize("version", [4, 6])
def test_a_firewall_that_drops_messages_of_prefill_fails_no_hand_over(version: int) -> None:
    wire = Wire()
    with traffic(wire, version) as running:
        ends = running.pair
        wire.delay_s = DELAY_S
        before = time.monotonic()
        assert wire.forget(place_of(ends.decode.bound)[1]) == 1
        healths = said(ends.decode, before + 4.0) | said(ends.prefill, time.monotonic())
        assert running.success_after(before + 1.0, HEALS_S), heal_time(running)
        assert running.failures == []
        assert any("node d0: nothing has come from p0 for" in what for what in healths), healths
        assert ends.prefill._core.connections.redials >= 1
        assert ends.decode.health() is ends.prefill.health() is None


def test_a_firewall_that_drops_messages_of_decode_fails_no_hand_over() -> None:
    wire = Wire()
    with traffic(wire) as running:
        ends = running.pair
        wire.delay_s = DELAY_S
        before = time.monotonic()
        assert wire.forget(place_of(ends.prefill.bound)[1]) == 1
        healths = said(ends.prefill, before + 4.0)
        assert running.success_after(before + 1.0, HEALS_S), heal_time(running)
        assert running.failures == []
        assert any("node p0: nothing has come from d0 for" in what for what in healths), healths
        assert ends.decode._core.connections.redials >= 1
        assert ends.decode.health() is ends.prefill.health() is None


@pytest.mark.parametrize("silent", [0, 1], ids=["prefill", "decode"])
def test_hand_overs_go_on_soon_after_a_one_way_cut_has_healed(silent: int) -> None:
    with (severable() as (found, cut), joined(Pair(*found, 4, waits=WAITS)) as ends,
          flowing(ends) as running):
        cut({silent})
        healths = said(ends.decode, time.monotonic() + CUT_S)
        healed = time.monotonic()
        cut(())
        assert running.success_after(healed, HEALS_S), heal_time(running)
        assert running.failures == []  # clocks stand still while the peer is suspected
        assert any("node d0: nothing has come from p0 for" in what for what in healths), healths


@pytest.mark.parametrize("cut", [0, 1], ids=["source", "sink"])
def test_the_tcp_engine_writes_again_soon_after_a_cut_in_mid_write(cut: int) -> None:
    """The kernel's own retries double: after a cut of 7 s the next comes 6 s later."""
    wire = Wire()
    with hosts(wire.join) as (one, other):
        sink = other.call(lambda: TcpSink(host=other.v4))
        source = one.call(TcpSource)
        try:
            lease = sink.lease("life", "p0", WRITTEN_BYTES)
            assert lease is not None
            carried = wire.carried
            source.post(lease.address, 0, [bytes(WRITTEN_BYTES)])
            until(lambda: wire.carried > carried + 20, "packets")
            wire.cut = frozenset({cut})
            time.sleep(7.0)
            wire.cut = frozenset()
            number = source.post(lease.address, 0, [b"again"])
            healed, outcomes = time.monotonic(), dict[int, Result]()
            while number not in outcomes and time.monotonic() < healed + HEALS_S:
                outcomes |= {outcome.write: outcome.result for outcome in source.completed()}
                time.sleep(0.01)
            assert outcomes.get(number) is Result.LANDED, outcomes
        finally:
            source.close()
            sink.close()
