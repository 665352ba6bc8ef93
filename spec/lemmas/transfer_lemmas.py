"""Why a transfer writes only into its own memory, for any number of sources, sinks, lives, chunks
and pages.

The sink's claim on a source is its view of the source's writes to its memory. The claim is never
more hopeful than the truth: a source with a write under way counts as writing, or is fenced.
"""

from typing import Final

from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import (
    Claim,
    Drain,
    Receiving,
    Sending,
    Write,
    abort,
    abort_ack,
    address,
    b,
    c,
    claim,
    d,
    done,
    drain,
    drained,
    expecting,
    failed,
    feeds,
    gone,
    h,
    has_met,
    introduce,
    known,
    kv,
    lease,
    p,
    publish,
    receiving,
    sending,
    sink_over,
    target,
    write,
)
from pdproto.spec.handoff.roles import Buffer
from pdproto.spec.language import Always, all_of, exists, implies

spot: Final = Buffer("spot")

OVER: Final = sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE)
WON: Final = sending(p, h).among(Sending.SUCCESS, Sending.GONE)
GIVEN_UP: Final = receiving(d, h).among(Receiving.FAILED, Receiving.GONE)
UNDER_WAY: Final = write(p, h, d, c).among(*ends.UNDER_WAY)
BEGUN: Final = write(p, h, d, c) != Write.NONE
LANDED: Final = write(p, h, d, c) == Write.LANDED
BEFORE_ADDRESS: Final = receiving(d, h).among(Receiving.UNKNOWN, Receiving.BOOTSTRAPPING)
WITHOUT_ADDRESS: Final = claim(d, h, p).among(Claim.NONE, Claim.TOLD)
BEGUN_AND_FED: Final = (receiving(d, h) != Receiving.UNKNOWN) & feeds(p, d)
THREATENS: Final = claim(d, h, p).among(Claim.OUT, Claim.STOPPING, Claim.FENCING)

_ADDRESSES: Final = (
    Always("targets_are_published", implies(target(p, h, d, b), address(d, h, b)),
           why="a source learns an address only from a publication"),
    Always("one_address", implies(address(d, h, b) & address(d, h, spot), b.same(spot)),
           why="a life publishes once"),
    Always("an_address_is_published",
           implies(address(d, h, b), ~BEFORE_ADDRESS & ~WITHOUT_ADDRESS),
           why="every source counts as a writer from the publication on"),
    Always("a_publishing_sink_has_an_address",
           implies(receiving(d, h).among(Receiving.WAITING, Receiving.TRANSFERRING),
                   exists(b, address(d, h, b))),
           why="a waiting sink has published its address"),
    Always("publications_are_addressed",
           implies(publish(d, h, p),
                   all_of(feeds(p, d), exists(b, address(d, h, b)))),
           why="a sink publishes to its sources, and its address never changes"),
)

_WRITES: Final = (
    Always("writes_go_to_the_address",
           implies(BEGUN & address(d, h, b), target(p, h, d, b)),
           why="a write begins when its source has the address, and there is only one"),
    Always("writes_have_an_address", implies(BEGUN, ~BEFORE_ADDRESS & ~WITHOUT_ADDRESS),
           why="a write begins when its source has the address"),
    Always("a_write_is_claimed",
           implies(UNDER_WAY, all_of(feeds(p, d), THREATENS | (claim(d, h, p) == Claim.FENCED))),
           why="no source counts as quiet while a write of it is under way"),
    Always("a_write_reads_held_pages", implies(write(p, h, d, c) == Write.POSTED, kv(p, h)),
           why="a source gives the pages back only when the engine no longer reads them"),
    Always("a_running_source_holds_its_pages",
           implies(sending(p, h).among(Sending.BOOTSTRAPPING, Sending.TRANSFERRING), kv(p, h)),
           why="the pages are taken as the hand-over begins"),
    Always("claims_keep_the_lease",
           implies(all_of(THREATENS, feeds(p, d), address(d, h, b),
                          receiving(d, h) != Receiving.GONE), lease(d, h, b)),
           why="a lease ends only when no source can write any more"),
)

