"""A process that does not run waits for nothing meanwhile: its own standstill ends nothing.

Seen red with a clock that goes on (`OwnClock.at` that returns the time of the transport): each test
here but the last two fails, and with a wait of another clock those.
"""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from lab.sim.cluster import simulate
from lab.sim.plan import Fault, Kind, Plan, Shape, planned
from pdproto.node.decode.node import Decode
from pdproto.node.link import Link
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.prefill.node import Prefill
from pdproto.registry import changes
from pdproto.registry.registry import Registry
from pdproto.registry.replica import Alone
from pdproto.registry.wire import RefusedError
from pdproto.runtime.own_clock import OwnClock
from pdproto.runtime.wire import Expecting, Introduce, Life
from pdproto.spec.handoff.attempts import ENDED
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.presence import Presence
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath
from tests.node.offline import Offline
from tests.node.prefills import FakeSender
from tests.node.routed import RoutedCluster
from tests.registry.served import prefill

SOURCES: Final = Path(__file__).resolve().parents[2] / "pdproto"
D0, P0 = (f"tcp://127.0.0.{n}:1" for n in (1, 2))
WAITS: Final = {"bootstrap_timeout": 20.0, "transfer_timeout": 20.0}
STANDS_S: Final = 10_000.0
# The folders whose clocks end a request or a peer; nodes have theirs from their transport.
OTHER_LOOPS: Final = ("drivers", "group", "registry", "sglang", "vllm")
CLOCKS: Final = {"monotonic", "time", "perf_counter", "monotonic_ns", "time_ns"}
# Of the host's clock: what is told, and waits that end nothing.
OF_HOST: Final = {
    "drivers/zeromq.py": 2,  # `serve`: for how long its caller wants it to run
    "registry/app.py": 1,  # a question that was asked before, which changes nothing
    "registry/lookups.py": 2,  # when an answer is old, and is asked for again
    "registry/registrar.py": 2,  # when the next sign of life is due
    "registry/replica.py": 2,  # its own clock; a copy that may be old is not read
    "sglang/manager.py": 1,  # a name
    "sglang/refusals.py": 1,  # its own clock
    "sglang/sender.py": 3,  # metrics
    "vllm/stats.py": 2,  # metrics
}
# Of the transport's clock: the ages and lengths that metrics, spans and operators are told.
TOLD: Final = {
    "node/core.py": {"clock", "turned"},
    "node/node.py": {"clock"}, "node/handle.py": {"clock"},
    "node/endpoints.py": {"turned"}, "node/prefill/senders.py": {"turned"},
    "node/prefill/source_writes.py": {"clock", "turned"},
    "node/decode/sink_memory.py": {"clock", "turned"}, "node/decode/verification.py": {"clock"},
}


def test_only_the_time_of_a_rest_counts() -> None:
    clock = OwnClock(1.0)
    assert clock.begin(100.0) == 100.0
    assert [clock.turn(at) for at in (100.5, 101.5, 141.5, 141.75)] == [100.5, 101.5, 102.5, 102.75]
    assert clock.at(141.75) == 102.75
    assert clock.at(1_000.0) == 103.75, "it goes no further until the next turn"
    assert clock.steady == 102.5


def test_prefill_stands_still_while_a_request_waits_for_decode() -> None:
    node = Prefill("p0", SourceDataPath("p0", Fabric()), link=Link(), incarnation=5, waits=WAITS)
    offline = Offline(node.core)
    alone, met = node.open(7), node.open(8)
    offline.hear("d0", Introduce(Life(8, 17, 0), ("d0",), D0))
    assert (alone.poll(), met.poll()) == (KVPoll.BOOTSTRAPPING, KVPoll.BOOTSTRAPPING)
    offline.stand_still(STANDS_S)
    offline.turn()
    assert (alone.poll(), met.poll()) == (KVPoll.BOOTSTRAPPING, KVPoll.BOOTSTRAPPING)
    assert node.core.peers["d0"].presence is Presence.PRESENT
    assert alone.metrics.seconds >= STANDS_S, "what is told is the time of the host"
    offline.pass_time(20, ("d0", 17))
    assert alone.failure == "bootstrap_timeout after 20 s"


