"""The parts of the simulator: chance, time, the network, the fabric, and what is made small."""

from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.sim.cluster import simulate
from lab.sim.defects import roles_of, runnable
from lab.sim.event_queue import EventQueue
from lab.sim.fabric import (
    ONE_LIFE_A_PAGE,
    SOURCE_PAGES,
    WRITE,
    Fabric,
    Pages,
    SimulatedSink,
    SimulatedSource,
)
from lab.sim.host import Host
from lab.sim.network import Line, Network
from lab.sim.outcome import RunOutcome, Violation
from lab.sim.plan import Fault, Kind, Plan, Shape, planned
from lab.sim.shrink import shrunk
from pdproto.node.data_path import WriteOutcome
from pdproto.runtime.wire import Life
from pdproto.testing.chance import Stream
from tests.sim.runs import ran

OURS, OTHERS = Life(1, 7, 0), Life(2, 7, 1)


def stream(name: str = "test") -> Stream:
    return Stream(Random, name)


def test_streams_have_names() -> None:
    assert [stream("a").number() for _ in range(2)] == [stream("a").number()] * 2
    assert stream("a").number() != stream("b").number()
    numbers = stream()
    assert {numbers.whole(1, 3) for _ in range(100)} == {1, 2, 3}
    assert not numbers.happens(0.0)
    assert numbers.happens(1.0)
    delays = [numbers.delay(2.0) for _ in range(2_000)]
    assert min(delays) >= 1.0
    assert 3.0 < max(delays) <= 3.0 * 21.0


def test_an_event_queue_keeps_its_order() -> None:
    event_queue, done = EventQueue(), list[str]()
    event_queue.after(2.0, done.append, "later")
    event_queue.at(1.0, done.append, "first")
    event_queue.at(1.0, done.append, "second")
    event_queue.run(1.5)
    assert (done, event_queue.now) == (["first", "second"], 1.5)
    event_queue.at(0.0, done.append, "now")  # what is past happens now
    event_queue.run(3.0)
    assert (done[2:], event_queue.done) == (["now", "later"], 4)


SOON: Final = st.floats(0.0, 0.02)  # ten spans


@given(st.lists(st.tuples(SOON, st.lists(SOON, max_size=3)), max_size=20), st.lists(SOON))
def test_an_event_queue_is_a_sorted_list(
    entries: list[tuple[float, list[float]]], stops: list[float]
) -> None:
    """Whenever it is asked to stop on the way, and whatever is put down while it goes on."""
    event_queue, done, waiting = EventQueue(), list[int](), list[tuple[float, int]]()

    def put(when: float, then: list[float]) -> None:
        number = len(waiting)
        waiting.append((max(when, event_queue.now), number))
        event_queue.at(when, happen, number, then)

    def happen(number: int, then: list[float]) -> None:
        assert waiting[number][0] == event_queue.now
        done.append(number)
        for seconds in then:
            put(event_queue.now + seconds, [])

    for when, then in entries:
        put(when, then)
    for stop in (*sorted(stops), 1.0):
        event_queue.run(stop)
        past = [number for when, number in sorted(waiting) if when <= stop]
        assert (done, event_queue.done) == (past, len(past))


class Hearing:
    """A process that notes what arrives."""

    def __init__(self, name: str) -> None:
        self.name = self.server = name
        self.heard: list[bytes] = []
        self.noted: list[bool] = []

    def arrive(self, _source: str, data: bytes) -> None:
        self.heard.append(data)

    def note(self, _line: Line, *, up: bool, refused: bool = False) -> None:  # noqa: ARG002 - the network gives it
        self.noted.append(up)


