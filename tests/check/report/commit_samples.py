"""Results of two-phase commit: a violation, a search that was given up, and one that holds."""

from collections.abc import Mapping

from pdproto.check.result import (
    Arrow,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    TraceStep,
    Verdict,
)
from pdproto.spec.language.place import Place
from tests.check.report.made import COMMIT, change, result, step


def _prepare(participant: str, *, holds: Mapping[str, bool]) -> TraceStep:
    lane = f"participant {participant}"
    return step(
        "prepare",
        lane,
        parameters=participant,
        trigger="call prepare",
        why="a participant that can commit says so once, and from then on is bound",
        line=41,
        sent=(Arrow(f"prepared({participant})", lane, ("manager",)),),
        changes=(change(lane, f"rm[{participant}]", "working", "prepared"),),
        holds=holds,
    )


def _learn(participant: str, *, holds: Mapping[str, bool]) -> TraceStep:
    return step(
        "learn",
        "manager",
        parameters=participant,
        trigger=f"on prepared({participant})",
        line=58,
        received=Arrow(f"prepared({participant})", f"participant {participant}", ("manager",)),
        changes=(change("manager", f"ready[{participant}]", "false", "true"),),
        holds=holds,
    )


def safety() -> CheckResult:
    """Two-phase commit whose manager forgets to ask whether all are ready: eight steps."""
    lanes = (
        Lane("manager", "manager"),
        Lane("participant p0", "participant"),
        Lane("participant p1", "participant"),
        Lane("participant p2", "participant"),
    )
    fine = {"consistent": True, "commit means ready": True}
    hasty = {"consistent": True, "commit means ready": False}
    broken = {"consistent": False, "commit means ready": False}
    everyone = tuple(lane.name for lane in lanes[1:])
    commit = Arrow("commit", "manager", everyone)
    trace = Trace(
        lanes=lanes,
        start=(
            change("manager", "tm", "", "init"),
            *(change(f"participant p{n}", f"rm[p{n}]", "", "working") for n in range(3)),
        ),
        steps=(
            _prepare("p0", holds=fine),
            _learn("p0", holds=fine),
            _prepare("p1", holds=fine),
            _learn("p1", holds=fine),
            step(
                "abort alone",
                "participant p2",
                parameters="p2",
                why="until it has prepared, a participant may give up by itself",
                line=47,
                changes=(change("participant p2", "rm[p2]", "working", "aborted"),),
                holds=fine,
            ),
            step(
                "decide commit",
                "manager",
                trigger="call decide",
                why="one message ends the protocol for everyone",
                line=66,
                sent=(commit,),
                changes=(change("manager", "tm", "init", "committed"),),
                holds=hasty,
            ),
            step(
                "lose",
                "participant p0",
                parameters="p0",
                fault="loss",
                line=12,
                path="spec/language/faults.py",
                lost=(Arrow("commit", "manager", ("participant p0",)),),
                holds=hasty,
            ),
            step(
                "commit",
                "participant p1",
                parameters="p1",
                trigger="on commit",
                why="the decision is the manager's alone",
                line=74,
                received=commit,
                changes=(change("participant p1", "rm[p1]", "prepared", "committed"),),
                holds=broken,
            ),
        ),
        start_holds=fine,
    )
    return result(
        Finding(
            name="consistent",
            kind=PropertyKind.ALWAYS,
            claim="no two participants p, q: rm[p] is aborted and rm[q] is committed",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 88),
            trace=trace,
            instance="p=p2, q=p1",
        ),
        Finding(
            name="someone commits",
            kind=PropertyKind.SOMETIMES,
            claim="some participant p: rm[p] is committed",
            verdict=Verdict.HOLDS,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 95),
            trace=Trace(lanes, trace.start, trace.steps[:1], start_holds=fine),
            instance="p=p0",
        ),
        Finding(
            name="rm moves along its edges",
            kind=PropertyKind.EDGES,
            claim="rm: working -> prepared, aborted; prepared -> committed, aborted",
            verdict=Verdict.HOLDS,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 21),
        ),
        Finding(
            name="everyone decides",
            kind=PropertyKind.LEADS_TO,
            claim="tm is committed leads to all p: rm[p] is committed",
            verdict=Verdict.HOLDS,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 99),
            note="vacuous: its premise never holds",
        ),
        faults=("loss",),
        rows_never_fired=("decide abort", "hear abort"),
        row_places={"decide abort": Place(COMMIT, 70), "hear abort": Place(COMMIT, 78)},
        reductions=("symmetry of Participant",),
    )


def incomplete() -> CheckResult:
    return result(
        Finding(
            name="consistent",
            kind=PropertyKind.ALWAYS,
            claim="no participant aborts while another commits",
            verdict=Verdict.UNKNOWN,
            assurance="incomplete: 1,000,000 states",
            place=Place(COMMIT, 88),
        ),
        Finding(
            name="someone commits",
            kind=PropertyKind.SOMETIMES,
            claim="some participant p: rm[p] is committed",
            verdict=Verdict.HOLDS,
            assurance="witness of 12 steps",
            place=Place(COMMIT, 95),
        ),
        sizes={"Participant": 9},
        states=1_000_000,
        transitions=6_204_118,
        depth=13,
        seconds=0.31,
        complete=False,
        stopped="the limit of 1,000,000 states was reached; raise --max-states",
    )


def clean() -> CheckResult:
    return result(
        Finding(
            name="consistent",
            kind=PropertyKind.ALWAYS,
            claim="no participant aborts while another commits",
            verdict=Verdict.HOLDS,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 88),
        ),
        Finding(
            name="rm moves along its edges",
            kind=PropertyKind.EDGES,
            claim="rm: working -> prepared, aborted; prepared -> committed, aborted",
            verdict=Verdict.HOLDS,
            assurance="exhaustive for Participant=3",
            place=Place(COMMIT, 21),
        ),
    )
