"""Why bootstrap ends, why it succeeds after a restart, and why no entry stays for a run that is
gone.

A cache is filled, found whole, and forgotten. A sink forgets it only for a run that it knows to be
gone, and never learns an address of that run again. So between two such losses a cache only fills,
by answers of the registry. The registry answers where a rank is, or that it is missing, or is down.
"""

from typing import Final

from pdproto.spec.handoff.bootstrap import (
    GONE,
    Cache,
    PeerLink,
    Phase,
    Ready,
    Record,
    Run,
    asked,
    cache,
    cached,
    d,
    dead,
    disconnected,
    e,
    entry,
    f,
    filler,
    goodbye,
    got,
    h,
    introduce,
    joined,
    link,
    located,
    lookup,
    missed,
    outdated,
    p,
    phase,
    ready,
    recorded,
    refuse,
    register,
    registry_down,
    run,
    suspected,
    to_exceed,
    unlocated,
    welcome,
    z,
)
from pdproto.spec.handoff.roles import Incarnation, Life, Source
from pdproto.spec.language import Always, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

# The hand-over that fills the cache, a rank that it lacks, and that rank's registered run.
filling, lacking, current = Life("filling"), Source("lacking"), Incarnation("current")
# A rank that the hand-over has not met, and its run in the cache.
unmet, named = Source("unmet"), Incarnation("named")
other, counted, told = Incarnation("other"), Incarnation("counted"), Incarnation("told")
later = Incarnation("later")

BORN: Final = run(p, e) != Run.UNBORN

LEMMAS: Final = (
    Always("a_gone_run_is_silent",
           implies(run(p, e).among(*GONE), all_of(suspected(p, e), missed(p, e))),
           why="a run that is gone sends nothing more"),
    Always("a_silent_run_is_gone",
           implies(missed(p, e) | goodbye(p, e), run(p, e).among(*GONE)),
           why="only an end sends this, and a run sends nothing after its goodbye"),
    Always("a_run_that_left_said_goodbye", implies(run(p, e) == Run.LEFT, goodbye(p, e)),
           why="a server that stops on purpose says goodbye"),
    Always("a_current_entry_has_registered",
           implies(entry(p, e) == Record.CURRENT, asked(p, e)),
           why="the registry records a registration"),
    Always("a_located_run_has_registered", implies(located(d, h, p, e), asked(p, e)),
           why="the registry answers only with registered runs"),
    Always("a_cached_run_has_registered", implies(cached(d, p, e), asked(p, e)),
           why="a sink learns an address from the registry"),
    Always("a_called_run_has_registered",
           implies(link(d, h, p, e) != PeerLink.UNTOLD, asked(p, e)),
           why="a sink introduces itself only to runs in its cache"),
    Always("a_refused_run_is_gone", implies(refuse(d, h, p, f, e), run(p, f).among(*GONE)),
           why="a later run is at its address"),
    Always("a_dead_run_is_gone_or_cut_off",
           implies(dead(d, p, e), run(p, e).among(*GONE) | disconnected(d, p, e)),
           why="its heartbeat is missing, or a later run is at its address"),
    Always("a_run_told_to_exceed_renews", implies(to_exceed(p, e, f), run(p, e) == Run.RENEWED),
           why="a run gives its number up when the registry tells it to"),
    Always("a_goodbye_is_of_a_born_run", implies(goodbye(p, e), BORN),
           why="only a process that is up says goodbye"),
    Always("a_counting_number_is_born", implies(entry(p, e) != Record.NEVER, BORN),
           why="the run has registered, or has said goodbye"),
    Always("a_whole_cache_has_all", implies(cache(d) == Cache.WHOLE, got(d, p)),
           why="a cache is whole as soon as it has every address"),
    Always("got_is_cached", implies(got(d, p), exists(e, cached(d, p, e))),
           why="the sink marks a rank when it gets its address"),
    Always("a_filling_cache_has_a_filler",
           implies(cache(d) == Cache.FILLING, exists(h, filler(d, h))),
           why="a hand-over that ends its look-up leaves none behind"),
    Always("a_welcomed_rank_has_joined",
           implies(link(d, h, p, e) == PeerLink.WELCOMED, joined(d, h, p)),
           why="a rank joins when it welcomes the hand-over"),
    Always("registry_down_is_said", implies(ready() == Ready.DOWN, registry_down()),
           why="a hand-over that asks a registry which is down finds that it does not answer"),
    Always("a_look_up_is_of_an_open_handoff",
           implies(lookup(d, h, p) | unlocated(d, h, p), phase(d, h) != Phase.IDLE),
           why="a hand-over asks for addresses only after it has been opened"),
    Always("a_call_is_of_an_open_handoff",
           implies(link(d, h, p, e) != PeerLink.UNTOLD, phase(d, h) != Phase.IDLE),
           why="a hand-over introduces itself to ranks only after it has been opened"),
)

# The order counts: only a step that makes an earlier predicate true may make a later one false.
MONOTONE: Final = (
    Monotone("open_for_all", ready() == Ready.READY,
            why="only a strike-out makes it collect again, and each run is struck out once"),
    Monotone("written_off", dead(d, p, e) & ~cached(d, p, e),
            why="a sink learns no address of a run that it knows to be gone"),
    Monotone("left", cache(d) == Cache.ABANDONED, why="a sink is abandoned for good"),
    Monotone("looked_up", cache(d) != Cache.EMPTY,
            why=
             "a failed look-up ends its hand-over, and a forgotten address is never learnt again"),
    Monotone("ticked_off", got(d, p),
            why=
             "a failed look-up ends its hand-over, and a forgotten address is never learnt again"),
    Monotone("found_whole", cache(d) == Cache.WHOLE,
             why="a forgotten address is never learnt again"),
)

