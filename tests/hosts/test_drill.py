"""`pdproto handoff` between two hosts: prefill on one, with the registry, and decode on the other.

Every byte is compared, and everything must come back, as on one host.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from pdproto.drill.children import Child
from pdproto.drill.handoff.cluster import HandoffCluster
from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.run import WAITS
from pdproto.drill.handoff.verdict import HandoffVerdict
from tests.engine.engines import MISSING
from tests.hosts.entered import run_there
from tests.hosts.namespaces import Host, hosts
from tests.hosts.pairs import KEYS
from tests.hosts.wire import Wire

REQUESTS: Final = 40
ENGINES: Final = ("tcp", *sorted(MISSING))


class TwoHosts(HandoffCluster):
    """A drill whose decode ranks are on the second host."""

    def __init__(self, pair: tuple[Host, Host], version: int, engine: str, load: Load,
                 topology: Topology, *, direct: bool = False) -> None:
        self._pair, self._version = pair, version
        super().__init__(topology, load, engine=engine, direct=direct, waits=WAITS, trace=None,
                         keys=KEYS)

    def host_of(self, name: str) -> str:
        return self._on(name).address(self._version)

    def child(self, name: str, body: Callable[..., None], *arguments: Any) -> Child:
        return super().child(name, run_there, self._on(name).path, body, *arguments)

    def _on(self, name: str) -> Host:
        return self._pair[name.startswith("decode")]


def drill(pair: tuple[Host, Host], version: int, engine: str, *, direct: bool = False) -> None:
    topology = Topology(pp=2, tp=1, cp=1)
    load = Load(seed=0, requests=REQUESTS, layers=4, page_bytes=4096, request_pages_max=8,
                pool_pages=512, abort_rate=0.2, abort_within_s=0.02, in_flight=16)
    cluster = TwoHosts(pair, version, engine, load, topology, direct=direct)
    try:
        cluster.begin()
        cluster.run(120.0, lambda _: None)
    finally:
        cluster.close()
    verdict = HandoffVerdict(topology, load, cluster.members, started=0.0, ended=1.0,
                             restarted=frozenset(), survivors=[])
    assert verdict.complaints == ()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_drill_between_two_hosts(engine: str, version: int) -> None:
    if MISSING.get(engine):
        pytest.skip(MISSING[engine])
    with hosts() as pair:
        drill(pair, version, engine)


def test_direct_writes_between_two_hosts() -> None:
    with hosts() as pair:
        drill(pair, 6, "tcp", direct=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drill_over_a_wire_that_loses_and_delays(engine: str) -> None:
    if MISSING.get(engine):
        pytest.skip(MISSING[engine])
    wire = Wire(delay_s=0.005, loss=0.01)
    with hosts(wire.join) as pair:
        drill(pair, 4, engine)
    assert wire.lost > 0
