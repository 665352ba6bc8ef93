"""The answer to a decode scheduler of vLLM about a load, from its request to its blocks.

vLLM's scheduler knows a request before it has blocks for it. From the step in which it allocates
the blocks, it waits for one answer about the load (`finished_recving`), even if the request has
ended meanwhile. A second answer, or an answer for a request without blocks, ends its process.

Rule 1: A load has one answer, and only after its request has got blocks.
Rule 2: A load answers failure only when no write into its blocks is under way or will begin.
Rule 3: A load that answers success has the KV cache of the prompt in its blocks.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
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


class Heard(State):
    """The answer that vLLM's scheduler has about a request."""

    WAITING = auto()  # the request has no blocks yet
    LOADING = auto()  # the request has blocks, and the scheduler waits for the answer
    LEFT = auto()  # the request needs no load, or has ended without blocks: no answer is due
    LOADED = auto()
    FAILED = auto()


class Handoff(State):
    """The state of the hand-over, as its node reports it."""

    NONE = auto()
    UNDER_WAY = auto()
    LANDED = auto()
    BROKEN = auto()


h = Life("h")

load = Machine("load", h)
node = Machine("node", world=True)

heard = load.function("heard", Heard, edges={
    Heard.WAITING: (Heard.LOADING, Heard.LEFT),
    Heard.LOADING: (Heard.LOADED, Heard.FAILED),
})
stopped = load.relation("stopped")  # the scheduler has asked the hand-over to end
refused = load.relation("refused")  # it got its blocks when its load had failed already
handoff = load.function("handoff", Handoff, edges={
    Handoff.NONE: (Handoff.UNDER_WAY,),
    Handoff.UNDER_WAY: (Handoff.LANDED, Handoff.BROKEN),
})
handoff.shared_with(node, writes=(Handoff.LANDED, Handoff.BROKEN))
reached = load.relation("reached")  # a write into the blocks may be under way
reached.shared_with(node, writes=(True, False))

TOLD: Final = (Heard.LOADED, Heard.FAILED)

# vLLM ends a request in any state.
LEAVE: Final = Call("leave", any_time=True)

LOAD: Final = Table(load, state=heard, rows=(
    Row("open", on=Call("open"), at=Heard.WAITING, when=handoff(h) == Handoff.NONE,
        do=[handoff(h).to(Handoff.UNDER_WAY)]),
    Row("place", on=Call("place"), at=Heard.WAITING, to=Heard.LOADING, when=~stopped(h)),
    Row("spare", on=Call("spare"), at=Heard.WAITING, to=Heard.LEFT, when=~stopped(h),
        why="decode needs none of the blocks, and prefill may free its own"),
    Row("decline", on=Call("decline"), at=Heard.WAITING, when=handoff(h) != Handoff.NONE,
        do=[stopped(h).to(True)],
        why="the two servers differ: prefill hears so now, and vLLM when the request has blocks"),
    Row("refuse", on=Call("refuse"), at=Heard.WAITING, to=Heard.LOADING,
        do=[stopped(h).to(True), refused(h).to(True)], fair=True,
        why="the request has blocks, so vLLM learns only through them that the load fails; each "
            "request gets blocks, or ends"),
    Row("leave", on=LEAVE, at=Heard.WAITING, to=Heard.LEFT, do=[stopped(h).to(True)],
        why="the request has ended without blocks"),
    Row("stop", on=LEAVE, at=Heard.LOADING, do=[stopped(h).to(True)],
        why="vLLM keeps the blocks of an ended request until it has the answer"),
    Ignore(LEAVE, at=(Heard.LEFT, *TOLD), why="no answer is due"),
    Row("succeed", at=Heard.LOADING, to=Heard.LOADED, when=handoff(h) == Handoff.LANDED),
    Row("fail", at=Heard.LOADING, to=Heard.FAILED,
        when=[handoff(h) == Handoff.BROKEN, ~reached(h)]),
    Row("fail_alone", at=Heard.LOADING, to=Heard.FAILED, when=handoff(h) == Handoff.NONE,
        why="the load has no hand-over, because no sender is known"),
))

NODE: Final = Table(node, rows=(
    Row("reach", choose=(h,),
        when=[handoff(h) == Handoff.UNDER_WAY, heard(h) == Heard.LOADING, ~reached(h)],
        do=[reached(h).to(True)], why="the node has published the blocks"),
    Row("land", choose=(h,), when=[handoff(h) == Handoff.UNDER_WAY, reached(h)],
        do=[handoff(h).to(Handoff.LANDED), reached(h).to(False)]),
    Row("land_nothing", choose=(h,),
        when=[handoff(h) == Handoff.UNDER_WAY, heard(h) == Heard.LEFT, ~stopped(h)],
        do=[handoff(h).to(Handoff.LANDED)]),
    Row("break", choose=(h,), when=handoff(h) == Handoff.UNDER_WAY,
        do=[handoff(h).to(Handoff.BROKEN)], fair=True,
        why="the hand-over fails, or its time is over"),
    Row("end_writes", choose=(h,), when=[handoff(h) == Handoff.BROKEN, reached(h)],
        do=[reached(h).to(False)], fair=True, why="copies and fenced writes end"),
))

