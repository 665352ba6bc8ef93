"""Another algorithm, for comparison: a pipeline agrees by two passes of request lists. It fails.

This is how a pipeline of prefill stages agreed before there was a stream of decisions: sglang
#26912 is an orphan that it left behind, #27028 the fix as it was merged, #31869 a later one.

Pass 1 (collect): down the pipeline, each stage takes a request out of the good list unless it is
ready there too, and puts it into the bad list if it has failed there.
Pass 2 (decide): round again with the lists. Each stage looks for itself once more: it admits what
is ready, drains what has failed, leaves the rest, and hands on *what it removed itself*.

One machine plays all stages for one request, since the lists are in one place at a time and each
stage acts on its own queue alone. The passes go on for ever. Three forms:

TWO_PASS       as it was: a stage leaves alone whatever is not in the list that it is handed.
LOCAL_DRAIN    as merged: a request that has failed here is drained, in the list or not.
NO_SECOND_LOOK as later: also, the lists are obeyed without another look.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddRow,
    Always,
    Call,
    Configuration,
    Fairness,
    LeadsTo,
    Machine,
    ReplaceRow,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    edited,
    exists,
    forall,
    implies,
)


class Place(Sort, ordered=True, prefix="s"):
    """A stage of the pipeline, in order."""


class Pass(State):
    BETWEEN = auto()
    COLLECT = auto()
    DECIDE = auto()


class Listed(State):
    """In which list the request is, as the lists travel."""

    NOWHERE = auto()
    GOOD = auto()
    BAD = auto()


class Local(State):
    QUEUED = auto()
    READY = auto()
    FAILED = auto()
    ADMITTED = auto()
    DRAINED = auto()


h, here, there, other = Life("h"), Place("here"), Place("there"), Place("other")

pipeline = Machine("pipeline", h)
phase = pipeline.function("phase", Pass)
listed = pipeline.function("listed", Listed)
local = pipeline.function("local", Local, Place, edges={
    Local.QUEUED: (Local.READY, Local.FAILED, Local.ADMITTED, Local.DRAINED),
    Local.READY: (Local.FAILED, Local.ADMITTED, Local.DRAINED),
    Local.FAILED: (Local.DRAINED, Local.ADMITTED),
})
passed = pipeline.relation("passed", Place)

# The lists are at stage a: it has not seen them in this pass, and every stage before it has.
HERE: Final = (~passed(h, here), forall(there, implies(there.before(here), passed(h, there))))
REMOVED: Final = (Local.ADMITTED, Local.DRAINED)

COLLECT: Final = (
    Row("begin", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here) == Local.READY],
        do=[listed(h).to(Listed.GOOD), passed(h, here).to(True)]),
    Row("begin_bad", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here) == Local.FAILED],
        do=[listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("begin_empty", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[passed(h, here).to(True)],
        why="other requests make the lists travel, whatever this one does"),
    Row("keep", at=Pass.COLLECT, choose=(here,), when=[*HERE, local(h, here) == Local.READY],
        do=[passed(h, here).to(True)]),
    Row("add_bad", at=Pass.COLLECT, choose=(here,), when=[*HERE, local(h, here) == Local.FAILED],
        do=[listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("keep_bad", at=Pass.COLLECT, choose=(here,),
        when=[*HERE, listed(h) == Listed.BAD, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[passed(h, here).to(True)]),
    Row("strike", at=Pass.COLLECT, choose=(here,),
        when=[*HERE, listed(h) != Listed.BAD, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[listed(h).to(Listed.NOWHERE), passed(h, here).to(True)]),
    Row("turn", at=Pass.COLLECT, to=Pass.DECIDE, when=forall(other, passed(h, other)),
        do=[passed(h, ANY).to(False)]),
)

IN_LIST: Final = listed(h) != Listed.NOWHERE

DECIDE: Final = (
    Row("admit",
        at=Pass.DECIDE, choose=(here,), when=[*HERE, IN_LIST, local(h, here) == Local.READY],
        do=[local(h, here).to(Local.ADMITTED), listed(h).to(Listed.GOOD), passed(h, here).to(True)],
        why="what it sees now counts, even if the list says that it has failed elsewhere"),
    Row("drain",
        at=Pass.DECIDE, choose=(here,), when=[*HERE, IN_LIST, local(h, here) == Local.FAILED],
        do=[local(h, here).to(Local.DRAINED), listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("leave", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, IN_LIST, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[listed(h).to(Listed.NOWHERE), passed(h, here).to(True)],
        why="it is not ready any more, or gone: this stage removes nothing, and says so"),
    Row("skip", at=Pass.DECIDE, choose=(here,), when=[*HERE, ~IN_LIST],
        do=[passed(h, here).to(True)],
        why="a request in no list is none of this pass's business"),
    Row("finish", at=Pass.DECIDE, to=Pass.BETWEEN, when=forall(other, passed(h, other)),
        do=[passed(h, ANY).to(False), listed(h).to(Listed.NOWHERE)]),
)

REQUEST: Final = (
    Row("bootstrap", on=Call("bootstrapped", here), when=local(h, here) == Local.QUEUED,
        do=[local(h, here).to(Local.READY)]),
    Row("abort", on=Call("abort", here), when=local(h, here).among(Local.QUEUED, Local.READY),
        do=[local(h, here).to(Local.FAILED)],
        why="the abort comes down the pipeline too: at each stage at another time"),
)

PROPERTIES: Final = (
    Always("S5_same_queue",
           implies(all_of(phase(h) == Pass.BETWEEN, local(h, here).among(*REMOVED)),
                   local(h, there).among(*REMOVED)),
           why="between the passes every stage has the same requests in its queue"),
    Sometimes("all_admit", forall(here, local(h, here) == Local.ADMITTED)),
    Always("S7_same_outcome",
           implies(local(h, here) == Local.ADMITTED, local(h, there) != Local.DRAINED),
           why="no stage runs what another has dropped"),
    Sometimes("all_drain", forall(here, local(h, here) == Local.DRAINED)),
    LeadsTo("L3_no_orphan",
            all_of(local(h, here) == Local.FAILED,
                   forall(there, any_of(here.same(there), local(h, there) == Local.DRAINED))),
            local(h, here) == Local.DRAINED,
            under=(Fairness.TIMERS,),
            why="a failed request that every other stage has dropped is dropped here too"),
)

TWO_PASS: Final = System(
    "two-pass",
    "Two passes of request lists down a pipeline, as in sglang before #27028.",
    tables=(Table(pipeline, state=phase, rows=(*COLLECT, *DECIDE, *REQUEST)),),
    properties=PROPERTIES,
    configurations={
        "default": Configuration({Life: 1, Place: 2}),
        "deep": Configuration({Life: 1, Place: 3}),
    },
)

DRAIN_UNLISTED: Final = (
    AddClause("skip", local(h, here) != Local.FAILED),
    AddRow(pipeline, Row(
        "drain_unlisted", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, ~IN_LIST, local(h, here) == Local.FAILED],
        do=[local(h, here).to(Local.DRAINED), listed(h).to(Listed.BAD), passed(h, here).to(True)],
        why="the fix: nothing that has failed here stays here",
    )),
)

LOCAL_DRAIN: Final = edited(
    TWO_PASS, "two-pass-local-drain", *DRAIN_UNLISTED,
    about="Two passes as merged in #27028: a failed request is drained in the list or not.",
)

NO_SECOND_LOOK: Final = edited(
    TWO_PASS, "two-pass-no-second-look", *DRAIN_UNLISTED,
    ReplaceRow("admit", Row(
        "admit", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, listed(h) == Listed.GOOD, ~local(h, here).among(*REMOVED)],
        do=[local(h, here).to(Local.ADMITTED), passed(h, here).to(True)],
    )),
    ReplaceRow("drain", Row(
        "drain", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, listed(h) == Listed.BAD, ~local(h, here).among(*REMOVED)],
        do=[local(h, here).to(Local.DRAINED), passed(h, here).to(True)],
    )),
    ReplaceRow("leave", Row(
        "leave", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, IN_LIST, local(h, here).among(*REMOVED)], do=[passed(h, here).to(True)],
        why="it has been removed here before",
    )),
    about="Two passes whose lists are obeyed without another look, as in #31869, and #27028.",
)
