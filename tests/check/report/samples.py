"""Results as a check would return them, written by hand: a picture test needs no explorer."""

from collections.abc import Mapping

from pdproto.check.result import (
    Arrow,
    Blocked,
    Change,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    TraceStep,
    Verdict,
)
from pdproto.spec.language.place import Place

COMMIT = "spec/examples/two_phase_commit.py"
LOCK = "spec/examples/lock_server_broken.py"


def step(
    row: str,
    lane: str,
    *,
    parameters: str = "",
    trigger: str = "",
    why: str = "",
    line: int = 40,
    path: str = COMMIT,
    fault: str = "",
    received: Arrow | None = None,
    sent: tuple[Arrow, ...] = (),
    lost: tuple[Arrow, ...] = (),
    changes: tuple[Change, ...] = (),
    holds: Mapping[str, bool] | None = None,
) -> TraceStep:
    return TraceStep(
        row=row,
        parameters=parameters,
        lane=lane,
        trigger=trigger,
        why=why,
        place=Place(path, line),
        fault=fault,
        received=received,
        sent=sent,
        lost=lost,
        changes=changes,
        holds=holds or {},
    )


def change(lane: str, variable: str, before: str, after: str) -> Change:
    return Change(lane, variable, before, after)


def result(
    *findings: Finding,
    system: str = "two-phase-commit",
    description: str = "Participants agree, through a manager, on commit or abort.",
    sizes: Mapping[str, int] | None = None,
    faults: tuple[str, ...] = (),
    states: int = 288,
    transitions: int = 1146,
    depth: int = 11,
    seconds: float = 0.021,
    complete: bool = True,
    stopped: str = "",
    rows_never_fired: tuple[str, ...] = (),
    deadlocks: int = 0,
    reductions: tuple[str, ...] = (),
    row_places: Mapping[str, Place] | None = None,
) -> CheckResult:
    return CheckResult(
        system=system,
        description=description,
        sizes={"Participant": 3} if sizes is None else sizes,
        faults=faults,
        states=states,
        transitions=transitions,
        depth=depth,
        seconds=seconds,
        complete=complete,
        stopped=stopped,
        findings=findings,
        rows_never_fired=rows_never_fired,
        deadlocks=deadlocks,
        reductions=reductions,
        row_places=row_places or {},
    )


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


LOCK_LANES = (Lane("server", "server"), Lane("client c0", "client"), Lane("client c1", "client"))


def _request(client: str) -> TraceStep:
    lane = f"client {client}"
    return step(
        "request",
        lane,
        parameters=client,
        trigger="call acquire",
        path=LOCK,
        line=30,
        sent=(Arrow(f"request({client})", lane, ("server",)),),
        changes=(change(lane, f"state[{client}]", "idle", "waiting"),),
        holds={"one holder": True},
    )


def _grant(client: str) -> TraceStep:
    return step(
        "grant",
        "server",
        parameters=client,
        trigger=f"on request({client})",
        path=LOCK,
        line=44,
        received=Arrow(f"request({client})", f"client {client}", ("server",)),
        sent=(Arrow(f"granted({client})", "server", (f"client {client}",)),),
        changes=(change("server", "free", "true", "false"),),
        holds={"one holder": True},
    )


def _lock_trace(
    steps: tuple[TraceStep, ...], *, loop: int | None = None, blocked: tuple[Blocked, ...] = ()
) -> Trace:
    start = (
        change("server", "free", "", "true"),
        change("client c0", "state[c0]", "", "idle"),
        change("client c1", "state[c1]", "", "idle"),
    )
    return Trace(LOCK_LANES, start, steps, loop, blocked, {"one holder": True})


def lasso() -> CheckResult:
    """A lock server that grants the same client again and again: a stem of one and a loop."""
    hold = step(
        "hold",
        "client c0",
        parameters="c0",
        trigger="on granted(c0)",
        path=LOCK,
        line=36,
        received=Arrow("granted(c0)", "server", ("client c0",)),
        changes=(change("client c0", "state[c0]", "waiting", "holding"),),
        holds={"one holder": True},
    )
    release = step(
        "release",
        "client c0",
        parameters="c0",
        trigger="call release",
        why="the server learns of it in the same step, since the release cannot be lost here",
        path=LOCK,
        line=39,
        changes=(
            change("client c0", "state[c0]", "holding", "idle"),
            change("server", "free", "false", "true"),
        ),
        holds={"one holder": True},
    )
    steps = (_request("c1"), _request("c0"), _grant("c0"), hold, release)
    return result(
        Finding(
            name="who asks is served",
            kind=PropertyKind.LEADS_TO,
            claim="for each client c: state[c] is waiting leads to state[c] is holding",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Client=2",
            place=Place(LOCK, 61),
            trace=_lock_trace(steps, loop=1),
            instance="c=c1",
            note="assuming that every row but those of faults is weakly fair",
        ),
        _one_holder(),
        system="lock-server-broken",
        description="A server lends one lock to many clients, and is unfair.",
        sizes={"Client": 2},
        states=48,
        transitions=130,
        depth=9,
    )


