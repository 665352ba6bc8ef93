"""Bounded model checking: the explorer's verdicts and lengths, found without exploring."""

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings

from pdproto.check import bmc
from pdproto.check.bmc import TIMED_OUT, BoundedResult, Unrolled, bounded
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import program
from pdproto.check.result import PropertyKind, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.unrolling import Unrolling
from pdproto.cli.systems import load
from pdproto.ground.grounding import Ground
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.examples.lock_server import SYSTEM as LOCK_SERVER
from pdproto.spec.examples.lock_server import Client, Round
from pdproto.spec.examples.lock_server_broken import SYSTEM as BROKEN
from pdproto.spec.examples.ring_election import SYSTEM as RING
from pdproto.spec.examples.ring_election import Node
from pdproto.spec.examples.two_phase_commit import SYSTEM as COMMIT
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import Configuration, LeadsTo, System
from tests.check.systems import SIZES, systems
from tests.judging import judged, judges
from tests.tiers import examples, sampled

COMMITS: Final = Configuration({Participant: 3})
STEPS_MAX: Final = 60  # more than any run that is asked for here


def lengths(system: System, configuration: Configuration) -> dict[str, tuple[Verdict, int | None]]:
    """What the explorer says of all that bounded model checking is asked about."""
    result = check(system, configuration, CheckSettings(keep_going=True))
    return {
        finding.name: (finding.verdict, finding.trace_length)
        for finding in result.findings
        if finding.kind is not PropertyKind.LEADS_TO
    }


def found(result: BoundedResult) -> dict[str, tuple[Verdict, int | None]]:
    return {finding.name: (finding.verdict, finding.trace_length) for finding in result.findings}


@pytest.mark.parametrize(
    ("system", "configuration"),
    [
        (COMMIT, COMMITS),
        (RING, Configuration({Node: 3})),
        (BROKEN, Configuration({Client: 2, Round: 1})),
        (LOCK_SERVER, Configuration({Client: 2, Round: 1})),
    ],
    ids=lambda value: value.name if isinstance(value, System) else "",
)
def test_where_runs_end_every_verdict_is_the_explorers(
    system: System, configuration: Configuration
) -> None:
    result = bounded(system, configuration, STEPS_MAX, keep_going=True)
    assert result.complete
    assert found(result) == lengths(system, configuration)


def test_several_topologies() -> None:
    """A witness in any interpretation of the rigid symbols counts, and tells in which."""
    system = load("dp-rank")
    names = ("both_sides_meet", "a_conflict_is_found")
    result = bounded(system, system.configurations["default"], 12, properties=names)
    explored = lengths(system, system.configurations["default"])
    assert found(result) == {name: explored[name] for name in names}
    assert all("where modulo(" in finding.instance for finding in result.findings)


def test_where_runs_do_not_end_nothing_is_claimed() -> None:
    configuration = Configuration({Client: 2, Round: 1}, faults=("lossy",))
    result = bounded(LOCK_SERVER, configuration, 8)
    assert (result.depth, result.complete, result.stopped) == (8, False, "")
    assert result.verdict is Verdict.UNKNOWN
    verdicts = {finding.name: finding.verdict for finding in result.findings}
    assert verdicts["mutual_exclusion"] is Verdict.UNKNOWN
    assert verdicts["the_lock_is_held"] is Verdict.HOLDS
    (exclusion,) = (f for f in result.findings if f.name == "mutual_exclusion")
    assert exclusion.assurance == "nothing within 8 steps for Client=2 Round=1"


def test_the_trace_tells_the_run() -> None:
    result = bounded(BROKEN, Configuration({Client: 2, Round: 1}), 20)
    (broken,) = (f for f in result.findings if f.verdict is Verdict.VIOLATED)
    assert (broken.name, broken.trace_length, result.depth) == ("mutual_exclusion", 7, 7)
    assert broken.instance == "c=c0, d=c1"
    assert broken.trace is not None
    assert Counter(step.row for step in broken.trace.steps) == Counter(
        {"ask": 2, "give": 2, "expire": 1, "enter": 2}
    )
    assert [step.holds["mutual_exclusion"] for step in broken.trace.steps] == [True] * 6 + [False]


def test_a_deadlock_names_the_blocked_machines() -> None:
    nowhere = replace(COMMIT, final=None)
    result = bounded(nowhere, COMMITS, STEPS_MAX, properties=("deadlock",))
    (deadlock,) = result.findings
    assert deadlock.verdict is Verdict.VIOLATED
    assert (deadlock.name, deadlock.trace_length) == ("deadlock", lengths(nowhere, COMMITS)
                                                      ["deadlock"][1])
    assert deadlock.trace is not None
    assert deadlock.trace.blocked


def test_it_ends_where_nothing_is_open() -> None:
    result = bounded(COMMIT, COMMITS, STEPS_MAX, properties=("all_abort",))
    assert (result.depth, result.verdict, result.complete) == (3, Verdict.HOLDS, False)


def test_it_can_be_watched() -> None:
    seen: list[Unrolled] = []
    bounded(COMMIT, COMMITS, 4, watcher=seen.append)
    assert [look.depth for look in seen] == [0, 1, 2, 3, 4]
    assert {look.what for look in seen} == {"two-phase-commit"}


def test_findings_stand_when_the_time_is_up() -> None:
    # With losses runs have no end, so only the time ends the search.
    lossy = Configuration({Client: 2, Round: 2}, faults=("lossy",))
    result = bounded(LOCK_SERVER, lossy, 1_000, timeout_s=0.5)
    assert result.stopped == TIMED_OUT
    assert result.depth < 1_000
    assert result.verdict is Verdict.UNKNOWN