def sent(*faults: Fault, count: int = 40) -> tuple[Network, list[bytes]]:
    """What arrives of so many batches, sent one after the other."""
    event_queue = EventQueue()
    network = Network(event_queue, 0.001, stream)
    network.active.extend(faults)
    ends = Hearing("a"), Hearing("b")
    network.processes.update((end.name, end) for end in ends)
    for number in range(count):
        network.send(ends[0], "b", bytes([number]))
        event_queue.run(event_queue.now + 0.0001)
    event_queue.run(event_queue.now + 10.0)
    return network, ends[1].heard


def fault(kind: Kind, amount: float = 1.0, server: str = "") -> Fault:
    return Fault(0, kind, 0.0, 1.0, server, amount)


def test_a_connection_keeps_its_order() -> None:
    network, heard = sent()
    assert heard == [bytes([number]) for number in range(40)]
    assert (network.sent, network.lost) == (40, 0)


def test_a_network_loses_repeats_and_reorders() -> None:
    network, heard = sent(fault(Kind.LOSS, 0.5))
    assert 0 < network.lost < 40
    assert len(heard) == 40 - network.lost
    assert len(sent(fault(Kind.DUPLICATION))[1]) == 80
    _, mixed = sent(fault(Kind.REORDERING, 0.5))
    assert mixed != sorted(mixed)
    assert sorted(mixed) == [bytes([number]) for number in range(40)]
    assert sent(fault(Kind.PARTITION, server="b"))[1] == []
    assert len(sent(fault(Kind.PARTITION, server="c"))[1]) == 40


def test_a_batch_to_a_process_that_dies_is_lost() -> None:
    event_queue = EventQueue()
    network = Network(event_queue, 0.001, stream)
    sender, old, new = Hearing("a"), Hearing("b"), Hearing("b")
    network.processes.update(a=sender, b=old)
    network.send(sender, "b", b"for the old one")
    network.processes["b"] = new
    event_queue.run(1.0)
    assert old.heard == new.heard == []
    del network.processes["b"]
    network.send(sender, "b", b"for nobody")
    assert network.lost == 1


def test_the_end_of_a_process_ends_its_connections() -> None:
    """The caller is told, and again when a successor answers."""
    event_queue = EventQueue()
    network = Network(event_queue, 0.001, stream)
    caller, old, new = Hearing("a"), Hearing("b"), Hearing("b")
    network.processes.update(a=caller, b=old)
    network.connect(caller, "b")
    event_queue.run(1.0)
    assert caller.noted == [True]
    network.die(old)
    event_queue.run(2.0)
    assert caller.noted == [True, False]
    network.processes["b"] = new
    event_queue.run(4.0)
    assert caller.noted == [True, False, True]


def test_a_partition_hides_the_end_of_a_process() -> None:
    """Until the caller speaks, when the partition is over."""
    event_queue = EventQueue()
    network = Network(event_queue, 0.001, stream)
    caller, callee = Hearing("a"), Hearing("b")
    network.processes.update(a=caller, b=callee)
    line = network.connect(caller, "b")
    network.active.append(fault(Kind.PARTITION, server="b"))
    network.die(callee)
    event_queue.run(5.0)
    assert caller.noted == [True]
    line.send(b"nothing comes of it")
    network.active.clear()
    event_queue.run(6.0)
    assert caller.noted == [True]
    line.send(b"nobody is there")
    event_queue.run(7.0)
    assert caller.noted == [True, False]


def test_a_connection_is_tried_until_a_process_answers() -> None:
    event_queue = EventQueue()
    network = Network(event_queue, 0.001, stream)
    caller, callee = Hearing("a"), Hearing("b")
    network.processes.update(a=caller)
    network.connect(caller, "b")
    closed = network.connect(caller, "b")
    closed.close()
    event_queue.run(3.0)
    assert caller.noted == []
    network.processes.update(b=callee)
    event_queue.run(5.0)
    assert caller.noted == [True]