_OF_LACKING: Final = {h: filling, p: lacking}
_OF_CURRENT: Final = {**_OF_LACKING, e: current}
_OF_NAMED: Final = {p: unmet, e: named}

_WITNESSES: Final = (
    Witness(filling, filler(d, filling)),
    Witness(lacking, ~got(d, lacking)),
    Witness(current, entry(lacking, current) == Record.CURRENT),
    Witness(unmet, ~joined(d, h, unmet)),
    Witness(named, cached(d, unmet, named)),
)
_USING: Final = (
    Use("a_filling_cache_has_a_filler", {d: d}), Use("ready_means_every_rank", {p: lacking}),
    Use("got_is_cached", {d: d, p: unmet}),
)
_LOOK_UP: Final = (
    Help("fill"), Help("look_again", ~lookup(d, h, p), _OF_LACKING),
    Help("locate", ~located(d, h, p, e), _OF_CURRENT), Help("learn", at=_OF_CURRENT),
    Help("filled"),
)
# The registry finds a run that is gone, or answers that a rank is missing, or is found to be down.
_FRUITLESS: Final = (
    Help("expire", at={p: lacking, e: current}),
    Help("answer_not_found", ~unlocated(d, h, p), _OF_LACKING), Help("miss", at=_OF_LACKING),
    Help("give_up", at={h: filling}),
    Help("abandon", at=_OF_CURRENT), Help("fail_abandoned"),
)
_CONNECT: Final = (
    Help("forget"),
    Help("call_on", at=_OF_NAMED), Help("call_again", ~introduce(d, h, p, e), _OF_NAMED),
    Help("accept", ~welcome(d, h, p, e), {**_OF_NAMED, f: named}),
    Help("be_welcomed", at=_OF_NAMED), Help("miss_heartbeat", at=_OF_NAMED),
    Help("connect"),
)

# The last run of every rank is up and registered, and this hand-over has met no run that is gone.
_RESTARTED: Final = all_of(
    phase(d, h).among(Phase.IDLE, Phase.BOOTSTRAPPING), ready() == Ready.READY,
    forall((p, e), all_of(
        implies(entry(p, e) == Record.CURRENT,
                all_of(run(p, e) == Run.UP, forall(f, ~e.before(f)))),
        implies(run(p, e) == Run.UP, entry(p, e) == Record.CURRENT),
        implies(run(p, e) != Run.UP,
                all_of(~welcome(d, h, p, e), link(d, h, p, e) != PeerLink.WELCOMED)),
    )),
    forall(p, ~unlocated(d, h, p)),
)

# A run that is registered in place of this one, a number that has counted, one that it is told.
_OF_NUMBERS: Final = (
    Witness(other, entry(p, other) == Record.CURRENT),
    Witness(counted, all_of(entry(p, counted) != Record.NEVER, ~counted.before(e))),
    Witness(told, outdated(p, e, told)),
)
_OUTDATED: Final = (
    Help("expire", at={e: other}),
    Help("answer_outdated", ~outdated(p, e, f), {f: counted}),
    Help("renew", at={f: told}),
)

RANKINGS: Final = (
    Ranking("L1_bootstrap_ends", (*_LOOK_UP, *_FRUITLESS, *_CONNECT),
            witnesses=_WITNESSES, using=_USING,
            why=
            "the hand-over that fills the cache gets its answers, and each rank in it answers or "
            "is gone"),
    Ranking("M1_4_lost_connection",
            (Help("miss_heartbeat"),
             Help("lose_connection", phase(d, h) == Phase.WAITING_FOR_INPUT)),
            why="a detector finds a run that is gone"),
    Ranking("an_abandoned_look_up_says_so", (Help("fail_abandoned"),),
            why="a sink is abandoned for good"),
    Ranking("L6_recovery", (Help("open"), *_LOOK_UP, *_CONNECT),
            pending=_RESTARTED, witnesses=_WITNESSES, using=_USING,
            assumed={"runs_end": exists(e, forall(f, ~e.before(f)))},
            why="the sink forgets every address of an earlier run, and the later run answers"),
    Ranking("L6_a_run_that_is_up_is_recorded",
            (Help("enroll"), Help("enroll_again", ~register(p, e)),
             Help("record"), Help("record_again", ~recorded(p, e)),
             Help("be_recorded"), *_OUTDATED),
            witnesses=_OF_NUMBERS,
            why="a run repeats its registration until it is recorded, or gives its number up"),
    Ranking("L6_a_run_that_is_up_is_listed",
            (Help("enroll"), Help("enroll_again", ~register(p, e)),
             Help("show_sign_of_life", ~register(p, e)),
             Help("record"), *_OUTDATED),
            witnesses=_OF_NUMBERS,
            why="a run whose number does not count learns so, because it shows signs of life"),
    Ranking("L6_a_run_told_to_exceed_comes_back", (Help("come_back", at={z: later}),),
            witnesses=(Witness(later, f.before(later) & (run(p, later) == Run.UNBORN)),),
            why="there is a number above the one that the registry named"),
    Ranking("L7_registrations_expire", (Help("expire"),), why="a run that is gone is silent"),
    Ranking("L7_a_dead_address_is_forgotten", (Help("forget"),),
            why="with any other waits of its sink"),
    Ranking("a_goodbye_ends_the_entry_at_once", (Help("strike_out"),),
            why="a goodbye is not lost"),
    Ranking("a_goodbye_is_kept", (Help("strike_out"), Help("strike_out_early")),
            why="a goodbye is not lost"),
)
