"""Every hand-over drains: each reason is needed, and edited tables fail where the explorer says."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.report.proofs import promises
from pdproto.cli.main import main
from pdproto.cli.systems import subject
from pdproto.spec.bugs.transfer import BUGS
from pdproto.spec.handoff.ends import Claim, can_fence, claim, d, h, p
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import ABORTED_AGAIN, UNANSWERED
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import (
    AddClause,
    Configuration,
    DropClause,
    DropRow,
    Sizes,
    System,
    edited,
)
from pdproto.spec.language.edit import Edit
from pdproto.spec.language.ranking import FaultFree, Ranking
from pdproto.spec.lemmas.transfer_ranking import RANKINGS
from proofs import draining
from proofs.draining import without
from tests.tiers import sampled

SMALL: Final[Sizes] = {Source: 1, Sink: 1, Life: 1, Buffer: 1, Chunk: 1, Page: 1, Slot: 1}
RANKED: Final = tuple(ranking.leads_to for ranking in RANKINGS)
HELPERS: Final = tuple(dict.fromkeys(
    helper.row for ranking in RANKINGS for helper in ranking.helpers
))
# With loss and crashes. A fair run also violates the properties without these rows where ...
ONE_LIFE: Final = Configuration(SMALL, faults=("lossy", "crash"), dead_bits=True)
TWO_LIVES: Final = Configuration({**SMALL, Life: 2}, dead_bits=True, symmetry=True)
ELSEWHERE: Final = {
    # ... another life holds the memory,
    **dict.fromkeys(("give_up_transfer", "publish_memory", "fence_silent", "finish_fence",
                     "end_lease", "finish"), TWO_LIVES),
    # ... the memory of another life is in quarantine,
    "give_up_bootstrap": replace(TWO_LIVES, given={can_fence: lambda _: ()}),
    # ... the sink dies between two chunks,
    "give_up_sending": Configuration(
        {**SMALL, Chunk: 2}, faults=("sink-crash",), dead_bits=True),
    # ... the write of another life gets past a fence,
    "find_spoilt": replace(TWO_LIVES, faults=("stray",), symmetry=False),
    # ... a successor takes the place of the source.
    "disown_abort": Configuration(SMALL, faults=("lossy", "restart"), dead_bits=True),
}
ROWS_SAMPLED: Final = 1
RANKINGS_SAMPLED: Final = 1  # an idle helper makes no proof wrong
# What does the same as a row, and falls with it. Without DRAINED, a repeated ABORT_ACK still ends
# the wait of a sink whose source never had an address, and a fence ends every other; in systems
# without timers DRAINED is needed by itself (tests/handoff/test_transfer.py).
ANSWERS_AGAIN: Final = (DropRow("acknowledge_again"),)
# A sink that has fenced a source goes on to tell it of the end, which ends the source's life too.
TELLS_AFTER_FENCE: Final = (
    DropClause("abort_again", ABORTED_AGAIN),
    AddClause("abort_again", claim(d, h, p).among(*UNANSWERED, Claim.FENCING)),
)
BESIDE: Final[dict[str, tuple[Edit, ...]]] = {
    "say_drained": ANSWERS_AGAIN,
    **dict.fromkeys(("succeed", "refuse", "meet_refusal", "lose_sink", "tell_failure"),
                    TELLS_AFTER_FENCE),
}
QUICK: Final = ("give_up_waiting", "say_drained", "finish")


def explored(system: System, *configurations: Configuration) -> set[str]:
    """The properties that a fair run violates in one of the configurations."""
    settings = CheckSettings(properties=RANKED, keep_going=True)
    return {finding.name for configuration in configurations
            for finding in check(system, configuration, settings).findings
            if finding.verdict == "violated"}


@pytest.mark.parametrize("row", [
    *QUICK,
    *sampled([pytest.param(row, marks=pytest.mark.slow)
              for row in HELPERS if row not in (*QUICK, "post")],  # a property speaks of "post"
             ROWS_SAMPLED, "rows that help"),
])
def test_the_explorer_says_the_same_of_tables_without_a_row(row: str) -> None:
    """A property has no proof exactly if a fair run violates it."""
    broken = without(SYSTEM, row)
    where = (ONE_LIFE, *([ELSEWHERE[row]] if row in ELSEWHERE else []))
    violated = explored(broken, *where)
    if row in BESIDE:
        alone, broken = violated, edited(broken, f"{broken.name}-or-beside", *BESIDE[row])
        violated = explored(broken, *where)
        assert alone < violated
    assert violated
    assert draining.unhelped("transfer", broken) == dict.fromkeys(violated, Status.FAILED)


@pytest.mark.slow
@pytest.mark.parametrize("ranking", sampled(
    [pytest.param(ranking, id=ranking.leads_to) for ranking in RANKINGS],
    RANKINGS_SAMPLED, "rankings"))
def test_no_helper_is_idle(ranking: Ranking) -> None:
    for place, helper in enumerate(ranking.helpers):
        others = (*ranking.helpers[:place], *ranking.helpers[place + 1:])
        fewer = replace(ranking, helpers=others)
        assert draining.unhelped("transfer", SYSTEM, fewer), helper


def test_every_helper_is_a_row_that_fires() -> None:
    protocol = {row.name: row for table in SYSTEM.tables for row in table.rows}
    for row in HELPERS:
        assert protocol[row].is_fair, row


@pytest.mark.parametrize("ranking", [
    pytest.param(r, id=r.leads_to, marks=[pytest.mark.nightly] * (r.leads_to != "L1_a_source_ends"))
    for r in RANKINGS if r.witnesses])
def test_the_ranking_needs_the_next_chunk(ranking: Ranking) -> None:
    untold = replace(
        ranking, witnesses=(),
        using=tuple(replace(use, at={}) for use in ranking.using),
        helpers=tuple(replace(helper, at={}) for helper in ranking.helpers),
    )
    assert draining.unhelped("transfer", SYSTEM, untold)


def lost_in_quarantine() -> System:
    """The transfer where an abort is not repeated to a source that is in quarantine."""
    (bug,) = (bug for bug in BUGS if bug.id == "abort-in-quarantine")
    return bug.system


def test_a_source_in_quarantine_must_learn_of_the_abort() -> None:
    """If the abort is lost and the engine cannot fence, no message tells the source, which waits
    for an address or for the end of its write; and none need fence where the abort is repeated
    until it is answered.
    """
    (ranking,) = (r for r in RANKINGS if r.leads_to == "L1_a_source_ends")
    assert draining.unhelped("transfer", SYSTEM, ranking) == {}
    broken = lost_in_quarantine()
    assert draining.unhelped("transfer", broken, ranking) == {"L1_a_source_ends": Status.FAILED}
    (helped,) = draining.found(subject("transfer"), broken, [ranking], helped_only=True)
    shown = counterexample(broken, helped, draining.LIMIT_S)
    assert shown is not None
    assert shown.given[can_fence] == frozenset()
    state = {change.variable: change.after for change in shown.trace.start}
    assert state["sending(p0, h0)"] in ("bootstrapping", "transferring")
    assert state["claim(d0, h0, p0)"] == "fencing"
    assert "abort(d0, h0, p0)" not in state


def test_the_explorer_finds_the_same_run() -> None:
    configuration = Configuration(
        SMALL, faults=("lossy",), given={can_fence: lambda _: ()}, dead_bits=True)
    settings = CheckSettings(properties=("L1_a_source_ends",))
    verdicts = [
        [f.verdict for f in check(system, configuration, settings).findings
         if f.name == "L1_a_source_ends"]
        for system in (lost_in_quarantine(), SYSTEM)
    ]
    assert verdicts == [["violated"], ["holds"]]


@pytest.mark.nightly
def test_the_command_line_prints_the_assurance(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "transfer", "--property", "L1_a_sink_ends", "--no-cache",
                 "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "proved    L1_a_sink_ends: for all sizes, where every timer fires" in told
    assert "proved    monotone: nothing takes them back, for all sizes" in told
    assert "S1_one_life_a_chunk" not in told
    assert "L1_a_source_ends" not in told


def test_a_leads_to_without_ranking_is_called_explored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "lock-server", "--no-cache", "--quiet"]) == 0
    assert "explored  the_lock_comes_back: it has no ranking" in capsys.readouterr().out
    one = subject("agreement")
    nothing = replace(one, rankings=(), fault_free=FaultFree())
    shown = draining.proof(one.system, [
        o for o in nothing.obligations() if o.claim.inductive and o.row is None
    ])
    assert {p.property for p in promises(Verdicts(nothing, shown)) if p.status == "explored"} >= {
        "L2_a_failure_is_decided", "L3_no_orphan"}
