"""Small systems, one that keeps its claim and one that breaks it for each word of the language."""

from typing import Any, Final

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Call,
    Configuration,
    Fairness,
    Int,
    LeadsTo,
    Machine,
    Message,
    Refines,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
    count,
    exists,
    forall,
    if_then_else,
    implies,
    max_of,
    min_of,
    sum_of,
)


class Node(Sort):
    """One of two that are alike."""


class Turn(Sort, ordered=True):
    """One of two in an order."""


class Mood(State):
    CALM = auto()
    BUSY = auto()
    TIRED = auto()


n, m, t = Node("n"), Node("m"), Turn("t")


def system(machine: Machine[*tuple[Any, ...]], rows: tuple[Row, ...], claim: Any,
           **given: Any) -> System:
    """A system of one table with one claim."""
    used = {Node: 2, Turn: 2}
    made = System("word", "A word.", (Table(machine, rows=rows),), (claim,), final=TRUE, **given)
    return System("word", "A word.", (Table(machine, rows=rows),), (claim,), final=TRUE, **given,
                  configurations={"default": Configuration(
                      {sort: used[sort] for sort in made.sorts})})


def any_relation(kept: bool) -> System:
    hall = Machine("hall")
    lit, dimmed = hall.relation("lit", Node, init=ANY), hall.relation("dimmed", Node)
    return system(hall, (Row("dim", choose=n, when=lit(n), do=[
        lit(n).to(False), dimmed(n).to(True)]),),
        Always("claim", implies(dimmed(n), ~lit(n)) if kept else implies(~lit(n), dimmed(n))))


def any_number(kept: bool) -> System:
    hall = Machine("hall")
    tries = hall.function("tries", Int(0, 3), init=ANY)
    last = hall.function("last", Turn, init=ANY)
    return system(hall, (
        Row("less", when=tries() > 1, do=tries().to(tries() - 1)),
        Row("forget", when=last().is_set, do=last().clear())),
        Always("claim", TRUE & (tries() >= (0 if kept else 1))))


def any_element(kept: bool) -> System:
    hall = Machine("hall")
    last = hall.function("last", Turn, init=ANY)
    gone = hall.relation("gone")
    return system(hall, (Row("forget", on=Call("forget", t), when=last() == t,
                             do=[last().clear(), gone().to(True)]),),
                  Always("claim", implies(gone(), last().unset) if kept
                         else implies(last().unset, gone())))


def any_mood(kept: bool) -> System:
    hall = Machine("hall")
    mood = hall.function("mood", Mood, init=ANY)
    rested = hall.relation("rested")
    return system(hall, (
        Row("rest", when=mood() != Mood.CALM, do=[mood().to(Mood.CALM), rested().to(True)]),),
        LeadsTo("claim", TRUE, mood() == Mood.CALM) if kept
        else LeadsTo("claim", TRUE, rested()))


def init_formula(kept: bool) -> System:
    hall = Machine("hall")
    lit = hall.relation("lit", Node, init=ANY)
    return system(hall, (Row("dim", choose=(n, m), when=[
        lit(n), lit(m), n.differs(m)] if kept else lit(n) & TRUE, do=lit(n).to(False)),),
        Always("claim", exists(n, lit(n))), init=exists(n, lit(n)))


def strong(kept: bool) -> System:
    clock = Machine("clock")
    turn = clock.function("turn", Int(0, 2))
    seen = clock.relation("seen")
    return system(clock, (
        Row("go_on", do=turn().to((turn() + 1) % 3)),
        Row("look", when=turn() == 1, do=seen().to(True), fair="strong" if kept else "weak")),
        LeadsTo("claim", TRUE, seen(), under=Fairness.TIMERS))


def number(kept: bool) -> System:
    hall = Machine("hall")
    tries = hall.function("tries", Int(0, 4))
    step = 2 if kept else 1
    return system(hall, (Row("more", on=Call("more"), when=tries() <= 4 - step,
                             do=tries().to(tries() + step)),),
                  Always("claim", tries() % 2 == 0))


def saturating(kept: bool) -> System:
    hall = Machine("hall")
    tries = hall.function("tries", Int(0, 2, saturates=kept))
    return system(hall, (Row("more", on=Call("more"), when=tries() >= 0,
                             do=tries().to(tries() + 1)),),
                  Always("claim", tries() <= (2 if kept else 1)))