class Engines:
    """An engine of each side, and what they are blamed for."""

    def __init__(self) -> None:
        self.event_queue, self.blamed = EventQueue(), list[str]()
        network = Network(self.event_queue, 0.001, stream)
        shape = Shape(buffers=1, fence_s=0.001)
        self.fabric = Fabric(self.event_queue, shape, lambda name, *_: self.blamed.append(name))
        hosts = [Host(self.event_queue, network, name, name, 7, 0.0) for name in ("p0", "d0")]
        self.theirs, self.ours = Pages(8), Pages(8)
        self.source = SimulatedSource(hosts[0], self.fabric, self.theirs, stream())
        self.sink = SimulatedSink(hosts[1], self.fabric, self.ours, stream(), {"p0": self.source})

    def post(self, life: Life, address: bytes) -> None:
        self.source.post(1, life, address, 0, self.theirs.take(1, life.room) or (), lambda: True)

    def ends(self) -> list[WriteOutcome]:
        self.event_queue.run(self.event_queue.now + 1.0)
        return [outcome for _, outcome, _ in self.source.outcomes()]


def leased(engines: Engines, life: Life) -> bytes:
    addresses = engines.sink.lease(life, {"p0": [1]})
    assert addresses is not None
    return addresses["p0"]


def test_a_write_lands_where_it_was_told_to() -> None:
    """Whoever has the memory by then: that is what the model is for."""
    engines = Engines()
    address = leased(engines, OURS)
    engines.post(OURS, address)
    assert engines.sink.lease(OTHERS, {"p0": [1]}) is None
    engines.sink.release(OURS)
    engines.event_queue.run(0.0)
    assert leased(engines, OTHERS) == address, "the chunk is not given out at once"
    assert engines.ends() == [WriteOutcome.LANDED]
    assert engines.blamed == [WRITE]


def test_a_fence_keeps_writes_out() -> None:
    engines = Engines()
    engines.post(OURS, leased(engines, OURS))
    engines.sink.fence(OURS, "p0")
    engines.event_queue.run(0.0)
    engines.sink._fence(OURS, "p0")  # it has come up before the bytes have
    assert engines.ends() == [WriteOutcome.REFUSED]
    assert engines.blamed == []


def test_pages_that_are_read_or_written_belong_to_the_life() -> None:
    engines = Engines()
    address = leased(engines, OURS)
    engines.post(OURS, address)
    engines.theirs.give(list(engines.theirs.owner))
    assert engines.ends() == [WriteOutcome.LANDED]
    pages = engines.ours.take(1, OTHERS.room)
    assert pages is not None
    engines.sink.verify(OURS, "p0", (1,), pages)
    engines.event_queue.run(9.0)
    assert engines.blamed == [SOURCE_PAGES, ONE_LIFE_A_PAGE]


def test_a_failing_run_is_made_small() -> None:
    roles = roles_of(next(bug for bug in runnable() if bug.id == "B22").system)
    shape = {"buffers": 4, "pp": 2}
    failing = ran(0, Kind.ABORT, Kind.HANG, Kind.LOSS, roles=roles, requests=30, **shape)
    assert failing.violation is not None
    small = shrunk(failing, lambda plan: simulate(plan, Random, roles=roles))
    assert small.violation is not None
    assert small.violation.name == failing.violation.name
    assert len(small.plan.requests) <= 6
    assert len(small.plan.faults) <= 1
    assert simulate(small.plan, Random, roles=roles).violation == small.violation


def test_attempts_are_counted() -> None:
    """Whatever is asked of it, it stops; and a plan that never fails smaller stays as it is."""
    plan = planned(0, Shape(requests=8), Random)
    with pytest.raises(ValueError, match="no property was violated"):
        shrunk(RunOutcome(plan), RunOutcome)
    asked: list[Plan] = []

    def sound(plan: Plan) -> RunOutcome:
        asked.append(plan)
        return RunOutcome(plan)

    failed = RunOutcome(plan, Violation("made up", "for a test", 99.0, 0))
    assert shrunk(failed, sound, attempts=5) is failed
    assert len(asked) == 5

