"""The properties of a system in TLA+, the derived ones among them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdproto.check.opinions.tla_context import PARAMETERS, Context
from pdproto.check.opinions.tla_text import (
    ALL,
    AND,
    COMPARED,
    OPEN,
    OR,
    PRIME,
    SOME,
    applied,
    comment,
    literal,
    string,
)
from pdproto.check.questions import BUSY, DEADLOCK, PEERS, sends_unasked
from pdproto.spec.language.formula import FALSE, Formula, Or, atoms, free_variables
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Each, Message, Rigid, Variable


def properties(of: Context) -> Iterator[str]:
    """The lines of all properties, under their own names."""
    told = []
    for claim in of.system.properties:
        match claim:
            case Always() | Sometimes() | OnRow():
                body = _safety(of, claim)
            case LeadsTo():
                body = _leads_to(of, claim)
            case Refines():
                continue  # tla_refines.py
        if isinstance(claim, Sometimes):
            told.append(claim.name)
        yield from comment(claim.why)
        yield f"{of.property_name(claim.name)} == {body}"
        yield ""
    for variable in of.system.bounded_variables():
        yield f"{of.property_name(f'{variable.name}_edges')} =="
        yield f"  [][{_edges(of, variable)}]_vars"
        yield ""
    for message in of.carriers():
        yield f"{of.property_name(f'{message.name}_carries')} =="
        yield f"  [][{_carried(of, message)}]_vars"
        yield ""
    yield from _derived(of)
    yield from _reached(of, told)


def _safety(of: Context, claim: Always | Sometimes | OnRow) -> str:
    match claim:
        case Always():
            return _of_states(claim.claim, of.closed(claim.claim))
        case Sometimes():
            return of.closed(claim.claim, SOME)
        case OnRow():
            found = [(t, r) for t, r, _ in of.rows if r.name == claim.row]
            if not found:  # a row of a fault layer that is off
                return "TRUE"
            (table, row) = found[0]
            free = (*table.parameters(row), *free_variables(claim.claim))
            variables = tuple(dict.fromkeys(free))
            scope = of.names.bind({}, variables)
            return (f"{of.writer.quantified(ALL, variables, scope)}"
                    f"ENABLED {of.call(table, row)} => "
                    f"{of.writer.formula(claim.claim, scope, COMPARED)}")


def _leads_to(of: Context, claim: LeadsTo) -> str:
    variables = free_variables(Or((claim.premise, claim.goal)))
    scope = of.names.bind({}, variables)
    return (f"{of.writer.quantified(ALL, variables, scope)}"
            f"{_of_states(claim.premise, of.writer.formula(claim.premise, scope, COMPARED))} ~> "
            f"{_of_states(claim.goal, of.writer.formula(claim.goal, scope, COMPARED))}")


def _of_states(formula: Formula, text: str) -> str:
    """The text of the formula as one about a state, also if it is the same in all of them.

    TLC ends with an error at an invariant that is FALSE without a state, and calls a `leads_to`
    violated whose goal is TRUE without one.
    """
    is_constant = all(isinstance(atom.symbol, Rigid) for atom, _ in atoms(formula))
    return f"({text} /\\ vars = vars)" if is_constant else text


def _edges(of: Context, variable: Variable) -> str:
    name = of.names[variable]
    places = [f"x{i}" for i in range(1, len(variable.sorts) + 1)]
    bounds = of.sort_of_each(places, variable.sorts)
    before, after = applied(name, places), applied(f"{name}'", places)
    moves = ", ".join(f"<<{literal(value)}, {literal(target)}>>"
                      for value, targets in (variable.edges or {}).items()
                      for target in targets)
    claim = f"{after} = {before} \\/ <<{before}, {after}>> \\in {{{moves}}}"
    return f"\\A {bounds} : {claim}" if bounds else claim


def _carried(of: Context, message: Message[*tuple[Any, ...]]) -> str:
    scope = of.names.bind({}, message.formals)
    sender = [scope[v] for v in message.sender.variables]
    parts = []
    for relation in message.carries:
        rest = relation.sorts[len(sender):]
        places = [f"x{i}" for i in range(1, len(rest) + 1)]
        bounds = of.sort_of_each(places, rest)
        name, at = of.names[relation], [*sender, *places]
        claim = f"{applied(name + PRIME, at)} = {applied(name, at)}"
        parts.append(f"(\\A {bounds} : {claim})" if bounds else f"({claim})")
    sent = applied(of.names[message], [scope[v] for v in message.formals])
    heading = of.writer.quantified(ALL, message.formals, scope)
    return f"{heading}{sent} => {AND.join(parts)}"


def _derived(of: Context) -> Iterator[str]:
    """Deadlocks, rows that reject, and rows that a process would fire without end."""
    final = FALSE if of.system.final is None else of.system.final
    yield f"Final == {of.closed(final)}"
    yield ""
    yield f"{of.property_name(DEADLOCK)} == Final \\/ ENABLED <<Progress>>_vars"
    yield ""
    if PEERS in of.asked:
        rejects = [(t, r) for t, r, _ in of.rows if r.kind == "reject"]
        yield f"{of.property_name(PEERS)} =="
        yield from of.each_row(ALL, rejects, "~ENABLED {}")
        yield ""
    if BUSY in of.asked:
        yield f"{of.property_name(BUSY)} =="
        for table, row, _ in of.rows:
            if sends_unasked(table, row):
                yield f"  /\\ {_not_busy(of, table, row)}"
        yield ""


def _not_busy(of: Context, table: Table, row: Row) -> str:
    parameters = table.parameters(row)
    scope = of.names.bind({}, parameters)
    heading = of.writer.quantified(ALL, parameters, scope)
    sends = ["TRUE" if not isinstance(effect, Each) else _some(of, effect, scope)
             for effect in row.send]
    sent = "" if "TRUE" in sends else f"({OR.join(sends)}) => "
    return f"{heading}{sent}~ENABLED ({of.call(table, row)} /\\ vars' = vars)"


def _some(of: Context, effect: Each, scope: Mapping[Sort, str]) -> str:
    """Whether the effect sends to anyone."""
    inner = of.names.bind(scope, [effect.variable])
    return (f"({of.writer.quantified(SOME, [effect.variable], inner)}"
            f"{of.writer.formula(effect.where, inner, OPEN)})")


def _reached(of: Context, told: Sequence[str]) -> Iterator[str]:
    if not told:
        return
    yield from comment("always true; tells the first time that one of these states is found")
    i, name = (of.names["parameter", each] for each in PARAMETERS)
    yield (f"Tell({i}, {name}) == "
           f"TLCGet({i}) \\/ (TLCSet({i}, TRUE) /\\ PrintT(<<\"reached\", {name}>>))")
    yield f"ASSUME \\A {i} \\in 1..{len(told)} : TLCSet({i}, FALSE)"
    yield "Reached =="
    for number, claim in enumerate(told, 1):
        yield f"  /\\ {of.property_name(claim)} => Tell({number}, {string(claim)})"
    yield ""
