"""Why every hand-over drains on both sides, for any number of sources, sinks, lives, chunks and
pages.

Each end of a life only goes forward, from UNKNOWN to Success, Failed or gone, and so does a sink's
claim on its sources. A sink that waits for memory has no clock: a life that holds the memory goes
on, and each life takes memory once. Every other pending state has a time-out: the sink's own ends
it, and then each source is aborted, fenced, or gone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Memory,
    Receiving,
    Sending,
    Write,
    abort,
    address,
    b,
    c,
    claim,
    d,
    drained,
    feeds,
    g,
    gone,
    h,
    known,
    kv,
    lease,
    m,
    memory,
    p,
    page,
    receiving,
    sending,
    sink_over,
    slot,
    target,
    write,
)
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import THREATENS
from pdproto.spec.language import Always, Sort, all_of, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

somewhere, waiting = Sink("somewhere"), Chunk("waiting")
spot, other_page, other_slot = Buffer("spot"), Page("other_page"), Slot("other_slot")
# A sink that waits for memory; the lives that hold a chunk, a page and a slot there.
short, tenant, keeper, lodger = Sink("short"), Life("tenant"), Life("keeper"), Life("lodger")
leaf, row, writer = Page("leaf"), Slot("row"), Source("writer")

UNASKED: Final = memory(d, h) != Memory.ASKED
BEGUN: Final = receiving(d, h) != Receiving.UNKNOWN
WITH_LEASE: Final = receiving(d, h).among(
    Receiving.BOOTSTRAPPING, Receiving.WAITING, Receiving.TRANSFERRING, Receiving.FAILED
)
WITH_PAGE: Final = receiving(d, h).among(
    Receiving.BOOTSTRAPPING, Receiving.WAITING, Receiving.TRANSFERRING, Receiving.SUCCESS
)

LEMMAS: Final = (
    Always("memory_is_asked_for_at_first",
           implies(memory(d, h) == Memory.ASKED, receiving(d, h) == Receiving.BOOTSTRAPPING),
           why="a life asks for memory when it begins, and withdraws the request when it fails"),
    Always("a_lease_was_asked_for", implies(lease(d, h, b), UNASKED & WITH_LEASE),
           why="a grant answers the request, and a commit or the end of the process ends it"),
    Always("one_lease_a_life", implies(lease(d, h, b) & lease(d, h, spot), b.same(spot)),
           why="a life asks for memory once"),
    Always("published_is_leased",
           implies(all_of(lease(d, h, b), receiving(d, h).among(
               Receiving.WAITING, Receiving.TRANSFERRING)), address(d, h, b)),
           why="a sink publishes the memory that it leases"),
    Always("a_page_was_asked_for", implies(page(d, h, g), UNASKED & WITH_PAGE),
           why="a grant answers the request, and a failure gives it back"),
    Always("a_slot_was_asked_for", implies(slot(d, h, m), UNASKED & WITH_PAGE),
           why="a grant answers the request, and a failure gives it back"),
    Always("one_page_a_life",
           implies(page(d, h, g) & page(d, h, other_page), g.same(other_page)),
           why="a life asks for memory once"),
    Always("one_slot_a_life",
           implies(slot(d, h, m) & slot(d, h, other_slot), m.same(other_slot)),
           why="a life asks for memory once"),
    Always("a_page_has_a_slot", implies(page(d, h, g), exists(m, slot(d, h, m))),
           why="pool and sink take and free both together"),
    Always("a_slot_has_a_page", implies(slot(d, h, m), exists(g, page(d, h, g))),
           why="pool and sink take and free both together"),
    Always("a_begun_sink_has_asked",
           implies(receiving(d, h) == Receiving.BOOTSTRAPPING,
                   memory(d, h).among(Memory.ASKED, Memory.GIVEN)),
           why="it asks when it begins"),
    Always("a_granted_sink_has_a_lease",
           implies(all_of(receiving(d, h) == Receiving.BOOTSTRAPPING,
                          memory(d, h) == Memory.GIVEN), exists(b, lease(d, h, b))),
           why="a grant gives all three, and a sink keeps its lease until it commits"),
    Always("a_committed_sink_has_all_parts",
           implies(all_of(receiving(d, h) == Receiving.SUCCESS, feeds(p, d)),
                   claim(d, h, p) == Claim.LANDED),
           why="a sink commits when every source has reported that its part has landed"),
    Always("a_sending_source_has_addresses",
           implies(all_of(sending(p, h) == Sending.TRANSFERRING, feeds(p, d)),
                   exists(b, target(p, h, d, b))),
           why="a source takes the first chunk when every sink has published"),
    Always("a_source_before_sending_has_no_write",
           implies(sending(p, h).among(Sending.UNKNOWN, Sending.BOOTSTRAPPING),
                   write(p, h, d, c) == Write.NONE),
           why="the first chunk begins the transfer"),
    Always("a_dead_sink_is_over",
           implies(receiving(d, h) == Receiving.GONE, sink_over(d, h, p)),
           why="the sources of a dead sink learn of its end"),
    Always("a_fenced_source_is_told",
           implies(claim(d, h, p) == Claim.FENCED, sink_over(d, h, p)),
           why="a fence ends the sink's wait for the source"),
    Always("held_pages_are_of_a_begun_source",
           implies(kv(p, h), sending(p, h) != Sending.UNKNOWN),
           why="a hand-over takes the pages when it begins"),
)

MONOTONE: Final = (
    Monotone("lease_ended", all_of(BEGUN, UNASKED, ~lease(d, h, b)),
            why="a life asks for memory once, when it begins"),
    Monotone("memory_granted", BEGUN & UNASKED, why="a life asks for memory once"),
    Monotone("page_given_back", all_of(BEGUN, UNASKED, ~page(d, h, g)),
            why="a life asks for memory once, when it begins"),
    Monotone("slot_given_back", all_of(BEGUN, UNASKED, ~slot(d, h, m)),
            why="a life asks for memory once, when it begins"),
    Monotone("pages_released", (sending(p, h) != Sending.UNKNOWN) & ~kv(p, h),
            why="a hand-over takes the pages when it begins"),
    Monotone("met_or_ended",
            any_of(known(p, h, d),
                   sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE)),
            why=
             "a source forgets the sinks that it has met only when it tells them of its failure"),
    Monotone("told_or_unknown",
            sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE) & ~known(p, h, d),
            why="an ended source meets no sink"),
)

# The clock of a sink that has its memory.
_SINK_GIVES_UP: Final = (Help("give_up_transfer"),)
# A failed sink asks for a fence for every source that may still write.
_FENCED: Final = (Help("fence_silent"), Help("finish_fence"))
# A failed sink repeats its abort, which ends every source that still sends.
_STOPPED: Final = (Help("abort_again", ~abort(d, h, p)), Help("stop"))
# A source writes the chunks that it has, and gives up the missing ones.
_SOURCE_ENDS: Final = (
    Help("give_up_waiting"), Help("give_up_sending"),
    Help("post", at={d: somewhere, c: waiting}), Help("succeed"),
    Help("refuse"), Help("meet_refusal"), Help("lose_sink"),
)
_NEXT_CHUNK: Final = Witness(waiting, all_of(
    feeds(p, somewhere), ~write(p, h, somewhere, waiting).among(Write.POSTED, Write.LANDED)
))


def memory_comes(sink: Sink, life: Life = h) -> Ranking:
    """A part of a ranking: the life gets memory at that sink, or a life that holds it goes on."""
    here: Mapping[Sort, Sort] = {d: sink} if life == h else {d: sink, h: life}
    of_tenant = {d: sink, h: tenant}
    return Ranking(
        "", (
            Help("grant", at={**here, b: spot, g: leaf, m: row}),
            Help("publish_memory", at=here),
            Help("publish_memory", at={**of_tenant, b: spot}),
            Help("end_lease", at={**of_tenant, b: spot}),
            *(Help(name, at={**of_tenant, p: writer}) for name in ("fence_silent", "finish_fence")),
            *(Help("give_up_transfer", at={d: sink, h: one}) for one in (tenant, keeper)),
            Help("finish", at={d: sink, h: keeper, g: leaf}),
        ),
        witnesses=(
            Witness(spot, lease(sink, tenant, spot)),
            Witness(writer, feeds(writer, sink) & claim(sink, tenant, writer).among(*THREATENS)),
            Witness(leaf, page(sink, keeper, leaf)),
            Witness(row, slot(sink, lodger, row)),
        ),
        using=(
            *(Use("a_granted_sink_has_a_lease", {d: sink, h: one})
              for one in (life, keeper)),
            Use("a_page_has_a_slot", {d: sink, h: keeper, g: leaf}),
            Use("a_slot_has_a_page", {d: sink, h: lodger, m: row}),
        ))


def of_a_sink_that_waits(sender: Source = p, life: Life = h) -> Witness:
    """The witness `short`: a sink of the sender that waits for memory."""
    return Witness(short, all_of(
        feeds(sender, short), receiving(short, life) == Receiving.BOOTSTRAPPING))


def sinks_get_memory(sender: Source = p, life: Life = h) -> Ranking:
    """A part of a ranking: a sink of the sender that waits for memory gets it."""
    found = memory_comes(short, life)
    return replace(found, witnesses=(of_a_sink_that_waits(sender, life), *found.witnesses))


def joined(one: Ranking, part: Ranking) -> Ranking:
    """The ranking, with what this part of another one adds."""
    return replace(
        one, helpers=(*one.helpers, *part.helpers), witnesses=(*one.witnesses, *part.witnesses),
        using=(*one.using, *part.using), assumed={**one.assumed, **part.assumed})


# These hold if every sink that waits for memory gets it, or ends.
WITH_MEMORY: Final = {one.leads_to: one for one in (
    Ranking("L1_a_sink_ends", _SINK_GIVES_UP,
            why="a sink gets memory, and each other state has a time-out"),
    Ranking("L1_a_source_ends", (*_SOURCE_ENDS, *_SINK_GIVES_UP, *_STOPPED),
            witnesses=(_NEXT_CHUNK,),
            using=(Use("a_sending_source_has_addresses", {p: p, h: h, d: somewhere}),),
            why="a source writes its chunks, and a write that does not end fails its sink"),
    Ranking("L4_source_pages_come_back",
            (*_SOURCE_ENDS, *_SINK_GIVES_UP, *_STOPPED, *_FENCED, Help("release_kv")),
            witnesses=(_NEXT_CHUNK,),
            using=(Use("a_sending_source_has_addresses", {p: p, h: h, d: somewhere}),),
            why="every write lands, is refused, or is in quarantine"),
)}
_HERE, _THERE = memory_comes(d), sinks_get_memory()
RANKINGS: Final = (
    joined(WITH_MEMORY["L1_a_sink_ends"], _HERE),
    replace(_HERE, leads_to="L5_a_request_gets_memory_or_ends",
            # It has no memory to publish yet.
            helpers=tuple(o for o in _HERE.helpers if o.row != "publish_memory" or h in o.at),
            why="a life that holds memory goes on, and each life takes it once"),
    Ranking("L1_a_request_that_a_source_lacks_ends",
            (Help("give_up_bootstrap"), *_SINK_GIVES_UP),
            why="the sink has not met that source, so one of its clocks runs"),
    Ranking("L1_a_request_that_a_sink_lacks_ends", (Help("give_up_waiting"),),
            using=(Use("a_sending_source_has_addresses", {p: p, h: h, d: d}),),
            why="the source does not know that sink, so its clock runs"),
    Ranking("L1_a_sink_with_all_parts_ends",
            (Help("commit", at={b: b}), Help("find_spoilt", at={b: b})),
            witnesses=(Witness(b, address(d, h, b)),),
            using=(Use("a_publishing_sink_has_an_address"),),
            why="the digests agree, or they do not"),
    joined(WITH_MEMORY["L1_a_source_ends"], _THERE),
    Ranking("a_failure_is_told_to_each_sink_once", (Help("tell_failure"),),
            why="the source tells its sinks by itself"),
    Ranking("L3_every_claim_is_settled",
            (*_FENCED, *_STOPPED, Help("stop_late"), Help("say_drained"),
             Help("say_drained_again", ~drained(p, h, d)),
             Help("note_drained"), Help("disown_abort", ~gone(p, h, d)), Help("fence_lost")),
            why=
            "the sink repeats the abort until the source answers, and a silent source is fenced"),
    Ranking("L4_every_chunk_comes_back",
            (*_SINK_GIVES_UP, Help("publish_memory"), *_FENCED, Help("end_lease")),
            why="every life ends, and every source of a failed one is drained or fenced"),
    Ranking("L4_every_page_comes_back",
            (*_SINK_GIVES_UP, Help("publish_memory"), Help("finish")),
            using=(Use("a_page_has_a_slot"), Use("a_granted_sink_has_a_lease")),
            why="a failure gives the page back at once"),
    Ranking("L4_every_slot_comes_back",
            (*_SINK_GIVES_UP, Help("publish_memory"), Help("finish")),
            using=(Use("a_slot_has_a_page"), Use("a_granted_sink_has_a_lease")),
            why="a failure gives the slot back at once"),
    joined(WITH_MEMORY["L4_source_pages_come_back"], _THERE),
)

# Those that the composed systems promise, too; and the rows that help there and are of no source.
IN_PARTS: Final = {one.leads_to: one for one in RANKINGS
                   if one.leads_to != "L1_a_sink_with_all_parts_ends"}
OF_NO_SOURCE: Final = (
    "give_up_bootstrap", "give_up_transfer", "grant", "publish_memory", "end_lease", "finish")
A_FAILED_SINK_TELLS: Final = Always(
    "a_failed_sink_tells_its_sources",
    implies(all_of(receiving(d, h) == Receiving.FAILED, feeds(p, d)),
            any_of(abort(d, h, p), sending(p, h).among(Sending.SUCCESS, Sending.GONE))),
    why="a sink that fails stops its sources, if they have not sent all")
