"""Why a transfer begins with the run of a rank that was looked up, for any number of ranks, runs,
lives, sinks and chunks.

The lemmas of the transfer and of the bootstrap hold here too. The lemmas below say: runs of a rank
come one after the other; the registry and the sink know only runs that have existed; and the run of
a life that has begun is alive, or the life is gone with it.
"""

from typing import Final

from pdproto.spec.handoff import bootstrap
from pdproto.spec.handoff.bootstrap import GONE, PeerLink, Phase, Record, Run, e, f
from pdproto.spec.handoff.end_to_end_bootstrap import (
    BOOTSTRAP,
    OF_BOOTSTRAP,
    begun,
    cached,
    dead,
    disconnected,
    link,
    located,
    missed,
    outdated,
    phase,
    refuse,
    run,
    suspected,
    welcome,
)
from pdproto.spec.handoff.ends import (
    Memory,
    Receiving,
    Sending,
    b,
    d,
    g,
    h,
    lease,
    memory,
    p,
    page,
    receiving,
    sending,
)
from pdproto.spec.handoff.registry_claims import PROPERTIES
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.lemmas import registry_lemmas, transfer_lemmas

entry: Final = BOOTSTRAP.symbol(bootstrap.entry)
hello: Final = BOOTSTRAP.symbol(bootstrap.introduce)
register: Final = BOOTSTRAP.symbol(bootstrap.register)
goodbye: Final = BOOTSTRAP.symbol(bootstrap.goodbye)

WAS_THERE: Final = run(p, e) != Run.UNBORN
OVER: Final = run(p, e).among(*GONE)

_RUNS: Final = (
    Always("an_earlier_run_is_over", implies(e.before(f) & (run(p, f) != Run.UNBORN), OVER),
           why="a run of a rank starts when the earlier ones have ended"),
    Always("a_registering_run_was_there", implies(register(p, e), WAS_THERE),
           why="a run registers itself"),
    Always("an_entered_run_was_there", implies(entry(p, e) == Record.CURRENT, WAS_THERE),
           why="the registry records only ranks that have registered"),
    Always("a_located_run_was_there", implies(located(d, h, p, e), WAS_THERE),
           why="the registry answers only with its entries"),
    Always("a_cached_run_was_there", implies(cached(d, p, e), WAS_THERE),
           why="a sink keeps the registry's answer"),
    Always("a_told_run_was_there", implies(link(d, h, p, e) != PeerLink.UNTOLD, WAS_THERE),
           why="a sink introduces itself only to runs in its cache"),
    Always("a_called_run_was_there", implies(hello(d, h, p, e), WAS_THERE),
           why="a sink introduces itself only to runs in its cache"),
    Always("a_silent_run_is_gone", implies(suspected(p, e) | goodbye(p, e), OVER),
           why="the registry's detector is never wrong here"),
    Always("a_struck_out_run_is_gone", implies(entry(p, e) == Record.OVER, OVER),
           why="the run said goodbye, fell silent, or a later run has registered"),
    Always("an_outdated_run_is_gone", implies(outdated(p, e, f), OVER),
           why="only a number that no longer counts gets this answer"),
    Always("a_missed_run_is_gone", implies(missed(p, e), OVER),
           why="a connection closes with its process"),
    Always("no_sink_is_cut_off", ~disconnected(d, p, e),
           why="the sink's detector is never wrong here"),
    Always("a_refused_run_is_gone", implies(refuse(d, h, p, e, f), OVER),
           why="a later run answers in its place, and runs do not overlap"),
    Always("a_dead_run_is_gone", implies(dead(d, p, e), OVER),
           why="a sink trusts a closed connection, and a later run"),
)

_LIVES: Final = (
    Always("a_begun_life_runs", implies(begun(p, e, h) & (sending(p, h) != Sending.GONE),
                                        run(p, e) == Run.UP),
           why="a life ends with the process with which it began"),
    Always("a_welcoming_run_has_begun", implies(welcome(d, h, p, e), begun(p, e, h)),
           why="a run that welcomes a life begins it"),
    Always("a_bound_life_has_begun", implies(link(d, h, p, e) == PeerLink.WELCOMED, begun(p, e, h)),
           why="a sink is bound by a welcome"),
    Always("an_opened_receiver_was_looked_up",
           implies(receiving(d, h) != Receiving.UNKNOWN,
                   phase(d, h) == Phase.WAITING_FOR_INPUT),
           why="a receiver is opened when every rank has welcomed the life"),
    Always("an_unopened_receiver_holds_nothing",
           implies(receiving(d, h) == Receiving.UNKNOWN,
                   all_of(memory(d, h) == Memory.UNASKED, ~lease(d, h, b), ~page(d, h, g))),
           why="only an opened receiver asks for memory"),
)

BRIDGE: Final = (*_RUNS, *_LIVES)  # lemmas between the parts
# The bootstrap's promises, without those that the composition states itself.
_PROMISED: Final = tuple(
    BOOTSTRAP.claim(one) for one in PROPERTIES
    if isinstance(one, Always) and one.name not in {claim.name for claim in OF_BOOTSTRAP})
LEMMAS: Final = (
    *transfer_lemmas.LEMMAS, *map(BOOTSTRAP.claim, registry_lemmas.LEMMAS), *_PROMISED, *BRIDGE,
)
