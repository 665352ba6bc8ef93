"""No operation on a shared machine takes time in the number of open lives: the work is counted."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pdproto.runtime.store import Shared
from pdproto.spec.handoff import attempts, dp_rank, ends, group, routing
from pdproto.spec.handoff.roles import Attempt, Life, Slot
from pdproto.spec.handoff.sink import POOL

FEW, MANY, OPEN_MAX = 1_000, 10_000, 100_000


def work(action: Callable[[], object]) -> int:
    """How many instructions of Python the action executes: loops count, whatever they run over."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # what a finalizer of somebody else's object executes is not counted
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def rooms(lives: int) -> tuple[Shared, list[Callable[[], object]]]:
    machine = Shared(dp_rank.REGISTRY, bounded={routing.Group: range(4)})
    machine.receive(routing.enroll_published, 0)
    for life in range(lives):
        if life % 2:
            machine.receive(routing.publish, life, 1)
        else:
            machine.receive(routing.query, life)
    new = lives + 1
    return machine, [
        lambda: machine.receive(routing.publish, new, 2),
        lambda: machine.receive(routing.query, new),
        lambda: machine.receive(routing.retire, new, 2),
        lambda: machine.receive(routing.publish, 2, 3),
        lambda: machine.forget(Life, new),
        lambda: machine.fire("open_by_list"),
    ]


def entry(lives: int) -> tuple[Shared, list[Callable[[], object]]]:
    machine = Shared(group.ENTRY, bounded={group.Rank: range(2)})

    def serve(life: int) -> list[Callable[[], object]]:
        two = 2 * life
        return [
            lambda: machine.call("submit", life),
            lambda: (machine.receive(group.ready, 0, life), machine.receive(group.ready, 1, life)),
            lambda: machine.fire("decide_admit", n=two, h=life, m=life),
            lambda: (machine.receive(group.done, 0, life), machine.receive(group.done, 1, life)),
            lambda: machine.fire("decide_release", n=two + 1, h=life, m=[life]),
        ]

    for life in range(lives):
        for action in serve(life)[:3]:
            action()
        assert machine.fire("decide_fail", r=0, n=2 * life + 1, h=life) is None
        machine.call("submit", -1 - life)
        assert machine.call("abort", -1 - life, choose={"n": 2 * life + 1}).row == "abort"
    return machine, [*serve(lives), lambda: machine.forget(Life, lives),
                     lambda: machine.forget(group.Decision, 1)]


def rank(lives: int) -> tuple[Shared, list[Callable[[], object]]]:
    machine = Shared(group.RANK, (1,), {group.Rank: range(2)})

    def run(life: int) -> list[Callable[[], object]]:
        return [
            lambda: machine.receive(group.request, 1, life),
            lambda: machine.call("prepared", life),
            lambda: machine.call("bootstrapped", life),
            lambda: machine.receive(group.admit, 1, life, life, life),
            lambda: machine.receive(group.admit, 1, life, life, life),
            lambda: machine.receive(group.admit, 1, life + 5, life, life),
        ]

    for life in range(lives):
        for action in run(life):
            action()
    return machine, run(lives)


def prefill(lives: int) -> tuple[Shared, list[Callable[[], object]]]:
    machine = Shared(
        attempts.PREFILL,
        bounded={attempts.RunningSlot: range(2), Slot: range(2), Attempt: range(2)},
        rigid={attempts.sampled: lambda _: False},
    )

    def run(life: int) -> list[Callable[[], object]]:
        return [
            lambda: machine.call("submit", life),
            lambda: machine.receive(attempts.publish, life),
            lambda: machine.fire("reserve", h=life),
            lambda: machine.fire("start", h=life),
            lambda: machine.fire("run_again", h=life, k=0, a=0),
            lambda: machine.call("abort_prefill", life),
            lambda: machine.fire("release", h=life),
            lambda: machine.forget(Life, life),
        ]

    for life in range(lives):
        for action in run(life)[:3]:
            action()
    return machine, run(lives)


def pool(lives: int) -> tuple[Shared, list[Callable[[], object]]]:
    machine = Shared(POOL, (0,))
    names = machine._rows["grant"].names[1:]

    def grant(life: int) -> list[Callable[[], object]]:
        return [
            lambda: machine.set(ends.memory, (0, life), ends.Memory.ASKED),
            lambda: machine.fire("grant", h=life, **{name: [0, 1, life] for name in names}),
            lambda: machine.value(ends.lease, 0, life, life),
        ]

    for life in range(lives):
        for action in grant(life):
            action()
    return machine, grant(lives)


@pytest.mark.parametrize("machine", [rooms, entry, rank, prefill, pool])
def test_work_does_not_grow_with_the_open_lives(
    machine: Callable[[int], tuple[Shared, list[Callable[[], object]]]],
) -> None:
    """Each operation executes as many instructions among many lives as among few."""
    few, operations = machine(FEW)
    among_few = [work(operation) for operation in operations]
    many, operations = machine(MANY)
    among_many = [work(operation) for operation in operations]
    assert len(many) > 9 * len(few)
    assert among_many == among_few
    assert all(count > 10 for count in among_few)


def test_memory_grows_only_with_open_hand_overs() -> None:
    """Decisions that have been applied, and lives that are forgotten, take no room."""
    machine, _ = rank(FEW)
    for life in range(FEW):
        machine.call("transferred", life)
        machine.receive(group.release, 1, FEW + life, life)
        machine.forget(Life, life)
    assert len(machine) == 0
    assert machine.value(group.applied, 1, 0)
    assert machine.value(group.applied, 1, 2 * FEW - 1)
    assert not machine.value(group.applied, 1, 2 * FEW)


def test_a_hundred_thousand_lives() -> None:
    """The work is that of the first one thousand also at the size that a node is to hold."""
    _, operations = rooms(FEW)
    among_few = [work(operation) for operation in operations]
    machine, operations = rooms(OPEN_MAX)
    assert [work(operation) for operation in operations] == among_few
    assert len(machine) > OPEN_MAX