_CLAIMS: Final = (
    Always("unknown_is_unclaimed",
           all_of(implies(receiving(d, h) == Receiving.UNKNOWN, claim(d, h, p) == Claim.NONE),
                  implies(receiving(d, h) != Receiving.UNKNOWN, claim(d, h, p) != Claim.NONE)),
           why="the sink introduces itself to all sources when the life begins"),
    Always("bootstrapping_is_told",
           implies(receiving(d, h) == Receiving.BOOTSTRAPPING, claim(d, h, p) == Claim.TOLD),
           why="no source has an address yet, and none has been asked to stop"),
    Always("published_is_out",
           implies(receiving(d, h).among(Receiving.WAITING, Receiving.TRANSFERRING),
                   claim(d, h, p).among(Claim.OUT, Claim.LANDED)),
           why="until it fails a life changes its claims only for landed parts"),
    Always("landed_is_landed", implies(claim(d, h, p) == Claim.LANDED, LANDED & WON),
           why="the source reports its part only when it has seen it land"),
    Always("drained_claims_are_over",
           implies(claim(d, h, p) == Claim.DRAINED, ~UNDER_WAY & OVER),
           why="the source reports a drain only after its end, and begins nothing after that"),
)

_WORDS: Final = (
    Always("success_has_landed",
           implies((sending(p, h) == Sending.SUCCESS) & feeds(p, d), LANDED),
           why="a source succeeds when all its parts have landed"),
    Always("done_has_landed",
           implies(done(p, h, d),
                   all_of(LANDED, WON, feeds(p, d), ~BEFORE_ADDRESS, ~WITHOUT_ADDRESS)),
           why="a source reports done when all its parts have landed"),
    Always("drained_is_over",
           implies(drained(p, h, d), all_of(~UNDER_WAY, OVER, GIVEN_UP, feeds(p, d))),
           why="a source reports a drain after its end, when no write is under way"),
    Always("drains_are_asked_for",
           implies(drain(p, h, d) != Drain.UNASKED, all_of(OVER, GIVEN_UP, feeds(p, d))),
           why="the abort that asks for it ends the life"),
    Always("said_is_quiet", implies(drain(p, h, d) == Drain.SAID, ~UNDER_WAY),
           why="an ended life begins no write"),
    Always("aborts_are_failures", implies(abort(d, h, p), GIVEN_UP & feeds(p, d)),
           why="a sink aborts when it fails"),
    Always("acknowledged_is_over", implies(abort_ack(p, h, d), all_of(OVER, GIVEN_UP, feeds(p, d))),
           why="an abort ends the life at its source"),
    Always("an_acknowledgement_was_asked_for",
           implies(abort_ack(p, h, d), drain(p, h, d) != Drain.UNASKED),
           why="the source notes the abort that it acknowledges"),
    Always("introductions_are_begun",
           implies(introduce(d, h, p), BEGUN_AND_FED),
           why="a sink introduces itself to its sources when it begins"),
    Always("a_known_sink_has_begun",
           implies(known(p, h, d), BEGUN_AND_FED),
           why="a source knows only sinks that have introduced themselves"),
    Always("only_an_ended_sink_is_said_to_be_over",
           implies(sink_over(d, h, p),
                   (receiving(d, h) == Receiving.GONE) | (claim(d, h, p) == Claim.FENCED)),
           why="the sink's process has ended, or the sink has fenced the source"),
    Always("only_the_dead_are_gone",
           implies(gone(p, h, d), sending(p, h) == Sending.GONE),
           why="the death of the process is reported, or its successor disowns the life"),
    Always("an_expected_sink_has_begun",
           implies(expecting(p, h, d), BEGUN_AND_FED & (sending(p, h) != Sending.UNKNOWN)),
           why=
           "a source with the request confirms it only to sinks that have introduced themselves"),
    Always("a_met_source_has_the_request",
           implies(has_met(d, h, p), sending(p, h) != Sending.UNKNOWN),
           why="a source that confirms a request has it, and confirms it for itself alone"),
    Always("failures_are_told_to_begun_sinks",
           implies(failed(p, h, d), receiving(d, h) != Receiving.UNKNOWN),
           why="a source tells only sinks that have introduced themselves"),
)

LEMMAS: Final = (*_ADDRESSES, *_WRITES, *_CLAIMS, *_WORDS)
