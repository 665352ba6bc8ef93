"""The answer to a prefill scheduler of vLLM about a request whose blocks are sent as it computes.

The scheduler grants blocks to the hand-over when the step that computes them is under way. It may
take blocks from a request that runs (preemption), and asks nobody. So the connector pins the blocks
that it grants. Once the request has ended, the scheduler keeps its blocks until it has one answer
(`finished_sending`). An answer about a request that runs would free blocks that it computes into.

Rule 1: A request has one answer, and only after it has ended.
Rule 2: The answer comes when no block is read, and none will be.
Rule 3: A granted block stays as it was computed until nothing will read it.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    LeadsTo,
    Machine,
    OnRow,
    Row,
    Sometimes,
    State,
    System,
    Table,
    all_of,
    auto,
    forall,
    implies,
)


class Told(State):
    """The answer that vLLM's scheduler has about a request."""

    NONE = auto()  # no hand-over is open
    COMPUTING = auto()  # the request runs, or waits to be scheduled
    KEPT = auto()  # the request has ended, and the scheduler waits for the answer
    FREE = auto()


class Passing(State):
    """The state of the hand-over, as its node reports it."""

    UNDER_WAY = auto()
    ENDED = auto()  # decode has the blocks or never will
    SETTLED = auto()  # and nothing reads them any more


h = Life("h")

offered = Machine("offered", h)
sender = Machine("sender", world=True)
scheduler = Machine("scheduler", world=True)

told = offered.function("told", Told, edges={
    Told.NONE: (Told.COMPUTING,), Told.COMPUTING: (Told.KEPT,), Told.KEPT: (Told.FREE,),
})
stopped = offered.relation("stopped")  # the request has ended without its answer
pinned = offered.relation("pinned")  # vLLM gives the granted blocks to nobody else
unread = offered.relation("unread")  # a granted block is being read, or will be
unread.shared_with(sender, writes=(False,))
passing = offered.function("passing", Passing, edges={
    Passing.UNDER_WAY: (Passing.ENDED,), Passing.ENDED: (Passing.SETTLED,),
})
passing.shared_with(sender, writes=(Passing.ENDED, Passing.SETTLED))
taken = offered.relation("taken")  # vLLM has taken its blocks from the request
taken.shared_with(scheduler, writes=(True, False))
reading = sender.relation("reading", Life)
reused = scheduler.relation("reused", Life)  # another request computes into the granted blocks

OFFERED: Final = Table(offered, state=told, rows=(
    Row("open", on=Call("open"), at=Told.NONE, to=Told.COMPUTING),
    Row("grant", on=Call("grant"), at=Told.COMPUTING,
        when=[passing(h) == Passing.UNDER_WAY, ~taken(h)],
        do=[pinned(h).to(True), unread(h).to(True)],
        why="vLLM computes into blocks that a request has"),
    Row("grant_nothing", on=Call("grant"), at=Told.COMPUTING,
        when=[passing(h) != Passing.UNDER_WAY, ~taken(h)],
        why="decode has left, or has never come: the request is computed to its end"),
    Row("unpin", at=Told.COMPUTING, when=[pinned(h), ~unread(h)], do=[pinned(h).to(False)],
        why="a preempted request may need the memory to be computed again"),
    Row("keep", on=Call("keep"), at=Told.COMPUTING, to=Told.KEPT),
    Row("stop", on=Call("stop"), at=Told.COMPUTING, to=Told.KEPT, do=[stopped(h).to(True)],
        why="decode hears so at once; blocks may be read until the hand-over has settled"),
    Row("free", at=Told.KEPT, to=Told.FREE, when=passing(h) == Passing.SETTLED,
        do=[pinned(h).to(False)]),
))

