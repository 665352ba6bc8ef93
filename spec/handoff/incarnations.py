"""The run of a source on which a hand-over of decode counts, and when it asks for memory.

A process may die and be started again under its name. Its successor knows nothing of the writes of
the run before, and still answers for it: it says that it writes nothing into the memory of a
hand-over, which is true of itself alone. So decode counts on one run of each source.

Rule 1: a hand-over asks for memory when it has heard of every source, and so knows its run.
        Otherwise a restart after that would go unnoticed.
Rule 2: an answer counts if it comes from the run that the hand-over knows. Any other run's is
        dropped: the fence ends the writes of the run before.
Rule 3: the run is that of the first message, for good. Silence does not change it: a source that
        was silent and comes back may still answer for itself.

The memory, the writes and the fence are here as the environment has them: sink.py and engine.py
have their tables. A source begins at most one write, by the run that the router gave the request.
"""

from typing import Final

from pdproto.spec.handoff.roles import Incarnation, Life, Source
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Row,
    Sometimes,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    exists,
    forall,
    implies,
)


class Asking(State):
    """Whether a hand-over has asked for memory."""

    OPEN = auto()  # it has no pages yet
    PLACED = auto()  # it has its pages, and has not heard of every source
    ASKED = auto()


h, k = Life("h"), Life("k")
p, q = Source("p"), Source("q")
e, f = Incarnation("e"), Incarnation("f")

request = Machine("request", h)
outside = Machine("outside", world=True)

asking = request.function("asking", Asking, edges={
    Asking.OPEN: (Asking.PLACED, Asking.ASKED),
    Asking.PLACED: (Asking.ASKED,),
})
feeds = request.relation("feeds", Source)  # it is a source of this hand-over
unmet = request.relation("unmet", Source)  # nothing has been heard of this source yet
incarnation = request.relation("incarnation", Source, Incarnation)  # the run of it that counts
answered = request.relation("answered", Source)  # it writes no more here, as it has said itself

ended = outside.relation("ended", Source, Incarnation)
granted = outside.relation("granted", Life)
given_up = outside.relation("given_up", Life)  # the sink has ended it: no write begins any more
wrote = outside.relation("wrote", Source, Incarnation, Life)  # this run has begun to write
writing = outside.relation("writing", Source, Incarnation, Life)  # its write may still land
fenced = outside.relation("fenced", Life, Source)
free = outside.relation("free", Life)  # the memory may have another owner

# Any batch of this run: it has been heard of.
greeting = Message("greeting", p, e, h, sender=outside, receiver=request)
# A message of this run about the life: it writes no more, or will not begin.
answer = Message("answer", p, e, h, sender=outside, receiver=request)

# The pages come in any state of the sources.
PLACE: Final = Call("place", any_time=True)

RUNS: Final = all_of(~ended(p, e), forall(f, implies(f.before(e), ended(p, f))))
ANOTHER_IS_UNMET: Final = exists(q, unmet(h, q) & q.differs(p))
ALL_MET: Final = forall(q, ~unmet(h, q))
MEET: Final = (unmet(h, p).to(False), incarnation(h, p, e).to(True))

REQUEST: Final = Table(request, state=asking, rows=(
    Row("expect", on=Call("expect", p), at=Asking.OPEN, when=~feeds(h, p),
        do=[feeds(h, p).to(True), unmet(h, p).to(True)],
        why="nobody has heard of this source yet"),
    Row("begin_met", on=greeting(p, e, h), at=Asking.OPEN, when=~feeds(h, p),
        do=[feeds(h, p).to(True), incarnation(h, p, e).to(True)],
        why="the node has heard of this source before"),
    Row("place", on=PLACE, at=Asking.OPEN, to=Asking.PLACED, when=exists(q, unmet(h, q)),
        fair=True, why="every request gets its pages, and rule 1 has it wait"),
    Row("place_and_ask", on=PLACE, at=Asking.OPEN, to=Asking.ASKED, when=ALL_MET,
        fair=True, why="every request gets its pages"),
    Ignore(PLACE, at=(Asking.PLACED, Asking.ASKED), why="the hand-over has its pages already"),
    Row("meet_early", on=greeting(p, e, h), at=Asking.OPEN,
        when=[feeds(h, p), unmet(h, p)], do=MEET),
    Row("meet", on=greeting(p, e, h), at=Asking.PLACED, when=[unmet(h, p), ANOTHER_IS_UNMET],
        do=MEET),
    Row("meet_last", on=greeting(p, e, h), at=Asking.PLACED, to=Asking.ASKED,
        when=[unmet(h, p), ~ANOTHER_IS_UNMET], do=MEET),
    Ignore(greeting(p, e, h), at=Asking.OPEN, when=[feeds(h, p), ~unmet(h, p)],
           why="its run is known"),
    Ignore(greeting(p, e, h), at=Asking.PLACED, when=~unmet(h, p),
           why="its run is known, or it is no source of this hand-over"),
    Ignore(greeting(p, e, h), at=Asking.ASKED,
           why="the hand-over waits for no source any more"),
    Row("take", on=answer(p, e, h), when=incarnation(h, p, e), do=[answered(h, p).to(True)]),
    Ignore(answer(p, e, h), when=~incarnation(h, p, e),
           why="it is true of another run than the one that may write here"),
))

