"""A refinement in TLA+: the abstract system's variables as operators, and its rows as actions."""

from collections.abc import Iterable, Iterator

from pdproto.check.opinions.tla_context import Context
from pdproto.check.opinions.tla_names import Scope
from pdproto.check.opinions.tla_text import OPEN, SOME, literal
from pdproto.spec.language.formula import TRUE
from pdproto.spec.language.refines import Mapped, Refines
from pdproto.spec.language.terms import NumberFunction


def refinement(
    of: Context, abstract: Context, claim: Refines, over: Scope, actions: Iterable[str]
) -> Iterator[str]:
    """The operators of the claim. abstract: the abstract system, in the module of the other one.

    over: the elements for which the claim is made. actions: the lines of the abstract rows.
    """
    names = abstract.names
    for mapped in claim.mapped:
        scope = of.names.bind(over, mapped.arguments)
        bounds = of.writer.quantified("", mapped.arguments, scope).removesuffix(" : ").strip()
        text = _value(of, mapped, scope)
        yield f"{names[mapped.symbol]} == {f'[{bounds} |-> {text}]' if bounds else text}"
    yield f"{abstract.tuple_name} == <<{', '.join(names[one] for one in abstract.plain)}>>"
    yield ""
    yield from actions
    taken = abstract.next_name
    yield f"{taken} =="
    yield from abstract.each_row(SOME, [(table, row) for table, row, _ in abstract.rows], "{}")
    yield ""


def _value(of: Context, mapped: Mapped, scope: Scope) -> str:
    """The value of a cell, computed from the variables of the refining system."""
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
