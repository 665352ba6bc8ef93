"""Results of a lock server: a loop, a state where nothing can fire, and a bad initial state."""

from pdproto.check.result import (
    Arrow,
    Blocked,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    TraceStep,
    Verdict,
)
from pdproto.spec.language.place import Place
from tests.check.report.made import change, result, step

LOCK = "spec/examples/lock_server_broken.py"
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
