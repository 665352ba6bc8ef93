"""The states on the way of the search for an order (merge.py), and its result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pdproto.check.trace.events import Event
from pdproto.check.trace.whole import Images, WorldRow
from pdproto.ground.grounding import Environment


@dataclass(slots=True, eq=False)
class Member:
    """An endpoint in the search. images: see whole.py. key: of these images. mask: its variables.

    whole: its trace has all its lines.
    """

    events: Sequence[Event]
    images: Images
    key: object
    mask: int
    whole: bool


class Fired(NamedTuple):
    """A row without a trace that has fired. untold: the bits that their endpoint has yet to tell.
    """

    row: WorldRow
    untold: int


Rows: TypeAlias = tuple[Fired, ...]


@dataclass(slots=True, eq=False)
class Cut:
    """A state on the way. places: the number of lines that are placed, by member.

    told: as the endpoints tell it. true: with what devices have done. possible: the rows without a
    trace that can have fired by now, untold, as bits. faults, mistaken: the depths of lines that
    hear of a fault, or of one that has not happened. moved: the member whose line led here.
    """

    before: "Cut | None"
    places: tuple[int, ...]
    told: int
    true: int
    unknown: int
    depth: int = 0
    moved: int = -1
    fired: Rows = ()
    possible: int = 0
    faults: tuple[int, ...] = ()
    mistaken: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why no order has this line next. claim: the property that is violated; empty if none is."""

    member: int
    place: int
    why: str
    claim: str = ""


@dataclass(slots=True)
class Placement:
    """The result. order: the members, as their lines are placed. problem: if there is no order;
    then `order` is the longest. undecided: too many orders were tried. faults: the places in
    `order` at which a fault is heard. mistaken: those at which one is heard that has not happened.
    """

    order: list[int]
    problem: Problem | None = None
    undecided: bool = False
    faults: tuple[int, ...] = ()
    mistaken: tuple[int, ...] = ()


def kept(one: Fired, changed: int, event: Event) -> Fired | None:
    """The row, after its endpoint has changed these bits. None if it may fire again."""
    if event.ground is None or not one.row.variables & changed:
        return one
    rows = 0
    for place in one.row.fields:
        if place & changed:
            rows |= place
    return one._replace(untold=one.untold & ~rows) if one.untold & ~rows else None


def imaged(environment: Environment, images: Images) -> Iterator[Environment]:
    """An endpoint's environment in the elements of the whole: each for which one of it stands."""
    chosen: list[Environment] = [{}]
    for variable, index in environment.items():
        chosen = [{**one, variable: element} for one in chosen
                  for element in images[type(variable)][index]]
    return iter(chosen)


def order_of(cut: Cut) -> list[int]:
    """The members, as their lines lead to this state."""
    order, at = [], cut
    while at.before is not None:
        order.append(at.moved)
        at = at.before
    return order[::-1]
