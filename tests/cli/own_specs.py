"""Specs as a new user writes them: small protocols of other kinds than ours, some with mistakes."""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
    Machine,
    Message,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Tuples,
    auto,
    implies,
)

PAGE: Final = '''"""A worker writes a page and nobody gives it back."""
from pdproto.spec.language import (
    Always, Call, LeadsTo, Machine, Row, Sort, State, System, Table, auto, exists, lose, Message,
)
class Worker(Sort):
    """Somebody who writes."""
class Phase(State):
    IDLE = auto()
    WRITING = auto()
w, v = Worker("w"), Worker("v")
worker = Machine("worker", w)
phase = worker.function("phase", Phase)
SYSTEM = System("page", "One page.", tables=(
    Table(worker, state=phase, rows=(
        Row("write", on=Call("write"), at=Phase.IDLE, to=Phase.WRITING),
    )),
), properties=(Always("at_most_one", ~((phase(w) == Phase.WRITING) & (phase(v) == Phase.WRITING)
                                       & ~w.same(v))),),
   final=exists(w, phase(w) == Phase.WRITING))
'''


class Process(Sort):
    """One that takes part."""


class Number(Sort):
    """A snapshot has one."""


class Turn(State):
    IDLE = auto()
    ASKED = auto()


p, q, n = Process("p"), Process("q"), Number("n")

KNOWN_SIZES: Final = {3: {(0, 1), (1, 2), (2, 0)}, 4: {(0, 1), (1, 2), (2, 3), (3, 0)}}


def ring(sizes: Sizes) -> Tuples:
    """A ring of three or of four: the sizes that its author thought of."""
    return KNOWN_SIZES[sizes[Process]]


def ring_system() -> System:
    """Each process tells the next one along a ring; `given=` raises KeyError for two of them."""
    process = Machine("process", p)
    told = process.relation("told")
    following = Rigid("following", p, q, given=ring)
    word = Message("word", p, q, sender=process, receiver=process.at(q))
    return System("ring", "A word goes round.", tables=(
        Table(process, rows=(
            Row("speak", on=Call("speak", q), when=following(p, q), do=[told(p).to(True)],
                send=[word(p, q)]),
            Row("hear", on=word(q, p), do=[told(p).to(True)]),
        )),
    ), properties=(
        Always("whoever_hears_is_told", implies(~told(p), ~told(p))),
        Sometimes("told", told(p)),
    ), configurations={"default": Configuration({Process: 3})})


def marker_system() -> System:
    """A marker is answered only where a channel leads: the hole is where none does."""
    process = Machine("process", p)
    seen = process.relation("seen", Number)
    channel = Rigid("channel", p, q)
    marker = Message("marker", p, q, n, sender=process, receiver=process.at(q))
    return System("markers", "A snapshot.", tables=(
        Table(process, rows=(
            Row("begin", on=Call("begin", q, n), when=channel(p, q), do=[seen(p, n).to(True)],
                send=[marker(p, q, n)]),
            Row("record", on=marker(q, p, n), when=channel(q, p), do=[seen(p, n).to(True)]),
        )),
    ), properties=(Sometimes("seen", seen(p, n)),),
       configurations={"default": Configuration({Process: 2, Number: 1})})


def one_answer_system() -> tuple[System, tuple[Always, ...]]:
    """Two rows answer one message, and never both: only a lemma says why."""
    asker, clerk = Machine("asker", p), Machine("clerk")
    turn = asker.function("turn", Turn)
    asked = asker.relation("asked")
    answer = Message("answer", p, sender=clerk, receiver=asker)
    question = Message("question", p, sender=asker, receiver=clerk)
    system = System("one-answer", "A question is answered once.", tables=(
        Table(asker, state=turn, rows=(
            Row("ask", on=Call("ask"), at=Turn.IDLE, to=Turn.ASKED, do=[asked(p).to(True)],
                send=[question(p)]),
            Row("learn", on=answer(p), at=Turn.ASKED, to=Turn.IDLE, do=[asked(p).to(False)]),
            Ignore(answer(p), when=~asked(p), why="nothing is asked"),
        )),
        Table(clerk, rows=(
            Row("tell", on=question(p), send=[answer(p)]),
        )),
    ), properties=(Sometimes("asks", asked(p)),),
       configurations={"default": Configuration({Process: 2})})
    lemmas = (
        Always("asked_is_asked", implies(asked(p), turn(p) == Turn.ASKED)
               & implies(turn(p) == Turn.ASKED, asked(p))),
    )
    return system, lemmas


RING: Final = ring_system()
MARKERS: Final = marker_system()
ONE_ANSWER, LEMMAS = one_answer_system()
NOTHING: Final = (Always("says_nothing", implies(p.same(q), q.same(p))),)