OUTSIDE: Final = Table(outside, rows=(
    Row("greet", choose=(p, e, h), when=RUNS, send=[greeting(p, e, h)], fair=True,
        why="a source that runs gives signs of life"),
    Row("restart", choose=(p, e), when=[RUNS, exists(f, e.before(f))], do=[ended(p, e).to(True)],
        why="the process dies, and is started again"),
    Row("grant", choose=(h,), when=[asking(h) == Asking.ASKED, ~given_up(h), ~granted(h)],
        do=[granted(h).to(True)], why="its sources learn the address"),
    Row("write", choose=(p, e, h),
        when=[RUNS, granted(h), feeds(h, p), ~given_up(h), forall(f, ~wrote(p, f, h))],
        do=[wrote(p, e, h).to(True), writing(p, e, h).to(True)],
        why="one run of a source has the request"),
    Row("land", choose=(p, e, h), when=writing(p, e, h), do=[writing(p, e, h).to(False)],
        fair=True, why="also after the run has ended"),
    Row("give_up", choose=(h,), when=[asking(h) != Asking.OPEN, ~given_up(h)],
        do=[given_up(h).to(True)], fair=True,
        why="an abort, or a time-out: no source begins to write after it"),
    Row("answer", choose=(p, e, h),
        when=[RUNS, feeds(h, p), ~writing(p, e, h), any_of(wrote(p, e, h), given_up(h))],
        send=[answer(p, e, h)], why="done, or drained: each run says it for itself"),
    Row("fence", choose=(h, p), when=[given_up(h), feeds(h, p), ~fenced(h, p)],
        do=[fenced(h, p).to(True), writing(p, ANY, h).to(False)], fair=True,
        why="the source counts as gone, or is silent for too long"),
    Row("release", choose=(h,),
        when=[granted(h), ~free(h),
              forall(q, implies(feeds(h, q), any_of(answered(h, q), fenced(h, q))))],
        do=[free(h).to(True)], fair=True, why="no claim on the memory is left"),
))

PROPERTIES: Final = (
    Always("S1_no_write_outlives_its_memory", implies(free(h), ~writing(p, e, h)),
           why="the memory belongs to another hand-over"),
    Always("every_source_is_known_before_memory_is_asked_for",
           implies(all_of(asking(h) == Asking.ASKED, feeds(h, p)), exists(e, incarnation(h, p, e))),
           why="rule 1"),
    Always("one_run_of_a_source_counts",
           implies(all_of(incarnation(h, p, e), incarnation(h, p, f)), e.same(f)), why="rule 3"),
    OnRow("only_the_known_run_answers", "take", incarnation(h, p, e), why="rule 2"),
    LeadsTo("a_request_asks_for_memory", asking(h) != Asking.ASKED, asking(h) == Asking.ASKED,
            why="a source that runs is heard of"),
    LeadsTo("L4_the_memory_comes_back", granted(h), free(h),
            why="a source answers, or is fenced"),
    Sometimes("a_request_waits_for_its_source", asking(h) == Asking.PLACED),
    Sometimes("a_request_that_waited_asks", all_of(asking(h) == Asking.ASKED, incarnation(h, p, e),
                                                   ~granted(h))),
    Sometimes("a_successor_writes", all_of(incarnation(h, p, e), e.before(f), writing(p, f, h))),
    Sometimes("an_answer_frees_the_memory", all_of(free(h), feeds(h, p), ~given_up(h))),
    Sometimes("a_dead_run_writes_after_the_end",
              all_of(given_up(h), ended(p, e), writing(p, e, h), answer(p, f, h), e.before(f))),
    Sometimes("a_silent_run_answers_for_itself", all_of(answered(h, p), fenced(h, p))),
)

SYSTEM: Final = System(
    "incarnations",
    "Which run of a source a hand-over of decode counts on, and when it asks for memory.",
    tables=(REQUEST, OUTSIDE),
    properties=PROPERTIES,
    final=forall(h, any_of(~granted(h), free(h))),
    configurations={
        "default": Configuration({Life: 1, Source: 1, Incarnation: 2}),
        "sources": Configuration({Life: 1, Source: 2, Incarnation: 2}, symmetry=True),
        "runs": Configuration({Life: 1, Source: 1, Incarnation: 3}),
        "lives": Configuration({Life: 2, Source: 1, Incarnation: 2}, symmetry=True),
    },
)
