"""A registry that a living prefill rank does not reach, or that does not reach the rank.

The rank is on one host. Decode, the registry and a second rank of the prefill server are on another
one. The link between the hosts carries a hand-over every 50 ms all the time: only packets of the
registry's connections are lost, in one direction or in both.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pytest

from pdproto.node.link import place_of
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import MissingError, RegistryClient
from pdproto.registry.finder import Finder
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank, Registration
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff.timers import WAITS
from tests.hosts.namespaces import Host, hosts
from tests.hosts.pairs import KEYS, Pair, Traffic, flowing, joined
from tests.hosts.wire import Wire
from tests.waiting import until

FAR, NEAR = Rank(0, 0, 0, 0), Rank(0, 0, 0, 1)  # the rank that is cut off, and the other one
PREFILL, REGISTRY = 0, 1  # places of hosts
EVERY_S: Final = 0.05
SILENT_S: Final = WAITS["no_sign_of_life"].seconds
INTERVAL_S: Final = WAITS["sign_of_life"].seconds
HELD_S: Final = 3.0  # the cut goes on after the registry has noticed it
SLACK_S: Final = 5.0  # of a machine that does much else
PATIENCE_S: Final = 10.0

Listed = tuple[tuple[Rank, int], ...]  # each rank in an answer, with its incarnation


@dataclass(slots=True)
class Watch:
    """Asks for all ranks without end. answers: when each came, and what it lists; () if it says
    that a rank is missing.
    """

    address: str
    answers: list[tuple[float, Listed]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            with closing(RegistryClient(self.address, keys=KEYS)) as client:
                while not self.ending.wait(EVERY_S):
                    try:
                        ranks = client.look_up_all().ranks
                    except MissingError:
                        ranks = ()
                    listed = tuple((Rank(one.dp, one.cp, one.tp, one.pp), one.address.incarnation)
                                   for one in ranks)
                    self.answers.append((time.monotonic(), listed))
        except BaseException as error:
            self.errors.append(error)

    def until(self, ranks: int, since: float, within_s: float) -> float:
        """Wait for an answer that lists so many. Returns how many seconds after `since` it came."""
        while True:
            for when, listed in list(self.answers):
                if when > since and len(listed) == ranks:
                    return when - since
            assert self.errors == []
            assert time.monotonic() < since + within_s, (
                f"no answer listed {ranks} ranks within {within_s:g} s: {self.answers[-1]}")
            time.sleep(EVERY_S)


@dataclass(frozen=True, slots=True)
class Place:
    """All that runs. far: keeps the rank registered that will be cut off. found: how the decode
    rank has found its prefill ranks.
    """

    host: Host  # of decode and of the registry
    server: RegistryServer
    far: Registrar
    found: Finder
    watch: Watch
    running: Traffic

    def finder(self, name: str) -> Finder:
        finder = Finder(self.server.address, name, [FAR, NEAR], keys=KEYS)
        self.host.call(finder.start)
        return finder


def registrar(server: RegistryServer, host: Host, rank: Rank, port: int) -> Registrar:
    registering = Registrar(server.address, Registration(
        attn_tp_size=1, attn_tp_rank=0, pp_size=2, pp_rank=rank.pp, rank_ip=host.v4,
        rank_port=port, incarnation=1000, version=VERSION), keys=KEYS)
    host.call(registering.start)
    assert registering.recorded.wait(PATIENCE_S)
    return registering


@contextmanager
def running(wire: Wire) -> Iterator[Place]:
    with (hosts(wire.join) as (one, other), joined(Pair(one, other, 4)) as pair,
          flowing(pair) as traffic):
        server = RegistryServer(other.v4, keys=KEYS)
        other.call(server.start)
        ending: list[Callable[[], Any]] = [server.stop]
        try:
            far = registrar(server, one, FAR, place_of(pair.prefill.bound)[1])
            near = registrar(server, other, NEAR, 5001)
            ending += (far.stop, near.stop)
            watch = Watch(server.address)
            thread = threading.Thread(target=watch.run)
            place = Place(other, server, far, Finder(server.address, "d0", [FAR, NEAR], keys=KEYS),
                          watch, traffic)
            other.call(place.found.start)
            other.call(thread.start)
            ending += (place.found.stop, thread.join, watch.ending.set)
            yield place
        finally:
            for end in reversed(ending):
                end()
        assert watch.errors == []


def until_found(finder: Finder) -> int:
    """Wait for it to find the rank that comes back, and end it. Returns the run."""
    until(lambda: finder.found is not None, lambda: str(finder.problem), within_s=PATIENCE_S)
    finder.stop()
    assert finder.found is not None
    return finder.found[FAR].incarnation


@pytest.mark.slow
@pytest.mark.parametrize("silent", [
    pytest.param({PREFILL}, id="to the registry", marks=pytest.mark.nightly),
    pytest.param({REGISTRY}, id="from the registry", marks=pytest.mark.nightly),
    pytest.param({PREFILL, REGISTRY}, id="both ways")])
def test_a_rank_that_the_registry_wrongly_calls_lost_comes_back_by_itself(
    silent: set[int]
) -> None:
    wire = Wire()
    with running(wire) as place:
        watch, began = place.watch, time.monotonic()
        watch.until(2, began, PATIENCE_S)
        before = place.far.registration.incarnation
        cut = time.monotonic()
        wire.blocked = frozenset((at, place.server.port) for at in silent)
        lost_s = watch.until(0, cut, SILENT_S + INTERVAL_S + SLACK_S)
        late = place.finder("d1")
        time.sleep(HELD_S)
        assert late.found is None
        assert f"1 of 2 ranks are missing, {FAR} first" in late.problem
        ended, healed = len(place.running.ended), time.monotonic()
        assert ended > 10, "hand-overs in the cut"
        wire.blocked = frozenset()
        back_s = watch.until(2, healed, PATIENCE_S)
        assert back_s < INTERVAL_S + SLACK_S
        after = place.far.registration.incarnation
        assert place.running.success_after(healed + back_s, PATIENCE_S)
        found = until_found(late)
    assert before is not None
    assert after is not None
    assert before < after == found
    assert lost_s > SILENT_S - INTERVAL_S, "not before it was silent"
    # Nothing is listed twice, and after the loss no answer names the earlier run.
    expected = [[(FAR, before), (NEAR, 1000)], [], [(FAR, after), (NEAR, 1000)]]
    assert [listed for listed, _ in groupby(sorted(of) for _, of in watch.answers)] == expected
    assert place.running.failures == []
