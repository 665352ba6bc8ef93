"""SGLang 0.5.23's bootstrap server as its code does it: it counts registrations, not ranks.

The server never removes a registration, and it keeps the first description of a server that a rank
sends. It answers a look-up once it has counted as many registrations as there are ranks. sglang.py
says why there are such descriptions.
"""

from typing import Final

from pdproto.spec.handoff.roles import Source
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Machine,
    OnRow,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    exists,
    forall,
    implies,
)


class Count(Sort, ordered=True, prefix="n"):
    """The first, second, ... registration; there are as many as the server has ranks."""


p, other = Source("p"), Source("other")
n, m = Count("n"), Count("m")

registry = Machine("bootstrap")
listed = registry.relation("listed", Source)  # prefill_port_table
counted = registry.relation("counted", Count)  # _registered_count
differs = registry.relation("differs", Source)  # the rank sends another topology than the first one

NEXT: Final = (~counted(n), forall(m, implies(m.before(n), m.same(n) | counted(m))))
READY: Final = forall(m, counted(m))
UNREADY: Final = exists(m, ~counted(m))
TAKEN: Final = (listed(p).to(True), counted(n).to(True))

REGISTRY: Final = Table(registry, rows=(
    Row("record", on=Call("put", p), choose=(n,), when=[~listed(p), *NEXT], do=TAKEN),
    Row("record_again", on=Call("put", p), choose=(n,), when=[listed(p), *NEXT], do=TAKEN,
        why="the same rank is counted once more"),
    Row("record_more", on=Call("put", p), when=READY, do=[listed(p).to(True)]),
    Row("record_other", on=Call("put_other", p), choose=(n,),
        when=[*NEXT, exists(other, listed(other))], do=[*TAKEN, differs(p).to(True)],
        why="another page size, or another number of ranks: answered with OK, and ignored"),
    Row("answer_topology", on=Call("look_up_all"), when=READY),
    Row("answer_not_ready", on=Call("look_up_all"), when=UNREADY),
    Row("locate", on=Call("look_up", p), when=[READY, listed(p)]),
    Row("answer_unknown", on=Call("look_up", p), when=[READY, ~listed(p)],
        why="the server answers that it is ready, and lacks one of its ranks"),
    Row("answer_unready", on=Call("look_up", p), when=UNREADY),
))

SYSTEM: Final = System(
    "sglang-registry",
    "SGLang 0.5.23's bootstrap server, described as its code does it.",
    tables=(REGISTRY,),
    properties=(
        OnRow("ready_means_every_rank", "answer_topology", forall(p, listed(p)),
              why="a sink that finds a server ready finds every rank of it"),
        Sometimes("the_server_gets_ready", READY),
        Always("one_topology", ~differs(p),
               why="the ranks of a server send the same topology, or are refused"),
    ),
    final=READY,
    configurations={"default": Configuration({Source: 2, Count: 2}, dead_bits=True)},
)
