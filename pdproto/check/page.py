"""The pieces of a page about a system: the text of a sort, a variable, a row, a property.

Whole pages (tables.py) and pages of variants (variant_page.py) consist of them.
"""

import inspect
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, assert_never

from pdproto.check.words import (
    assumption_texts,
    claim_text,
    effect_text,
    formula_text,
    trigger_text,
    update_text,
)
from pdproto.ground.layout import value_name
from pdproto.spec.language.elements import UNSET, ElementFunction
from pdproto.spec.language.formula import TRUE, Formula
from pdproto.spec.language.machine import Instance, Row, Timer
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Property, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Rigid, Variable
from pdproto.spec.language.system import Configuration, System

Cells: TypeAlias = tuple[str, ...]

BY_ITSELF: Final = "by itself"  # instead of the trigger, for rows without one

SORTS: Final = ("sort", "what it is", "elements read")
RELATIONS: Final = ("relation", "read by", "explored")
VARIABLES: Final = ("variable", "values, the initial one first", "moves")
MESSAGES: Final = ("message", "from", "to", "carries", "transport")
CONFIGURATIONS: Final = ("name", "sizes", "faults", "reductions")


def sort_cells(system: System) -> list[Cells]:
    """A line for each sort, as SORTS."""
    return [
        (
            code(sort.__name__) + (", in order" if sort.ordered else ""),
            _description(sort),
            f"{code(sort.element(0))}, {code(sort.element(1))}, ..."
            + ("" if (own := sort.own_size()) is None else f", {code(sort.element(own - 1))}"),
        )
        for sort in system.sorts
    ]


def _description(sort: type[Sort]) -> str:
    """The sort's own docstring on one line, and not that of its base."""
    return " ".join(inspect.cleandoc(vars(sort).get("__doc__") or "").split())


def relation_cells(system: System) -> list[Cells]:
    """A line for each fixed relation, as RELATIONS."""
    return [
        (
            code(rigid.signature),
            ", ".join(machine.name for machine in rigid.visible_to) or "all",
            "as given" if _is_given(system, rigid) else "every interpretation",
        )
        for rigid in system.relations
    ]


def _is_given(system: System, rigid: Rigid[*tuple[Any, ...]]) -> bool:
    return rigid.given is not None or any(
        rigid in configuration.given for configuration in system.configurations.values()
    )


def variable_cells(variable: Variable) -> Cells:
    """The line of a variable, as VARIABLES."""
    values = ", ".join(map(value_name, variable.values))
    if isinstance(variable, ElementFunction):
        values = f"{UNSET}, or an element of {code(variable.sorts[-1].__name__)}"
    values += "; any at the start" if variable.starts_free else ""
    return code(variable.signature), values, _moves(variable)


def _moves(variable: Variable) -> str:
    if variable.edges is None:
        return "any"
    return "; ".join(
        f"{value_name(value)} → {', '.join(map(value_name, targets)) or 'nothing'}"
        for value, targets in variable.edges.items()
    )


def message_cells(system: System) -> list[Cells]:
    """A line for each message, as MESSAGES."""
    return [
        (
            code(f"{message.name}({', '.join(map(repr, message.formals))})"),
            instance_text(message.sender),
            _receiver(message),
            ", ".join(code(relation.name) for relation in message.carries),
            "reliable" if message.reliable else "",
        )
        for message in system.variables
        if isinstance(message, Message)
    ]


def instance_text(instance: Instance) -> str:
    """`participant p`; a machine with a single instance has just its name."""
    return " ".join([instance.machine.name, *(code(repr(v)) for v in instance.variables)])


def _receiver(message: Message[*tuple[Any, ...]]) -> str:
    """The receiving instance; a variable that the message does not name stands for all."""
    unnamed = [v for v in message.receiver.variables if v not in message.formals]
    named = [code(repr(v)) for v in message.receiver.variables if v in message.formals]
    every = "every " if unnamed else ""
    return " ".join([f"{every}{message.receiver.machine}", *named])


