"""The transfer of a room that was routed: one system made of the tables of both.

The tables are those of the parts (dp_rank.py; source.py, sink.py and engine.py). In dp_rank.py a
room that runs is met or fails, without a reason. In transfer.py both servers have the same room,
and know where it is. Here each server opens its end of the transfer when it knows that, and the
ends decide how the room ends. Only the rows of HOST read both parts.

Rule 1: A source opens its sender for a room that its own group runs.
Rule 2: A sink opens its receiver when it knows the group, and introduces itself to no other.
Rule 3: A sender that has failed fails the room where it runs. So decode is turned away, even if it
        comes later, and the registry removes the entry.
Rule 4: A sink that is turned away fails, and gives everything back.

The sink addresses one group, and the sources are its ranks. The router may send the room to the
other group by mistake. A room that the other group runs ends there in the same ways as here. No
process dies: the registry and the sink's heartbeat find a dead run (end_to_end_bootstrap.py).
"""

from typing import Final

from pdproto.spec.handoff import dp_rank, routing, transfer, transfer_claims
from pdproto.spec.handoff.end_to_end_ends import INTRODUCED, OPENED, RECEIVER, SENDER, UNOPENED
from pdproto.spec.handoff.ends import (
    COMMITTED,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    Receiving,
    Sending,
    Write,
    c,
    d,
    h,
    kv,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.engine import ENGINE
from pdproto.spec.handoff.renaming import Renamed
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.routing import Group, Phase, Runs, modulo, x, y
from pdproto.spec.handoff.sink import DROP, POOL, STOP_ALL
from pdproto.spec.handoff.transfer_claims import A_SOURCE_HEARS, INTRODUCED_ITSELF, WITHDRAWN
from pdproto.spec.language import (
    AddClause,
    AddRow,
    Always,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    OnRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    Tuples,
    all_of,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.properties import Property

ROUTING: Final = Renamed(
    (dp_rank.ROUTER, dp_rank.RANK, dp_rank.SENDER, dp_rank.REGISTRY, dp_rank.RECEIVER,
     dp_rank.LOSSY),
    machines={},
    symbols={"publish": "publish_room", "gone": "room_gone", "target": "addressed"},
)
*TABLES, LOSSY = ROUTING.tables
runs: Final = ROUTING.symbol(routing.runs)
phase: Final = ROUTING.symbol(routing.phase)
addressed: Final = ROUTING.symbol(routing.target)
posted: Final = ROUTING.symbol(routing.posted)
conflict: Final = ROUTING.symbol(routing.conflict)


def _the_first(_: Sizes) -> Tuples:
    return [(0,)]


# The sources are the ranks of this group.
ours: Final = Rigid("ours", x, given=_the_first)
host = Machine("host", host=True)

NO_MORE: Final = sending(p, h) == Sending.FAILED
RUN_HERE: Final = runs(x, h).among(Runs.WAITING, Runs.MET)
HAS_THE_ROOM: Final = runs(x, h).among(Runs.WAITING, Runs.MET, Runs.FAILED)
TURNED_AWAY: Final = phase(h) == Phase.FAILED

HOST: Final = Table(host, rows=(
    Row("open_own_sender", choose=(x, p, h),
        when=[ours(x), RUN_HERE, sending(p, h) == Sending.UNKNOWN],
        do=[sending(p, h).to(Sending.BOOTSTRAPPING), kv(p, h).to(True)]),
    Row("open_receiver", choose=(x, d, h),
        when=[phase(h).among(Phase.RESOLVED, Phase.MET), addressed(h, x), ours(x), UNOPENED],
        do=OPENED, send=INTRODUCED),
    Row("end_room", choose=(x, p, h), when=[ours(x), runs(x, h) == Runs.WAITING, NO_MORE],
        do=[runs(x, h).to(Runs.FAILED)],
        why="the transfer has ended before decode was met, and decode may still come"),
    Row("obey_refusal", choose=(d, h),
        when=[TURNED_AWAY, RECEIVING_NOW],
        do=[receiving(d, h).to(Receiving.FAILED), *DROP], send=[STOP_ALL],
        why="no group runs this room for the sink"),
))

TOGETHER: Final[tuple[Property, ...]] = (
    Always("nothing_is_sent_of_a_room_in_conflict",
           implies(conflict(x, h), sending(p, h).among(Sending.UNKNOWN, Sending.FAILED)),
           why="a room that was put on the wrong group runs nowhere"),
    Always("S9_a_landed_write_comes_from_the_addressed_group",
           implies(ours(x) & (write(p, h, d, c) == Write.LANDED), HAS_THE_ROOM & addressed(h, x)),
           why="KV comes only from the group that decode addresses, and only if it has the room"),
    OnRow("S9_a_receiver_is_opened_for_the_addressed_group", "open_receiver",
          all_of(addressed(h, x), phase(h).among(Phase.RESOLVED, Phase.MET)),
          why="no source here has the room of another group, or of none"),
    OnRow("only_a_failed_sender_ends_its_room", "end_room", NO_MORE,
          why="decode may still come for the room of a sender that waits"),
    OnRow("a_sink_obeys_a_refusal", "obey_refusal", TURNED_AWAY,
          why="a sink whose room is looked for, or found, goes on"),
    WITHDRAWN,
    INTRODUCED_ITSELF,
    Sometimes("a_conflict_ends_an_open_receiver", all_of(
        conflict(x, h), receiving(d, h) == Receiving.FAILED)),
    Sometimes("a_room_ends_before_decode_comes", all_of(
        runs(x, h) == Runs.FAILED, sending(p, h) == Sending.FAILED, phase(h) == Phase.IDLE)),
    Sometimes("a_room_is_published_and_committed", all_of(posted(x, h), COMMITTED)),
)
IN_TIME: Final[tuple[Property, ...]] = (
    A_SOURCE_HEARS,
    LeadsTo("a_room_that_runs_here_has_a_sender",
            all_of(ours(x), RUN_HERE, sending(p, h) == Sending.UNKNOWN),
            (sending(p, h) != Sending.UNKNOWN) | ~RUN_HERE, under=(Fairness.NO_TIMERS,),
            why="decode may come before the sender is there"),
    LeadsTo("a_room_that_is_found_here_has_a_receiver",
            all_of(ours(x), addressed(h, x), phase(h).among(Phase.RESOLVED, Phase.MET), UNOPENED),
            ~UNOPENED | (phase(h) == Phase.FAILED), under=(Fairness.NO_TIMERS,),
            why="prefill may answer before the receiver is there"),
    LeadsTo("a_refusal_ends_the_transfer", TURNED_AWAY & RECEIVING_NOW,
            RECEIVING_ENDED, under=(Fairness.NO_TIMERS,),
            why="a sink that is turned away waits for no clock"),
    LeadsTo("a_failed_sender_ends_its_room", NO_MORE & (runs(x, h) == Runs.WAITING),
            ~(runs(x, h) == Runs.WAITING), under=(Fairness.NO_TIMERS,),
            why="decode is then turned away, if it comes later"),
    LeadsTo("a_listed_room_is_struck_out", posted(x, h), ~posted(x, h), under=(Fairness.TIMERS,),
            why="after any end of the transfer"),
)
OVER: Final = all_of(
    transfer.FINAL,
    forall((x, h), all_of(runs(x, h) != Runs.WAITING, ~posted(x, h))),
    forall(h, phase(h).among(Phase.IDLE, Phase.MET, Phase.FAILED)),
)


SIZES: Final[Sizes] = {
    Group: 2, Source: 1, Sink: 1, Life: 1, Buffer: 1, Chunk: 1, Page: 1, Slot: 1,
}
_PARTS: Final = System(
    "parts", "The tables of the routing and of the transfer, side by side.",
    tables=(SENDER, RECEIVER, POOL, ENGINE, *TABLES, HOST),
    properties=(*transfer.SAFETY, *TOGETHER, *transfer_claims.LIVENESS, *IN_TIME),
    final=OVER,
    faults={"lossy": (LOSSY,)},
    axioms={
        **dp_rank.AXIOMS,
        "one_group_is_ours": implies(ours(x) & ours(y), x.same(y)),
        "a_group_is_ours": exists(x, ours(x)),
    },
    # Either half of the request may be lost, and every setting of both groups is tried.
    configurations={"default": Configuration(SIZES, faults=("lossy",), dead_bits=True)},
)
SYSTEM: Final = edited(
    _PARTS, "end-to-end-routing",
    # The sender has its own clock. The rows of HOST end a room with its hand-over.
    *(DropRow(name) for name in ("stop_waiting", *dp_rank.OF_HAND_OVERS)),
    # The other group transfers a room that it runs; this system does not follow it.
    AddClause("route_named", modulo(h, y)),
    AddClause("serve_and_publish", modulo(h, x)),
    AddRow(ROUTING.machine(routing.sender), Ignore(
        ROUTING.symbol(routing.prompt)(h, x), at=Runs.ABSENT,
        when=[ROUTING.symbol(routing.publishes)(x), ~modulo(h, x), routing.several],
        why="the other group runs it, with a source of its own")),
    about="The transfer of a room that decode has to find, and that may run on another rank.",
)
