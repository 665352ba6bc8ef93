"""Optimistic prefill on a group, with variables that remember each decision and its pass.

In optimistic_group.py a decision to go on, to finalize or to yield does not say of which pass it
is, and the entry keeps no log: the messages and the order of their numbers say it. A proof for
every size needs the words. Here the entry logs its decisions, with the pass of each, and a rank
remembers its current pass. No guard reads these variables, so every run of optimistic_group.py is a
run here, and its safety properties hold there if they hold here.
"""

from typing import Final

from pdproto.spec.handoff.attempts import a
from pdproto.spec.handoff.group import Decision, Rank, h, n, r
from pdproto.spec.handoff.group_attempts import entry, rank
from pdproto.spec.handoff.optimistic_group import LIVENESS, SAFETY, SYSTEM
from pdproto.spec.handoff.optimistic_group_loss import LOSS
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import (
    AddEffect,
    Configuration,
    ReplaceProperties,
    State,
    auto,
    each,
    edited,
)


class Verdict(State):
    """The kind of a decision about a request."""

    NONE = auto()
    RUN = auto()
    GO_ON = auto()
    FINALIZE = auto()
    YIELD = auto()
    ADMIT = auto()
    FAIL = auto()


log = entry.function("log", Verdict, Decision, Life)
within = entry.relation("within", Decision, Attempt)  # the pass of a decision
latest = entry.function("latest", Attempt, Life)  # the last pass that the entry has decided
current = rank.function("current", Attempt, Life)  # the last pass that this rank has begun
begun_by = rank.function("begun_by", Decision, Life)  # the decision to run it
put_back = rank.function("put_back", Decision, Life)  # the last decision to yield
# The passes of which this rank has computed the first chunk, and those that it has computed.
computed = rank.relation("computed", Life, Attempt)
completed = rank.relation("completed", Life, Attempt)

OF_THE_LATEST: Final = each(a, within(n, a).to(True), where=latest(h) == a)
EFFECTS: Final = tuple(AddEffect(row, effect) for row, effects in {
    "decide_run": (log(n, h).to(Verdict.RUN), within(n, a).to(True), latest(h).to(a)),
    "decide_to_go_on": (log(n, h).to(Verdict.GO_ON), OF_THE_LATEST),
    "decide_finalize": (log(n, h).to(Verdict.FINALIZE), OF_THE_LATEST),
    "decide_to_yield": (log(n, h).to(Verdict.YIELD), within(n, a).to(True)),
    "force_retry": (log(n, h).to(Verdict.YIELD), within(n, a).to(True)),
    "decide_admit": (log(n, h).to(Verdict.ADMIT),),
    "decide_fail": (log(n, h).to(Verdict.FAIL),),
    "give_up": (log(n, h).to(Verdict.FAIL),),
    "abort": (log(n, h).to(Verdict.FAIL),),
    "start": (current(r, h).to(a), begun_by(r, h).to(n)),
    "drop": (put_back(r, h).to(n),),
    "finish_first": (computed(r, h, a).to(True),),
    "finish_last": (completed(r, h, a).to(True),),
}.items() for effect in effects)

HISTORY: Final = edited(
    SYSTEM, "optimistic-group-history", *EFFECTS, ReplaceProperties((*SAFETY, *LIVENESS)),
    about="The same group, where each decision and its pass are remembered.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Attempt: 2, Decision: 7}, faults=("crash",),
                                 symmetry=True, dead_bits=True),
    },
)

LOSS_HISTORY: Final = edited(
    LOSS, "optimistic-group-loss-history", *EFFECTS,
    about="The group that loses messages, where each decision and its pass are remembered.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Attempt: 1, Decision: 5},
                                 faults=("lossy", "crash"), symmetry=True, dead_bits=True),
    },
)