def test_ctrl_c_keeps_the_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Unrolling) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Unrolling, "extend", interrupted)
    result = bounded(COMMIT, COMMITS, STEPS_MAX)
    assert (result.depth, result.stopped) == (0, bmc.INTERRUPTED)


def effort(system: System, configuration: Configuration) -> tuple[Unrolling, dict[str, int]]:
    """The search for a run of eight steps, and what it cost the solver."""
    (rigid,) = interpretations(system, configuration.sizes, configuration)
    ground = Ground(system, configuration.sizes, (), rigid)
    unrolling = Unrolling(ground, program(ground, ()))
    for _ in range(8):
        unrolling.extend()
    assert unrolling.has_runs(None)
    counted = unrolling.solver.statistics()
    return unrolling, {key: value for key, value in counted if key.startswith("sat")}


def test_the_cost_of_a_question_is_independent_of_earlier_ones() -> None:
    _, alone = effort(COMMIT, COMMITS)
    kept, _ = effort(RING, Configuration({Node: 3}))
    _, after = effort(COMMIT, COMMITS)
    assert alone == after
    assert alone["sat decisions"] > 0
    assert kept.steps


@judges(7)
@settings(max_examples=examples(5, 25), deadline=None)
@given(system=systems())
def test_random_systems(system: System) -> None:
    """Whatever the explorer finds within ten steps is found, and nothing else."""
    configuration = Configuration(SIZES, faults=("lossy",))
    steps = 10
    said = found(bounded(system, configuration, steps, keep_going=True))
    for name, (verdict, length) in lengths(system, configuration).items():
        if length is not None and length <= steps:
            assert said[name] == (verdict, length)
            judged()
        else:
            assert said[name][0] in (Verdict.UNKNOWN, verdict)
            assert said[name][1] is None


def endless(bug: Bug) -> bool:
    """Whether only a run that goes on for ever, or stands still, shows the defect."""
    return bug.violates in {c.name for c in bug.system.properties if isinstance(c, LeadsTo)}


# Defects of every part that show within eight steps, by the names of their systems.
SHORT: Final = (
    "failed-lookup-lifted", "bootstrap-info-undefined", "concluded-room-recreated",
    "registrations-counted", "first-rank-speaks-for-all", "misplaced-served", "B22", "B36", "B43",
    "B09", "B29-transfer", "two-pass-local-drain", "two-pass-no-second-look", "agreement-B08",
    "agreement-B13", "agreement-B14", "agreement-local-drain", "B36-optimistic", "O1", "O2",
    "O2-slot", "B06-attempts", "B36-attempts", "early-yield", "B02-transfer",
    "queue-timed", "queue-timed-by-decode", "goodbye-of-an-earlier-run",
    "failed-by-its-predecessor", "request-of-a-dead-life", "copy-runs-on", "silence-as-abort", "O6",
    "keep-ends-under-a-read", "keep-without-a-bound", "keep-loses-a-place",
    "keep-serves-another-prompt",
    "ended-refuses-what-is-computed-again", "ended-refuses-beside-a-request",
    "ended-forgets-under-a-leg", "answer-while-it-computes", "read-after-preemption",
    "freed-at-abort", "prompt-not-compared", "prompt-of-a-number-not-compared",
    "queue-timeout-unmet", "silence-as-death", "silence-of-a-sink-as-death",
    "memory-refuses-what-comes-back", "memory-refuses-pages-that-settle",
)
STEPS_SHORT: Final = 8
SHORT_SAMPLE: Final = 6
LONG_SAMPLE: Final = 1


@pytest.mark.parametrize("bug", [
    *sampled([pytest.param(bug, id=f"{bug.id}-{bug.system.name}")
              for bug in BUGS if bug.system.name in SHORT],
             SHORT_SAMPLE, "short bounded model checking"),
    *sampled([pytest.param(bug, id=f"{bug.id}-{bug.system.name}", marks=pytest.mark.slow)
              for bug in BUGS if not endless(bug) and bug.system.name not in SHORT],
             LONG_SAMPLE, "bounded model checking"),
])
def test_every_defect_that_a_finite_run_shows(bug: Bug) -> None:
    explored = check(bug.system, bug.configuration, CheckSettings(properties=(bug.violates,)))
    (expected,) = explored.findings
    assert expected.trace_length is not None
    assert (expected.trace_length <= STEPS_SHORT) == (bug.system.name in SHORT)
    result = bounded(
        bug.system, bug.configuration, expected.trace_length, properties=(bug.violates,)
    )
    (finding,) = result.findings
    assert (finding.verdict, finding.trace_length) == (Verdict.VIOLATED, expected.trace_length)


@pytest.mark.parametrize("steps", [2, 8, STEPS_MAX])
@pytest.mark.parametrize("system", [LOCK_SERVER, BROKEN])
def test_an_assurance_claims_its_verdict_alone(system: System, steps: int) -> None:
    result = bounded(system, Configuration({Client: 2, Round: 1}), steps, keep_going=True)
    for found in result.findings:
        bad = found.kind is not PropertyKind.SOMETIMES
        word = {Verdict.VIOLATED: "refuted", Verdict.UNKNOWN: "nothing within",
                Verdict.HOLDS: "exhaustive" if bad else "seen"}[found.verdict]
        assert found.assurance.startswith(f"{word} "), found
        assert word != "exhaustive" or result.complete