def rows_text(rows: Sequence[Row]) -> str:
    """Rows in full, as a block of text."""
    return "\n".join(("```text", "\n\n".join(map(row_text, rows)), "```"))


def row_heading(row: Row) -> str:
    """The first line of a row: its name, its trigger, and the states before and after."""
    heading = [trigger_text(row.on) or BY_ITSELF]
    if isinstance(row.on, Timer) and row.on.detector:
        heading.append("a failure detector")
    places = ", ".join(map(value_name, row.states))
    if row.to is not None:
        heading.append(f"{places or 'any state'} -> {value_name(row.to)}")
    elif places:
        heading.append(f"in {places}")
    if row.fair is not None and row.kind == "row":
        heading.append("strongly fair" if row.is_strong else "fair" if row.fair else "not fair")
    if row.choose:
        heading.append(f"chooses {', '.join(map(repr, row.choose))}")
    name = row.name if row.kind == "row" else row.kind
    return f"{name}: {', '.join(heading)}"


def row_text(row: Row) -> str:
    """A row in full: a heading, and a line for each condition and effect."""
    lines = [row_heading(row)]
    lines += [f"    when  {formula_text(condition)}" for condition in row.conditions]
    lines += [f"    do    {update_text(update)}" for update in row.do]
    lines += [f"    send  {effect_text(effect)}" for effect in row.send]
    if row.why:
        lines.append(f"    why   {row.why}")
    return "\n".join(lines)


def property_text(claim: Property, system: System) -> str:
    """A property of the system as a line of Markdown: its name, its reason, its claim."""
    match claim:
        case Always():
            text = f"always {_formula(claim.claim)}"
        case Sometimes():
            text = f"sometimes {_formula(claim.claim)}"
        case OnRow():
            text = f"whenever {code(claim.row)} can fire, {_formula(claim.claim)}"
        case LeadsTo(premise=premise):
            start = "from everywhere" if premise == TRUE else _formula(premise)
            text = f"{start} leads to {_formula(claim.goal)}, when "
            text += "; when ".join(assumption_texts(system, claim.under))
        case Refines():
            text = f"{claim_text(claim)}, where " + "; ".join(
                code(update_text(one)) for one in claim.mapping)
        case _:
            assert_never(claim)
    reason = f": {cell(claim.why)}" if claim.why else ""
    return f"* **{claim.name}**{reason}<br>{text}"


def _formula(formula: Formula) -> str:
    return code(formula_text(formula))


def init_text(init: Formula) -> str:
    """The initial states, as a line of Markdown."""
    return f"* A state is initial where {_formula(init)}."


def final_text(final: Formula) -> str:
    """The states in which a run may end, as a line of Markdown."""
    return f"* It is right for nothing more to happen where {_formula(final)}."


def configuration(name: str, chosen: Configuration) -> Cells:
    """The line of a configuration, as CONFIGURATIONS."""
    sizes = ", ".join(f"{sort.__name__} {size}" for sort, size in chosen.sizes.items())
    reductions = (("symmetry", chosen.symmetry), ("dead bits", chosen.dead_bits))
    return (
        name,
        sizes,
        ", ".join(chosen.faults) or "none",
        ", ".join(word for word, used in reductions if used) or "none",
    )


def grid(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns that are empty in all lines are left out."""
    kept = [
        column
        for column in range(len(heading))
        if column == 0 or any(line[column] for line in lines)
    ]
    rule = ["---"] * len(heading)
    return "\n".join(
        f"| {' | '.join(cell(line[column]) for column in kept)} |"
        for line in (heading, rule, *lines)
    )


def mermaid(text: str) -> str:
    """A diagram as a block of code."""
    return f"```mermaid\n{text}\n```"


def code(text: str) -> str:
    """Text as code in a line of Markdown."""
    return f"`{text}`"


def cell(text: str) -> str:
    """Text for a cell of a Markdown table, with its bars escaped."""
    return text.replace("|", "\\|")
