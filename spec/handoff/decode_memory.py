"""The memory of a decode node's hand-overs: which request waits for it, and which is refused.

A request needs staging memory of the engine, and pages. It waits for what comes back, and is
refused where nothing would end its wait.

Rule 1: The system may refuse staging memory, as a process that has no file left. The request waits
        while another one holds some, which comes back. While none does, the request is refused, for
        the reason that the system gives.
Rule 2: A page belongs to a request from its grant until nothing writes into it. A page that its
        owner has given back comes free, so the next request waits for it. A page that its owner has
        not given back is given twice, by a mistake of the application: the next request is refused.
Rule 3: Other tables grant memory and end leases (POOL and SINK in spec/handoff/sink.py). The rows
        of `OTHERS` are what a refusal needs to know of them, and of the system.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life, Page
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
    exists,
    forall,
    implies,
)


class Staging(State):
    """The staging memory of a request."""

    NONE = auto()
    WAITING = auto()
    HELD = auto()
    REFUSED = auto()
    OVER = auto()  # it is given back, or the request has ended before it had any


h, k, g = Life("h"), Life("k"), Page("g")

queue = Machine("queue")
others = Machine("others", world=True)

staging = queue.function("staging", Staging, Life, edges={
    Staging.NONE: (Staging.WAITING,),
    Staging.WAITING: (Staging.HELD, Staging.REFUSED, Staging.OVER),
    Staging.HELD: (Staging.OVER,),
    Staging.REFUSED: (), Staging.OVER: ()})
staging.shared_with(others, writes=(Staging.WAITING, Staging.HELD, Staging.OVER))
wants = queue.relation("wants", Life, Page)
wants.shared_with(others, writes=(True,))
owns = queue.relation("owns", Life, Page)
owns.shared_with(others, writes=(True, False))
closed = queue.relation("closed", Life)  # the application has given its pages back, or it failed
closed.shared_with(others, writes=(True,))
short = queue.relation("short")  # the system refuses staging memory
short.shared_with(others, writes=(True, False))

NONE_HOLDS: Final = forall(k, staging(k) != Staging.HELD)
SOME_HOLDS: Final = exists(k, staging(k) == Staging.HELD)
IS_FREE: Final = forall(k, ~owns(k, g))
GIVEN_TWICE: Final = exists(k, all_of(owns(k, g), ~closed(k)))
COMES_BACK: Final = all_of(exists(k, owns(k, g)), forall(k, implies(owns(k, g), closed(k))))

REFUSES: Final = Call("system_refuses", h)
OWNED: Final = Call("find_owned", h, g)

QUEUE: Final = Table(queue, rows=(
    Row("refuse", on=REFUSES, when=[staging(h) == Staging.WAITING, short(), NONE_HOLDS],
        do=[staging(h).to(Staging.REFUSED)], fair=True,
        why="rule 1: no memory of this node comes back, so nothing would end the wait"),
    Ignore(REFUSES, when=[staging(h) == Staging.WAITING, short(), SOME_HOLDS],
           why="rule 1: the request waits, because memory comes back"),
    Row("refuse_given_twice", on=OWNED,
        when=[staging(h) == Staging.WAITING, wants(h, g), GIVEN_TWICE],
        do=[staging(h).to(Staging.REFUSED)], fair=True,
        why="rule 2: nothing says that the application will ever give the page back"),
    Ignore(OWNED, when=[staging(h) == Staging.WAITING, wants(h, g), COMES_BACK],
           why="rule 2: the request waits, because the page comes free"),
))

OTHERS: Final = Table(others, rows=(
    Row("ask", choose=(h, g), when=staging(h) == Staging.NONE,
        do=[staging(h).to(Staging.WAITING), wants(h, g).to(True)], fair=False),
    Row("lease", choose=(h, g),
        when=[staging(h) == Staging.WAITING, wants(h, g), ~short(), IS_FREE],
        do=[staging(h).to(Staging.HELD), owns(h, g).to(True)], fair=True,
        why="staging memory and pages are granted together"),
    Row("leave", choose=(h,), when=staging(h) == Staging.WAITING,
        do=[staging(h).to(Staging.OVER)], fair=False,
        why="its client has left, or a clock has ended"),
    Row("end_lease", choose=(h,), when=staging(h) == Staging.HELD,
        do=[staging(h).to(Staging.OVER), short().to(False)], fair=True,
        why="a hand-over ends, and the memory that comes back can be handed out"),
    Row("close", choose=(h, g), when=[owns(h, g), ~closed(h)], do=[closed(h).to(True)],
        fair=False),
    Row("free", choose=(h, g), when=[owns(h, g), closed(h)], do=[owns(h, g).to(False)],
        fair=True, why="copies and fenced writes end"),
    Row("run_short", when=~short(), do=[short().to(True)], fair=False,
        why="other parts of the process, and other processes, use the same files and memory"),
))

ENDED: Final = (Staging.HELD, Staging.REFUSED, Staging.OVER)

PROPERTIES: Final = (
    OnRow("no_request_is_refused_while_another_holds_memory", "refuse", NONE_HOLDS,
          why="rule 1: memory comes back, and the request can have it"),
    OnRow("no_request_is_refused_for_memory_that_there_is", "refuse", short()),
    OnRow("no_request_is_refused_for_a_page_that_comes_back", "refuse_given_twice",
          all_of(wants(h, g), GIVEN_TWICE),
          why="rule 2: the request after a success takes the pages that it has given back"),
    Always("a_page_has_one_owner", implies(all_of(owns(h, g), owns(k, g)), h.same(k))),
    Always("only_a_request_that_had_memory_owns_pages",
           implies(owns(h, g), staging(h).among(Staging.HELD, Staging.OVER))),
    LeadsTo("L5_a_request_that_waits_gets_memory_or_ends", staging(h) == Staging.WAITING,
            staging(h).among(*ENDED),
            why="what it waits for comes back, or it is refused"),
    Sometimes("a_request_waits_while_the_system_refuses",
              all_of(staging(h) == Staging.WAITING, short(), SOME_HOLDS)),
    Sometimes("a_request_holds_memory", staging(h) == Staging.HELD),
    Sometimes("a_request_is_refused", staging(h) == Staging.REFUSED),
    Sometimes("a_request_leaves", all_of(staging(h) == Staging.OVER, forall(g, ~owns(h, g)),
                                         ~closed(h))),
    Sometimes("a_request_waits_for_a_page_that_comes_back",
              all_of(staging(h) == Staging.WAITING, wants(h, g), COMES_BACK)),
)

SYSTEM: Final = System(
    "decode-memory",
    "The memory of a decode node's hand-overs: which request waits for it, and which is refused.",
    tables=(QUEUE, OTHERS),
    properties=PROPERTIES,
    final=forall(h, all_of(staging(h) != Staging.WAITING, staging(h) != Staging.HELD)),
    configurations={
        "default": Configuration({Life: 2, Page: 1}),
        "two-pages": Configuration({Life: 2, Page: 2}),
        "deep": Configuration({Life: 3, Page: 2}),
    },
)
