"""Delivery that takes a broadcast off the network takes it once from each receiver."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import explore
from pdproto.check.result import Finding, Verdict
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.ground.grounding import Ground
from pdproto.spec.language import (
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
    forall,
)


class Worker(Sort):
    """One that hears the call."""


class Job(State):
    AWAY = auto()
    READY = auto()
    OFF = auto()


w = Worker("w")


def stopping(*, late: bool, again: bool = False) -> System:
    """A boss tells all workers to stop. late: some are not there yet, and it is told once.

    again: it is told again and again.
    """
    boss, worker = Machine("boss"), Machine("worker", w)
    told = boss.relation("told")
    job = worker.function("job", Job)
    stop = Message("stop", sender=boss, receiver=worker)
    rows = [Row("tell", on=Call("tell"), when=~told(), do=[told().to(True)], send=[stop()])]
    if again:
        rows.append(Row("tell_again", when=told(), send=[stop()]))
    workers = [
        Row("come", at=Job.AWAY, to=Job.READY),
        Row("go", on=stop(), at=Job.READY if late else (Job.AWAY, Job.READY), to=Job.OFF),
        Ignore(stop(), at=(Job.AWAY, Job.OFF) if late else Job.OFF, why="not at work"),
    ]
    return System("stopping", "Everybody stops.", tables=(
        Table(boss, rows=tuple(rows)), Table(worker, state=job, rows=tuple(workers)),
    ), properties=(
        LeadsTo("all_stop", told(), forall(w, job(w) == Job.OFF), under=(Fairness.CONSUMED,)),
    ), configurations={"default": Configuration({Worker: 2})})


def judged(system: System, size: int) -> Finding:
    settings = CheckSettings(properties=("all_stop",))
    result = check(system, Configuration({Worker: size}), settings)
    return next(f for f in result.findings if f.name == "all_stop")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_receiver_hears_a_broadcast(size: int) -> None:
    assert judged(stopping(late=False), size).verdict is Verdict.HOLDS


@pytest.mark.parametrize("size", [1, 2])
def test_an_ignored_message_counts_as_delivered(size: int) -> None:
    """Told once, before the worker has come: it is not told again."""
    found = judged(stopping(late=True), size)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace is not None
    assert any("stop" in step.trigger for step in found.trace.steps)
    reasons = [line for blocked in found.trace.blocked for line in blocked.failing]
    assert any("stop()" in reason for reason in reasons)


@pytest.mark.parametrize("size", [1, 2])
def test_a_repeated_message_reaches_every_receiver_again(size: int) -> None:
    """Also for who has taken it, while others have not."""
    assert judged(stopping(late=True, again=True), size).verdict is Verdict.HOLDS


def test_the_states_are_those_counted_by_hand() -> None:
    """Nothing told: 2 x 2 of away and ready. Told, and taken by neither: the same 4. By one of the
    two, who is off: 2 of the other, twice. By both: off, the message is gone: 1.
    """
    system = stopping(late=False)
    found = explore(Ground(system, {Worker: 2}, consume=True), keep_going=True)
    assert found.engine.states == 4 + 4 + 2 * 2 + 1


def test_a_message_to_one_needs_no_count() -> None:
    ground = Ground(load("lock-server"), load("lock-server").configurations["default"].sizes,
                    consume=True)
    assert all(not symbol.name.startswith("took_") for symbol, _ in ground.layout.fields)


def test_two_phase_commit_decides_where_delivery_consumes() -> None:
    assert main(["check", "two-phase-commit", "--fairness", "consumed", "--quiet"]) == 0