def _one_holder() -> Finding:
    return Finding(
        name="one holder",
        kind=PropertyKind.ALWAYS,
        claim="no two clients hold the lock",
        verdict=Verdict.HOLDS,
        assurance="exhaustive for Client=2",
        place=Place(LOCK, 55),
    )


def stuck() -> CheckResult:
    """A lost grant that nobody sends again: nothing can fire any more."""
    lose = step(
        "lose",
        "client c0",
        parameters="c0",
        fault="loss",
        path=LOCK,
        line=50,
        lost=(Arrow("granted(c0)", "server", ("client c0",)),),
        holds={"one holder": True},
    )
    trace = _lock_trace(
        (_request("c0"), _grant("c0"), lose, _request("c1")),
        blocked=(
            Blocked("grant", "c1", "server", ("free is true (it is false)",)),
            Blocked("hold", "c0", "client c0", ("granted(c0) was sent (it was lost)",)),
            Blocked(
                "release",
                "c0",
                "client c0",
                ("state[c0] is holding (it is waiting)", "free is false or c0 is the owner"),
            ),
        ),
    )
    return result(
        Finding(
            name="no deadlock",
            kind=PropertyKind.DEADLOCK,
            claim="each reachable state has a row that can fire, or is a final state",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Client=2",
            place=Place(LOCK, 14),
            trace=trace,
        ),
        _one_holder(),
        system="lock-server-broken",
        description="A server lends one lock to many clients over a network that loses messages.",
        sizes={"Client": 2},
        faults=("loss",),
        states=71,
        transitions=260,
        depth=10,
        deadlocks=4,
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


def crowd(*, lanes: int = 12, steps: int = 60) -> CheckResult:
    """Many lanes, many steps: a token runs round a ring and is refused now and then."""
    names = [f"node n{number}" for number in range(lanes)]
    taken = []
    for number in range(steps):
        here, there = names[number % lanes], names[(number + 1) % lanes]
        before = None
        if number:
            before = Arrow(f"token({number - 1})", names[(number - 1) % lanes], (here,))
        taken.append(
            step(
                "pass on",
                here,
                parameters=f"n{number % lanes}",
                trigger=f"on token({number - 1})" if number else "",
                path="spec/examples/ring_election.py",
                received=before,
                sent=(Arrow(f"token({number})", here, (there,)),),
                changes=(change(here, f"seen[n{number % lanes}]", str(number), str(number + 1)),),
                holds={"one leader": number < steps - 1},
            )
        )
    trace = Trace(
        tuple(Lane(name, "node") for name in names),
        tuple(change(name, f"seen[{name.split()[-1]}]", "", "0") for name in names),
        tuple(taken),
    )
    return result(
        Finding(
            name="one leader",
            kind=PropertyKind.ALWAYS,
            claim="no two nodes lead",
            verdict=Verdict.VIOLATED,
            assurance=f"exhaustive for Node={lanes}",
            place=Place("spec/examples/ring_election.py", 33),
            trace=trace,
        ),
        system="ring-election",
        description="Nodes on a ring elect the one with the highest number.",
        sizes={"Node": lanes},
        depth=steps + 4,
    )


HOSTILE = (
    "</script><script>alert('x')</script>",
    "quote \" ' ` & <b>bold</b> ]]> <!-- -->",
    "two\nlines\r\nand\ta tab",
    "non-ASCII: naïve → 日本語 😀",
    "mermaid; end %% # : $$ @{ }->>+ <br/>",
    "escape \x1b[31mred\x1b[0m \x00 bell\x07",
    "direction \u202eleft, lone \ud800 half",
    "[bold]markup[/bold] \\[x] {{ braces }} ${x}",
)


def hostile() -> CheckResult:
    """Every text of a result is something that breaks a careless renderer."""
    script, quotes, lines, letters, mermaid, escapes, direction, markup = HOSTILE
    lanes = (Lane(script, mermaid), Lane(quotes, letters), Lane(lines, script))
    arrow = Arrow(mermaid, script, (quotes, lines))
    trace = Trace(
        lanes=lanes,
        start=(change(script, markup, "", escapes),),
        steps=(
            step(
                script,
                script,
                parameters=quotes,
                trigger=markup,
                why=mermaid,
                path=f"{letters}.py",
                fault=lines,
                sent=(arrow,),
                changes=(change(script, escapes, direction, mermaid),),
                holds={direction: True, mermaid: True},
            ),
            step(
                mermaid,
                quotes,
                why=escapes,
                path=f"{script}.py",
                received=arrow,
                lost=(Arrow(letters, quotes, (lines,)),),
                changes=(change(lines, markup, quotes, script),),
                holds={direction: False, mermaid: False},
            ),
        ),
        loop=1,
        blocked=(Blocked(markup, lines, lines, (script, escapes, letters)),),
        start_holds={direction: True},
    )
    return result(
        Finding(
            name=mermaid,
            kind=PropertyKind.ALWAYS,
            claim=script,
            verdict=Verdict.VIOLATED,
            assurance=quotes,
            place=Place(f"{quotes}.py", 1),
            trace=trace,
            instance=lines,
            note=direction,
        ),
        system=script,
        description=quotes,
        sizes={script: 2, letters: 3},
        faults=(lines,),
        rows_never_fired=(script, markup),
        row_places={script: Place(quotes, 7)},
        stopped=escapes,
        complete=False,
        reductions=(markup,),
    )


def long_names() -> CheckResult:
    """Names too long for any column."""
    sender = "transfer endpoint of prefill rank (stage 1, tensor 3), incarnation 2"
    receiver = "receiver of decode rank 7 for hand-off 12 of room 4096, second life"
    message = "publish_destinations_with_attachments(rank1, handoff12, life2, chunk31)"
    variable = "destination_pages_still_owned_by_the_previous_incarnation[rank1, handoff12]"
    trace = Trace(
        (Lane(sender, "source"), Lane(receiver, "sink")),
        (change(sender, variable, "", "true"),),
        (
            step(
                "introduce_the_receiver_before_it_has_any_memory",
                receiver,
                parameters="rank1, handoff12, life2, chunk31",
                trigger="timer waiting_for_the_registry_to_answer",
                why="a source must be able to tell this receiver about an abort or a timeout "
                "within one message delay, long before there is memory to write to",
                path="spec/handoff/sink_receiver_of_the_direct_mode.py",
                sent=(Arrow(message, receiver, (sender,)),),
                changes=(change(receiver, variable, "unknown_to_everyone", "registered"),),
            ),
            step(
                "accept_destinations",
                sender,
                received=Arrow(message, receiver, (sender,)),
                changes=(change(sender, variable, "true", "false"),),
                holds={"no remote writer ever touches a page that somebody else owns": False},
            ),
        ),
    )
    return result(
        Finding(
            name="no remote writer ever touches a page that somebody else owns",
            kind=PropertyKind.ALWAYS,
            claim="for each page g and lives l, m: written[g, l] and owned[g, m] implies l = m",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Source=2, Sink=2, Life=2, Page=2, Chunk=2, Handoff=1",
            place=Place("spec/handoff/properties.py", 410),
            trace=trace,
            instance="g=page1, l=life1, m=life2",
        ),
        system="handoff-direct",
        description="One hand-off of a KV cache, written straight into pages.",
        sizes={"Source": 2, "Sink": 2, "Life": 2, "Page": 2, "Chunk": 2, "Handoff": 1},
    )


def at_once() -> CheckResult:
    """A property that the initial state already breaks: a trace without a step."""
    trace = Trace(LOCK_LANES, (change("server", "free", "", "false"),), ())
    return result(
        Finding(
            name="free at first",
            kind=PropertyKind.ALWAYS,
            claim="free is true",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Client=2",
            place=Place(LOCK, 60),
            trace=trace,
        ),
        system="lock-server-broken",
        sizes={"Client": 2},
        states=1,
        transitions=0,
        depth=0,
    )


SAMPLES = {
    "safety": safety,
    "lasso": lasso,
    "stuck": stuck,
    "incomplete": incomplete,
    "clean": clean,
    "crowd": crowd,
    "hostile": hostile,
    "long_names": long_names,
    "at_once": at_once,
}