SENDER: Final = Table(sender, rows=(
    Row("begin_read", choose=(h,),
        when=[passing(h) == Passing.UNDER_WAY, unread(h), ~reading(h)], do=[reading(h).to(True)]),
    Row("end_read", choose=(h,), when=reading(h), do=[reading(h).to(False)], fair=True),
    Row("read_all", choose=(h,), when=[unread(h), ~reading(h)], do=[unread(h).to(False)]),
    Row("end", choose=(h,), when=[told(h) != Told.NONE, passing(h) == Passing.UNDER_WAY],
        do=[passing(h).to(Passing.ENDED)], fair=True,
        why="all has landed, or the hand-over fails, or its time is over"),
    Row("settle", choose=(h,), when=[passing(h) == Passing.ENDED, ~reading(h)],
        do=[passing(h).to(Passing.SETTLED), unread(h).to(False)], fair=True),
))

SCHEDULER: Final = Table(scheduler, rows=(
    Row("preempt", choose=(h,), when=[told(h) == Told.COMPUTING, ~taken(h)],
        do=[taken(h).to(True)], fair=False, why="memory is short"),
    Row("free_blocks", choose=(h,), when=[told(h) == Told.FREE, ~taken(h)],
        do=[taken(h).to(True)], fair=False),
    Row("reuse", choose=(h,), when=[taken(h), ~pinned(h), ~reused(h)], do=[reused(h).to(True)],
        fair=False),
    Row("resume", choose=(h,), when=[told(h) == Told.COMPUTING, taken(h)],
        do=[taken(h).to(False), reused(h).to(False)], fair=False,
        why="the request gets other blocks, and is computed again"),
))

PROPERTIES: Final = (
    Always("rule_2_an_answer_is_final", implies(
        told(h) == Told.FREE, all_of(passing(h) == Passing.SETTLED, ~unread(h), ~reading(h))),
        why="vLLM gives the blocks to another request"),
    Always("rule_3_no_block_is_read_that_another_request_has", implies(reused(h), ~reading(h)),
           why="decode would get the KV cache of another prompt under correct digests"),
    OnRow("rule_1_a_request_that_runs_is_not_answered", "free", told(h) == Told.KEPT,
          why="vLLM frees the blocks of the request at the answer"),
    Always("unread_blocks_are_pinned", implies(unread(h), pinned(h)),
           why="vLLM takes blocks from a request that runs, and asks nobody"),
    Always("a_request_that_is_stopped_runs_no_more",
           implies(stopped(h), told(h).among(Told.KEPT, Told.FREE)),
           why="its scheduler waits for the answer, and gives it no further block"),
    OnRow("only_a_request_that_runs_is_unpinned", "unpin", told(h) == Told.COMPUTING,
          why="the blocks of another one are kept until its answer"),
    Sometimes("a_pinned_block_has_been_read", all_of(pinned(h), ~unread(h))),
    Sometimes("a_block_is_read_while_the_request_runs",
              all_of(reading(h), told(h) == Told.COMPUTING)),
    Sometimes("a_block_is_read_that_vllm_has_taken", all_of(reading(h), taken(h))),
    Sometimes("a_hand_over_settles_before_its_request",
              all_of(passing(h) == Passing.SETTLED, told(h) == Told.COMPUTING)),
    Sometimes("a_request_ends_before_its_hand_over",
              all_of(passing(h) == Passing.UNDER_WAY, told(h) == Told.KEPT, ~stopped(h))),
    Sometimes("a_request_is_stopped_while_a_block_is_read", all_of(stopped(h), reading(h))),
    Sometimes("memory_comes_back_before_the_request_ends",
              all_of(reused(h), told(h) == Told.COMPUTING)),
    LeadsTo("L1_a_kept_request_is_answered", told(h) == Told.KEPT, told(h) == Told.FREE,
            why="vLLM keeps its blocks until then"),
    LeadsTo("L4_a_pinned_block_comes_back", pinned(h), ~pinned(h),
            why="a request that is computed again may need its memory"),
)

SYSTEM: Final = System(
    "prefill-offer",
    "When a prefill scheduler of vLLM gets blocks back that are sent while it computes.",
    tables=(OFFERED, SENDER, SCHEDULER),
    properties=PROPERTIES,
    final=forall(h, told(h) != Told.KEPT),
    configurations={
        "default": Configuration({Life: 1}),
        "two-lives": Configuration({Life: 2}),
    },
)
