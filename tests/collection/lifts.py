"""Lifts that are called, and carry who waits for them."""

from typing import Final

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    Machine,
    Numbers,
    Row,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    if_then_else,
    implies,
)
from pdproto.spec.language.terms import Term
from tests.collection.model import Model

TOP: Final = 2  # the highest floor


class Person(Sort):
    """Who goes from floor to floor."""


class Lift(Sort, ordered=True):
    """A lift; of two that are equally near the first one comes."""


class Floor(Numbers, values=Int(1, TOP)):
    """A floor."""


class Way(State):
    STOPS = auto()
    UP = auto()
    DOWN = auto()


p, e, o, f, g = Person("p"), Lift("e"), Lift("o"), Floor("f"), Floor("g")
house = Machine("house", host=True)
on = house.function("on", Int(0, TOP), Person, init=ANY)  # 0 in a lift
inside = house.function("inside", Lift, Person)
wants = house.function("wants", Int(1, TOP), Person, init=ANY)
waits = house.relation("waits", Person)
level = house.function("level", Int(1, TOP), Lift, init=ANY)
way = house.function("way", Way, Lift)
is_open, pressed = house.relation("is_open", Lift), house.relation("pressed", Lift, Floor)
calls = {one: house.relation(f"calls_{one.value}", Floor) for one in (Way.UP, Way.DOWN)}

ready = exists(f, all_of(level(e) == f, any_of(pressed(e, f), *(
    calls[one](f) & (way(e) == one) for one in calls))))
gets_off = (inside(p) == e) & (wants(p) == level(e))


def goes(one: Way, start: Term | Floor, end: Term | Floor) -> Formula:
    """From the first floor to the second one a lift goes this way."""
    return end > start if one is Way.UP else end <= start


def gets_on(one: Way) -> Formula:
    return all_of(way(e) == one, on(p) == level(e), waits(p), goes(one, level(e), wants(p)))


def far(lift: Lift) -> Term:
    """How many floors the lift is away from `f`."""
    return if_then_else(f > level(lift), f - level(lift), level(lift) - f)


def may_come(lift: Lift, one: Way) -> Formula:
    return any_of(way(lift) == Way.STOPS, (way(lift) == one) & any_of(
        level(lift) == f, goes(one, level(lift), f)))


def _by_way(one: Way) -> tuple[Row, ...]:
    name, step = one.value, 1 if one is Way.UP else -1
    last = TOP if one is Way.UP else 1
    served = exists(o, all_of(o.differs(e), level(o) == level(e), way(o) == one))
    return (
        Row(f"call_{name}", choose=(p, f), do=[waits(p).to(True), calls[one](f).to(
            calls[one](f) | ~exists(e, all_of(level(e) == f, way(e) == one, is_open(e))))],
            when=all_of(~waits(p), on(p) == f, wants(p) != on(p), goes(one, on(p), wants(p)))),
        Row(f"open_{name}", choose=(e, f), when=all_of(
            ~is_open(e), way(e) == one, level(e) == f, calls[one](f) | pressed(e, f)),
            do=[is_open(e).to(True), pressed(e, f).to(False), calls[one](f).to(False)]),
        Row(f"get_on_{name}", choose=e, when=is_open(e) & exists(p, gets_on(one)), do=[
            each(p, on(p).to(0), where=gets_on(one)),
            each(p, inside(p).to(e), where=gets_on(one)),
            each(g, pressed(e, g).to(pressed(e, g) | exists(p, gets_on(one) & (g == wants(p)))))]),
        Row(f"move_{name}", choose=(e, f), do=level(e).to(level(e) + step), when=all_of(
            way(e) == one, ~is_open(e), level(e) == f, ~pressed(e, f), level(e) != last,
            implies(calls[one](f), served))),
        Row(f"stop_{name}", choose=e, do=way(e).to(Way.STOPS), when=all_of(
            way(e) == one, ~is_open(e), ~ready, level(e) == last)),
        Row(f"send_{name}", choose=(e, f), do=[level(e).to(f), way(e).to(one)], when=all_of(
            calls[one](f), way(e) == Way.STOPS, forall(o, implies(
                o.differs(e) & may_come(o, one),
                any_of(far(e) < far(o), (far(e) == far(o)) & e.before(o)))))),
    )


LIFTS = System("lifts", "Lifts carry people.", (Table(house, rows=(
    Row("want", choose=(p, f), when=all_of(~waits(p), on(p) >= 1, on(p) != f),
        do=wants(p).to(f)),
    *_by_way(Way.UP), *_by_way(Way.DOWN),
    Row("open_for_a_button", choose=(e, f), when=all_of(
        ~is_open(e), way(e) == Way.STOPS, level(e) == f, pressed(e, f)),
        do=[is_open(e).to(True), pressed(e, f).to(False)]),
    Row("get_off", choose=(e, f), when=all_of(is_open(e), level(e) == f, exists(p, gets_off)), do=[
        each(p, on(p).to(f), where=gets_off), each(p, waits(p).to(False), where=gets_off),
        each(p, inside(p).clear(), where=gets_off)]),
    Row("close", choose=e, do=is_open(e).to(False), when=all_of(
        is_open(e), forall(p, ~any_of(gets_off, gets_on(Way.UP), gets_on(Way.DOWN))))),
)),), (Always("a_button_is_pressed_for_somebody", implies(
    pressed(e, f), exists(p, (inside(p) == e) & (wants(p) == f)))),
       Always("a_call_is_of_somebody", implies(
           calls[Way.UP](f), exists(p, all_of(on(p) == f, waits(p), wants(p) > f))))),
    init=on(p) >= 1, final=TRUE, configurations={"default": Configuration({Person: 2, Lift: 2})})

MODELS = (Model("Elevator, safety", LIFTS, 4_122, "published"),)