PROPERTIES: Final = (
    Always("rule_2_blocks_of_a_failure_are_free", implies(heard(h) == Heard.FAILED, ~reached(h)),
           why="vLLM gives them to another request, or computes into them"),
    Always("rule_2_no_hand_over_outlives_its_failure",
           implies(heard(h) == Heard.FAILED, handoff(h) != Handoff.UNDER_WAY),
           why="the hand-over would write into blocks of another request"),
    Always("rule_3_a_success_has_landed",
           implies(heard(h) == Heard.LOADED, handoff(h) == Handoff.LANDED),
           why="the next step of the model reads the blocks"),
    Always("no_write_reaches_a_load_that_left",
           implies(heard(h) == Heard.LEFT, ~reached(h)), why="the node never published its blocks"),
    OnRow("a_declined_request_gets_its_blocks_by_a_refusal", "place", ~stopped(h),
          why="vLLM learns with the blocks that the load fails"),
    OnRow("a_declined_request_is_not_spared", "spare", ~stopped(h),
          why="prefill has heard that the load fails"),
    OnRow("only_a_request_without_blocks_is_declined", "decline", heard(h) == Heard.WAITING,
          why="a request that has blocks is stopped, and waits for its answer"),
    Always("a_declined_request_has_a_hand_over",
           implies(all_of(heard(h) == Heard.WAITING, stopped(h)), handoff(h) != Handoff.NONE),
           why="prefill hears of it through the hand-over"),
    Sometimes("a_request_is_declined_before_it_has_blocks",
              all_of(heard(h) == Heard.WAITING, stopped(h))),
    Always("a_refused_request_is_stopped", implies(refused(h), stopped(h)),
           why="its hand-over must end, so that its failure can be told"),
    Always("a_refused_request_gets_an_answer",
           implies(refused(h), heard(h).among(Heard.LOADING, *TOLD)),
           why="vLLM waits for one, because the request has blocks"),
    Sometimes("a_request_is_refused", refused(h)),
    Sometimes("a_load_is_stopped", all_of(heard(h) == Heard.LOADING, stopped(h), ~refused(h))),
    Sometimes("a_request_waits_for_its_load", all_of(heard(h) == Heard.LOADING, ~stopped(h))),
    Sometimes("a_request_is_loaded", heard(h) == Heard.LOADED),
    Sometimes("a_request_without_a_hand_over_fails",
              all_of(heard(h) == Heard.FAILED, handoff(h) == Handoff.NONE)),
    Sometimes("a_declined_request_fails_with_blocks",
              all_of(heard(h) == Heard.FAILED, stopped(h), handoff(h) == Handoff.BROKEN)),
    Sometimes("a_request_ends_while_it_is_loaded",
              all_of(heard(h) == Heard.LOADED, stopped(h))),
    Sometimes("a_request_ends_before_it_has_blocks",
              all_of(heard(h) == Heard.LEFT, stopped(h), handoff(h) == Handoff.BROKEN)),
    Sometimes("a_request_ends_before_it_has_a_hand_over",
              all_of(heard(h) == Heard.LEFT, stopped(h), handoff(h) == Handoff.NONE)),
    Sometimes("a_request_needs_nothing", all_of(heard(h) == Heard.LEFT, ~stopped(h))),
    Sometimes("a_failure_waits_for_its_blocks", all_of(handoff(h) == Handoff.BROKEN, reached(h))),
    LeadsTo("a_declined_request_goes_on", all_of(heard(h) == Heard.WAITING, stopped(h)),
            heard(h) != Heard.WAITING, why="it gets blocks, and its answer with them, or ends"),
    LeadsTo("L1_a_load_is_told", heard(h) == Heard.LOADING, heard(h).among(*TOLD),
            why="vLLM keeps the blocks and the request until it has the answer"),
)

SYSTEM: Final = System(
    "decode-load",
    "How a decode scheduler of vLLM learns the result of a load, and gets its blocks back.",
    tables=(LOAD, NODE),
    properties=PROPERTIES,
    final=forall(h, heard(h) != Heard.LOADING),
    configurations={
        "default": Configuration({Life: 1}),
        "two-lives": Configuration({Life: 2}),
    },
)