def counting(kept: bool) -> System:
    hall = Machine("hall", host=True)
    busy = hall.relation("busy", Node)
    return system(hall, (
        Row("enter", on=Call("enter", n), when=count(m, busy(m)) < (1 if kept else 2),
            do=busy(n).to(True)),
        Row("leave", on=Call("leave", n), when=busy(n), do=busy(n).to(False))),
        Always("claim", count(n, busy(n)) <= 1))


def summing(kept: bool) -> System:
    hall = Machine("hall", host=True)
    tries = hall.function("tries", Int(0, 1), Node)
    return system(hall, (
        Row("more", on=Call("more", n), when=[sum_of(m, tries(m)) < (1 if kept else 2),
                                              tries(n) < 1], do=tries(n).to(tries(n) + 1)),),
        Always("claim", sum_of(n, tries(n)) <= 1))


def least(kept: bool) -> System:
    hall = Machine("hall", host=True)
    tries = hall.function("tries", Int(0, 2), Node)
    when = [tries(n) < 2, *([tries(n) == min_of(m, tries(m))] if kept else [])]
    return system(hall, (
        Row("more", on=Call("more", n), when=when, do=tries(n).to(tries(n) + 1)),),
        Always("claim", max_of(n, tries(n)) - min_of(n, tries(n)) <= 1))


def chosen(kept: bool) -> System:
    hall = Machine("hall", host=True)
    busy, late = hall.relation("busy", Node), hall.relation("late", Node)
    tries = hall.function("tries", Int(0, 2), Node)
    return system(hall, (
        Row("enter", on=Call("enter", n), do=[busy(n).to(True), tries(n).to(
            if_then_else(busy(n), 1 if kept else 2, tries(n)))]),
        Row("note", on=Call("note", n), do=late(n).to(busy(n) & (tries(n) == 2)))),
        Always("claim", ~late(n)))


ABSTRACT: Final = Machine("abstract")
ON: Final = ABSTRACT.relation("on")
SWITCH: Final = System("switch", "It goes on, and stays so.", (Table(ABSTRACT, rows=(
    Row("switch_on", when=~ON(), do=ON().to(True)),)),), final=TRUE)


def refining(kept: bool) -> System:
    hall = Machine("hall", host=True)
    lit = hall.relation("lit", Node)
    return system(hall, (
        Row("light", on=Call("light", n), do=lit(n).to(True)),
        Row("dim", on=Call("dim", n), when=[lit(n), exists(m, lit(m) & m.differs(n))] if kept
            else lit(n) & TRUE, do=lit(n).to(False))),
        Refines("claim", SWITCH, ON().to(exists(n, lit(n)))))


def refining_each(kept: bool) -> System:
    hall = Machine("hall", host=True)
    lit = hall.relation("lit", Node)
    return system(hall, (
        Row("light", on=Call("light", n), do=lit(n).to(True)),
        *(() if kept else (Row("dim", on=Call("dim", n), do=lit(n).to(False)),))),
        Refines("claim", SWITCH, ON().to(lit(n)), over=n))


def refining_from_any(kept: bool) -> System:
    """At the start the mapped state must be an initial one of the abstract system."""
    hall = Machine("hall", host=True)
    lit = hall.relation("lit", Node, init=ANY)
    return system(hall, (Row("light", on=Call("light", n), do=lit(n).to(True)),),
                  Refines("claim", SWITCH, ON().to(exists(n, lit(n)))),
                  **({"init": forall(n, ~lit(n))} if kept else {}))


def told(kept: bool) -> System:
    """A message whose receiver counts; with a strongly fair row in between."""
    node, desk = Machine("node", n), Machine("desk")
    asks = Message("asks", n, sender=node, receiver=desk)
    heard = desk.function("heard", Int(0, 2))
    asked = node.relation("asked")
    tables = (
        Table(node, rows=(Row("ask", on=Call("ask"), when=~asked(n), do=asked(n).to(True),
                              send=asks(n)),)),
        Table(desk, rows=(Row("hear", on=asks(n), when=heard() < 2,
                              do=heard().to(heard() + 1), fair="strong"),)))
    return System("word", "A word.", tables, (
        LeadsTo("claim", asked(n), heard() > 0) if kept
        else Always("claim", heard() <= count(n, asked(n))),),
        final=TRUE, configurations={"default": Configuration({Node: 2})})


WORDS: Final = {make.__name__: make for make in (
    any_relation, any_number, any_element, any_mood, init_formula, strong, number, saturating,
    counting, summing, least, chosen, refining, refining_each, refining_from_any, told)}
for _name, _make in WORDS.items():
    globals()[f"{_name}_kept"] = _make(True)
    globals()[f"{_name}_broken"] = _make(False)
