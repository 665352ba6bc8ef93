"""Random systems above a random system, some of which it refines."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pdproto.spec.language import (
    ANY,
    Machine,
    Refines,
    Row,
    Sort,
    System,
    Table,
    each,
    if_then_else,
)
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.symbols import Function, Relation
from pdproto.spec.language.terms import NumberFunction

if TYPE_CHECKING:
    from tests.oracle.systems import Draw


def with_refinement(draw: "Draw", system: System) -> System:
    """The system with a claim that it refines another one, of one or two of its variables."""
    rng, parts = draw.rng, draw.parts
    above = Machine("above", host=True)
    below = rng.sample(parts.variables, min(len(parts.variables), rng.choice((1, 1, 2))))
    plain = [m for m in parts.messages if m.fifo is None]
    over = parts.alpha("over") if rng.random() < 0.3 else None
    rows: list[Row] = []
    mapping: list[Any] = []
    shown: list[Any] = []
    for symbol in below:
        copy = declared(above, symbol)
        shown.append(copy)
        mapping.append(mapped(draw, copy, symbol, over))
        rows += steps(draw, copy, shown)
    if plain and rng.random() < 0.3:
        message = plain[0]
        told = above.relation("told", *map(type, message.formals))
        mapping.append(told(*message.formals).to(message(*message.formals)))
        rows.append(Row("tell", choose=message.formals, do=told(*message.formals).to(True)))
    layer = {"above": (Table(above, rows=tuple(rows[-1:])),)} if rng.random() < 0.3 else {}
    abstract = System(rng.choice(("above", "beyond")), "A random system.", (
        Table(above, rows=tuple(rows[:-1] if layer else rows)),), faults=layer)
    if over is None:
        claim = Refines("refines", abstract, tuple(mapping))
    else:
        claim = Refines("refines", abstract, tuple(mapping), over=over)
    return replace(system, properties=(*system.properties, claim))


def declared(above: Any, symbol: Any) -> Any:
    """A variable of the machine that is like the symbol."""
    name = f"{symbol.name}_above"
    if isinstance(symbol, ElementFunction):
        return above.function(name, symbol.sorts[-1], *symbol.domain, init=started(symbol, None))
    if isinstance(symbol, NumberFunction):
        first = symbol.values[0].value  # type: ignore[union-attr]  # a number
        return above.function(name, symbol.range, *symbol.domain, init=started(symbol, first))
    first = started(symbol, symbol.values[0])
    if isinstance(symbol, Relation):
        return above.relation(name, *symbol.domain, init=first)
    assert isinstance(symbol, Function)
    return above.function(name, type(symbol.values[0]), *symbol.domain, init=first)


def started(symbol: Any, first: object) -> object:
    """The init= of a variable that starts as the symbol does."""
    return ANY if symbol.starts_free else first


def cell_of(draw: "Draw", symbol: Any) -> tuple[Sort, ...]:
    """A new variable for each argument of the symbol."""
    found: list[Sort] = []
    for sort in symbol.domain:
        found.append(draw.parts.fresh(sort, found))
    return tuple(found)


def mapped(draw: "Draw", copy: Any, symbol: Any, over: Sort | None) -> Any:
    """The value of the copy: that of the symbol, or one that a formula decides."""
    rng, parts = draw.rng, draw.parts
    at = cell_of(draw, symbol)
    if isinstance(symbol, ElementFunction):
        value = parts.fresh(symbol.sorts[-1], at)
        where = symbol(*at) == value
        if rng.random() < 0.2:
            where = parts.formula((*at, value), parts.variables, (), 1)
        return each(value, copy(*at).to(value), where=where)
    formula = parts.formula(at if over is None else (*at, over), parts.variables, (), 1)
    if isinstance(symbol, Relation):
        plain = rng.random() < (0.7 if over is None else 0.3)
        return copy(*at).to(symbol(*at) if plain else formula)
    if isinstance(symbol, NumberFunction):
        return copy(*at).to(symbol(*at) + rng.choice((0, 0, 0, 1)))
    other = symbol(*at) if rng.random() < 0.7 else if_then_else(
        formula, symbol(*at), rng.choice(symbol.values))
    return copy(*at).to(other)


def steps(draw: "Draw", copy: Any, shown: list[Any]) -> list[Row]:
    """Rows that move the copy: to anything, mostly."""
    rng, parts = draw.rng, draw.parts
    at = cell_of(draw, copy)
    found = []
    values: list[Any] = [None] if isinstance(copy, ElementFunction) else list(copy.values)
    for number, value in enumerate(values):
        if rng.random() < 0.3:
            continue
        when = parts.formula(at, shown, (), 1) if rng.random() < 0.5 else ()
        name = f"{copy.name}_to{number}"
        if value is None:
            other = parts.fresh(copy.sorts[-1], at)
            found.append(Row(name, choose=(*at, other), when=when, do=copy(*at).to(other)))
            found.append(Row(f"{copy.name}_cleared", choose=at, when=when, do=copy(*at).clear()))
        else:
            found.append(Row(name, choose=at, when=when, do=copy(*at).to(value)))
    return found
