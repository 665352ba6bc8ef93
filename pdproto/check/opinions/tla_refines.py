"""A refinement in TLA+: the abstract system's variables as operators, and its rows as actions."""

from collections.abc import Iterable, Iterator

from pdproto.check.opinions.tla_context import Context
from pdproto.check.opinions.tla_text import OPEN, SOME, comment, literal
from pdproto.spec.language.formula import TRUE
from pdproto.spec.language.refines import Mapped, Refines
from pdproto.spec.language.terms import NumberFunction


def refinement(
    of: Context, abstract: Context, claim: Refines, actions: Iterable[str], start: Iterable[str]
) -> Iterator[str]:
    """The lines of the claim. abstract: the abstract system, in the module of the other one.

    actions, start: the lines of its rows, and of its initial state.
    """
    names = abstract.names
    yield from comment(f"{claim.abstract.name}: {claim.abstract.about}")
    for mapped in claim.mapped:
        scope = of.names.bind({}, mapped.arguments)
        bounds = of.writer.quantified("", mapped.arguments, scope).removesuffix(" : ").strip()
        text = _value(of, mapped)
        yield f"{names[mapped.symbol]} == {f'[{bounds} |-> {text}]' if bounds else text}"
    yield f"{abstract.tuple_name} == <<{', '.join(names[one] for one in abstract.plain)}>>"
    yield ""
    yield from actions
    taken = abstract.next_name
    yield f"{taken} =="
    yield from abstract.each_row(SOME, [(table, row) for table, row, _ in abstract.rows], "{}")
    yield ""
    yield f"{of.property_name(claim.name)} =="
    yield from start
    yield f"  /\\ [][{taken}]_{abstract.tuple_name}"
    yield ""


def _value(of: Context, mapped: Mapped) -> str:
    """The value of a cell, computed from the variables of the refining system."""
    scope = of.names.bind({}, mapped.arguments)
    symbol = mapped.symbol
    if symbol.is_boolean:
        ((value, formula),) = mapped.values
        text = of.writer.formula(formula, scope, OPEN)
        return text if value is True else f"~({text})"
    text = literal(symbol.values[0])
    for value, formula in mapped.values:
        text = f"IF {of.writer.formula(formula, scope, OPEN)} THEN {literal(value)} ELSE {text}"
    if mapped.fits != TRUE and isinstance(symbol, NumberFunction):
        fits = of.writer.formula(mapped.fits, scope, OPEN)
        text = f"IF {fits} THEN {text} ELSE ({symbol.range.low - 1})"
    return text