@pytest.mark.parametrize("met", [False, True])
def test_decode_stands_still_while_a_request_waits_for_prefill(*, met: bool) -> None:
    node = Decode("d0", SinkDataPath("d0", Fabric()), link=Link(), incarnation=17, waits=WAITS)
    offline = Offline(node.core)
    receiver = node.open(7, {"p0": P0})
    offline.turn()
    if met:
        receiver.publish([1, 2])
        offline.hear("p0", Expecting(receiver.life), incarnation=5)
    waits = KVPoll.WAITING_FOR_INPUT if met else KVPoll.BOOTSTRAPPING
    assert receiver.poll() is waits
    offline.stand_still(STANDS_S)
    offline.turn()
    assert receiver.poll() is waits
    wait = "transfer_timeout" if met else "bootstrap_timeout"
    offline.pass_time(20, ("p0", 5))  # prefill says that it lives, and sends nothing
    assert str(receiver.failure).startswith(f"{wait} after 20 s")


def test_ranks_stand_still_while_a_room_waits_for_its_other_half() -> None:
    """The waits of rooms, which decode or prefill has begun alone."""
    cluster = RoutedCluster(publishes=True)
    sender, receiver = cluster.put(7, 1), cluster.want(8)
    cluster.settle()
    cluster.now += STANDS_S
    for _ in range(2):
        for process in cluster.processes.values():
            process.turn()
        cluster.settle()
    assert (sender.poll(), receiver.poll()) == (KVPoll.BOOTSTRAPPING, KVPoll.BOOTSTRAPPING)
    cluster.pass_time(700.0)
    assert (sender.poll(), receiver.poll()) == (KVPoll.FAILED, KVPoll.FAILED)


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_stands_still(seed: int) -> None:
    """All its machines are suspended, for longer than all waits together, and go on."""
    plan = planned(seed, Shape(requests=40, pp=1 + seed % 2), Random)
    whole = simulate(_stopped(plan), Random)
    assert whole.violation is None
    assert (whole.succeeded, whole.failed) == (40, 0)


def _stopped(plan: Plan) -> Plan:
    servers = (*plan.servers(lambda one: one.prefill), *plan.servers(lambda one: one.decode))
    return Plan(plan.seed, plan.shape, plan.requests, tuple(
        Fault(number, Kind.PAUSE, 1.0, 1.0 + STANDS_S, server)
        for number, server in enumerate(servers)))


def other_clocks(source: str) -> Iterator[str]:
    """The attributes of a module that give another time than that of the node's own clock."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("clock", "turned"):
            yield node.attr


def test_no_part_of_a_node_waits_by_another_clock() -> None:
    found = {str(path.relative_to(SOURCES)): names for folder in ("node", "group")
             for path in (SOURCES / folder).rglob("*.py")
             if (names := set(other_clocks(path.read_text(encoding="utf-8"))))}
    assert found == TOLD


def times_of_host(source: str) -> int:
    """How often a module reads another clock, or takes it as a default, without its own clock."""
    tree = ast.parse(source)
    own = {id(argument) for call in ast.walk(tree) if isinstance(call, ast.Call)
           and isinstance(call.func, ast.Attribute) and call.func.attr in ("at", "begin", "turn")
           for argument in call.args}
    return sum(isinstance(node, ast.Call) and id(node) not in own and _name(node.func) in CLOCKS
               and not node.args for node in ast.walk(tree)) + sum(
        _name(default) == "monotonic" for node in ast.walk(tree) if isinstance(node, ast.arguments)
        for default in node.defaults)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_no_other_loop_ends_a_request_or_a_peer_by_another_clock() -> None:
    found = {str(path.relative_to(SOURCES)): count for folder in OTHER_LOOPS
             for path in (SOURCES / folder).rglob("*.py")
             if (count := times_of_host(path.read_text(encoding="utf-8")))}
    assert found == OF_HOST


def test_a_registry_that_stood_still_removes_no_rank() -> None:
    now = 1_000.0
    registry = Registry()
    alone = Alone(registry, lambda: now)
    asyncio.run(alone.order(changes.Register(prefill(of=1))))
    now += STANDS_S
    alone.tick()
    assert registry.directory()
    for _ in range(12):
        now += 1.0
        alone.tick()
    # It was silent while the registry heard.
    with pytest.raises(RefusedError, match="1 of 1 ranks are missing"):
        registry.directory()


def test_optimistic_prefill_stands_still_while_a_request_waits_for_its_bootstrap() -> None:
    scheduler = OptimisticPrefill(OptimisticSettings(
        slots=1, running_slots=1, bootstrap_timeout_s=WAITS["bootstrap_timeout"]))
    request = scheduler.create_sender("r", [FakeSender()], chunks=1, now=0.0)
    scheduler.turn(STANDS_S)
    assert request.stage not in ENDED
    for second in range(1, 21):
        scheduler.turn(STANDS_S + second)
    assert request.reason == "bootstrap_timeout after 20 s"
