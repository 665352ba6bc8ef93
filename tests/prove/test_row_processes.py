"""The processes that decide the rows of a proof: each decides several, and may be lost."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace

import pytest

from pdproto.check.prove import proving
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.proving import CUTOFF, Proof, ProofSettings, prove
from pdproto.spec.examples.two_phase_commit import SYSTEM
from pdproto.spec.language import System

OWED = tuple(obligations(SYSTEM, claims(SYSTEM, ())))
ROWS = tuple(dict.fromkeys(one.scope for one in OWED))
LOST = ROWS[2]
HANGING = multiprocessing.get_context("fork").Event()


def decided(
    monkeypatch: pytest.MonkeyPatch, engine: proving.Decide, workers: int
) -> Proof:
    """By this engine, in place of the cut-off."""
    monkeypatch.setattr(proving, "ENGINES", {CUTOFF: engine})
    return prove(SYSTEM, OWED, ProofSettings(workers=workers, timeout_s=600.0))


def by_process(
    _system: System, group: Sequence[Obligation], _timeout_s: float
) -> Iterator[Judgement]:
    """Proves everything. The note is the number of the process."""
    for _ in group:
        yield Judgement(Status.PROVED, str(os.getpid()))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_decides_one_row_after_another(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(ROWS) > 2
    proof = decided(monkeypatch, by_process, workers)
    assert {proof.status(one) for one in OWED} == {Status.PROVED}
    processes = Counter(outcome.judgement.note for outcome in proof.outcomes)
    assert 1 <= len(processes) <= workers
    assert str(os.getpid()) not in processes


def ends(system: System, group: Sequence[Obligation], timeout_s: float) -> Iterator[Judgement]:
    if group[0].scope == LOST:
        os._exit(1)
    yield from by_process(system, group, timeout_s)


def hangs(system: System, group: Sequence[Obligation], timeout_s: float) -> Iterator[Judgement]:
    if group[0].scope == LOST:
        HANGING.set()
        time.sleep(600.0)
    yield from by_process(system, group, timeout_s)


@pytest.fixture
def hours_pass_while_a_process_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def now() -> float:
        return time.monotonic() + (36_000.0 if HANGING.is_set() else 0.0)

    def not_for_long(pipes: list[Connection], seconds: float) -> Sequence[object]:
        return wait(pipes, min(seconds, 0.05))

    HANGING.clear()
    monkeypatch.setattr(proving, "time", SimpleNamespace(monotonic=now))
    monkeypatch.setattr(proving, "wait", not_for_long)


@pytest.mark.usefixtures("hours_pass_while_a_process_hangs")
@pytest.mark.parametrize(("engine", "why"), [
    (ends, "its process died"), (hangs, "it was ended: out of time")])
def test_a_row_whose_process_is_lost_is_unknown_and_another_process_decides_the_others(
    engine: proving.Decide, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = decided(monkeypatch, engine, 1)
    for outcome in proof.outcomes:
        lost = outcome.obligation.scope == LOST
        assert outcome.judgement.status is (Status.UNKNOWN if lost else Status.PROVED)
        if lost:
            assert outcome.judgement.note == why
    assert len({outcome.judgement.note for outcome in proof.outcomes}) == 3  # two processes


def fails(system: System, group: Sequence[Obligation], timeout_s: float) -> Iterator[Judgement]:
    if group[0].scope == LOST:
        raise ValueError("no such row")
    yield from by_process(system, group, timeout_s)


def test_an_error_of_an_engine_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no such row"):
        decided(monkeypatch, fails, 2)
