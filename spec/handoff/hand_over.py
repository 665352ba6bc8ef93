"""What a hand-over is, for one who has never heard of it: five rows, which the protocol refines.

Prefill has computed the KV of a request, and decode wants it. Either the KV is at decode, and both
ends know it; or decode knows that it has none, and prefill does not believe that decode has it.

Rule 1: Prefill says that it has sent the KV only when all of it has arrived.
Rule 2: Decode takes the KV only when all of it has arrived, and prefill has not failed.
Rule 3: An end that has spoken stays by its word.

end_to_end.py has the other rows: how the ends find each other, how memory is lent and taken back,
and what happens when messages are late and processes die. None of its rows breaks these rules.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    Write,
    c,
    d,
    feeds,
    h,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.roles import Sink, Source
from pdproto.spec.language import (
    Always,
    Configuration,
    Machine,
    OnRow,
    Refines,
    Row,
    Sometimes,
    State,
    System,
    Table,
    all_of,
    auto,
    forall,
    if_then_else,
    implies,
)


class Prefill(State):
    """What prefill says of its part."""

    AT_WORK = auto()
    SENT = auto()
    FAILED = auto()
    DEAD = auto()


class Decode(State):
    """What decode says."""

    WAITING = auto()
    TAKEN = auto()
    FAILED = auto()
    DEAD = auto()


hand_over = Machine("hand_over", host=True)
fate = Machine("fate", world=True)
prefill = hand_over.function("prefill", Prefill, Source)
decode = hand_over.function("decode", Decode, Sink)
# All that this prefill rank has of the KV is at this decode rank.
arrived = hand_over.relation("arrived", Source, Sink)

ALL_ARRIVED: Final = forall(p, implies(feeds(p, d), arrived(p, d)))
ALL_SENT: Final = forall(p, implies(feeds(p, d), prefill(p).among(Prefill.SENT, Prefill.DEAD)))

HAND_OVER: Final = System(
    "kv-hand-over",
    "The KV of a request is at decode, or decode knows that it is not; no end contradicts another.",
    tables=(Table(hand_over, rows=(
        Row("arrive", choose=(p, d), do=arrived(p, d).to(True)),
        Row("say_sent", choose=p,
            when=[prefill(p) == Prefill.AT_WORK, forall(d, implies(feeds(p, d), arrived(p, d)))],
            do=prefill(p).to(Prefill.SENT)),
        Row("take", choose=d,
            when=[decode(d) == Decode.WAITING, ALL_ARRIVED, ALL_SENT],
            do=decode(d).to(Decode.TAKEN)),
        Row("prefill_fails", choose=p, when=prefill(p) == Prefill.AT_WORK,
            do=prefill(p).to(Prefill.FAILED)),
        Row("decode_fails", choose=d, when=decode(d) == Decode.WAITING,
            do=decode(d).to(Decode.FAILED)),
    )),),
    properties=(
        Always("a_taken_kv_has_arrived",
               implies(all_of(decode(d) == Decode.TAKEN, feeds(p, d)), arrived(p, d))),
        Always("no_end_contradicts_the_other",
               implies(all_of(decode(d) == Decode.TAKEN, feeds(p, d)),
                       prefill(p).among(Prefill.SENT, Prefill.DEAD))),
        Always("a_sent_kv_has_arrived",
               implies(all_of(prefill(p) == Prefill.SENT, feeds(p, d)), arrived(p, d))),
        OnRow("rule_3_prefill_sends_once", "say_sent", prefill(p) == Prefill.AT_WORK),
        OnRow("rule_3_decode_takes_once", "take", decode(d) == Decode.WAITING),
        OnRow("rule_3_decode_fails_once", "decode_fails", decode(d) == Decode.WAITING),
        Sometimes("it_is_taken", decode(d) == Decode.TAKEN),
        Sometimes("a_sent_kv_is_taken", all_of(
            feeds(p, d), prefill(p) == Prefill.SENT, decode(d) == Decode.TAKEN)),
        Sometimes("both_know_that_it_is_not", all_of(
            decode(d) == Decode.FAILED, prefill(p) == Prefill.FAILED)),
    ),
    final=all_of(forall(p, prefill(p) != Prefill.AT_WORK),
                 forall(d, decode(d) != Decode.WAITING)),
    faults={"crash": (Table(fate, rows=(
        Row("prefill_dies", choose=p, when=prefill(p) != Prefill.DEAD,
            do=prefill(p).to(Prefill.DEAD)),
        Row("decode_dies", choose=d, when=decode(d) != Decode.DEAD,
            do=decode(d).to(Decode.DEAD)),
    )),)},
    configurations={
        "default": Configuration({Source: 1, Sink: 1}, faults=("crash",)),
        "groups": Configuration({Source: 2, Sink: 2}, faults=("crash",)),
    },
)

REFINED: Final = Refines(
    "it_is_a_hand_over", HAND_OVER,
    (prefill(p).to(if_then_else(
        sending(p, h) == Sending.SUCCESS, Prefill.SENT, if_then_else(
            sending(p, h) == Sending.FAILED, Prefill.FAILED, if_then_else(
                sending(p, h) == Sending.GONE, Prefill.DEAD, Prefill.AT_WORK)))),
     decode(d).to(if_then_else(
         receiving(d, h) == Receiving.SUCCESS, Decode.TAKEN, if_then_else(
             receiving(d, h) == Receiving.FAILED, Decode.FAILED, if_then_else(
                 receiving(d, h) == Receiving.GONE, Decode.DEAD, Decode.WAITING)))),
     arrived(p, d).to(forall(c, write(p, h, d, c) == Write.LANDED))),
    over=h,
    why="the KV is at decode, or decode knows that it is not; no end contradicts the other")
