"""The documentation of a variant: its differences from the system of which it is an edit.

A page of the whole variant would repeat nearly all of its base, and hide the few rows that differ.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from pdproto.check.difference import Difference, Key, Part, difference
from pdproto.check.page import (
    CONFIGURATIONS,
    MESSAGES,
    RELATIONS,
    SORTS,
    VARIABLES,
    Cells,
    code,
    configuration,
    final_text,
    grid,
    init_text,
    instance_text,
    property_text,
    row_heading,
    row_text,
    rows_text,
)
from pdproto.check.tables import GENERATED, joined
from pdproto.check.words import assumption_texts, formula_text
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import PROPERTY_KINDS, LeadsTo, Property
from pdproto.spec.language.system import System

P = TypeVar("P")

GRIDS: Final[tuple[tuple[str, str, Cells], ...]] = (
    ("sort", "Sorts", SORTS),
    ("relation", "Fixed relations", RELATIONS),
    ("variable", "Variables", VARIABLES),
    ("message", "Messages", MESSAGES),
)

UNIFIED_HEAD: Final = 3  # lines of a unified difference that name files and line numbers


def variant_document(variant: System, base: System) -> str:
    """The differences as Markdown. The page links to the page of the base, `NAME.md`."""
    change = difference(base, variant)
    return joined((
        f"# {variant.name}",
        variant.about,
        f"This page says how the system differs from [{base.name}]({base.name}.md). Everything "
        f"else is the same.\n`pdproto export --markdown {variant.name} --full` writes the whole "
        "system.",
        GENERATED,
        *(part for kind, title, heading in GRIDS for part in _cells(change, kind, title, heading)),
        *_axioms(change),
        *_tables(variant, base, change),
        *_properties(variant, base, change),
        *_faults(variant, base, change),
        *_configurations(variant, change),
    ))  # fmt: skip


def _of(parts: Mapping[Key, P], *kind: str) -> dict[Key, P]:
    return {key: part for key, part in parts.items() if key[: len(kind)] == kind}


def _new(change: Difference) -> dict[Key, Part]:
    """The parts that the variant adds or changes."""
    return {key: after for key, (_, after) in change.changed.items()} | dict(change.added)


def _named(word: str, names: list[str]) -> str:
    return f"{word}: {', '.join(names)}." if names else ""


def _cells(change: Difference, kind: str, title: str, heading: Cells) -> Iterator[str]:
    removed = [key[-1] for key in _of(change.removed, kind)]
    added = [part for part in _of(change.added, kind).values() if isinstance(part, tuple)]
    changed = [part for _, part in _of(change.changed, kind).values() if isinstance(part, tuple)]
    if removed or added or changed:
        yield f"## {title}"
        yield _named("Removed", removed)
        for word, lines in (("Changed:", changed), ("Added:", added)):
            if lines:
                yield word
                yield grid(heading, lines)


def _axioms(change: Difference) -> Iterator[str]:
    lines = [f"* axiom **{key[-1]}** is removed" for key in _of(change.removed, "axiom")]
    lines += [
        f"* axiom **{key[-1]}**: {code(formula_text(axiom))}"
        for key, axiom in _of(_new(change), "axiom").items()
        if isinstance(axiom, Formula)
    ]
    if lines:
        yield "## Axioms"
        yield "\n".join(lines)


def _tables(variant: System, base: System, change: Difference) -> Iterator[str]:
    tables = {table.machine.name: table for table in (*base.tables, *variant.tables)}
    for table in tables.values():
        told = list(_rows(change, "", table))
        if told:
            yield f"## Table of {instance_text(table.machine.instance)}"
            yield from told


def _faults(variant: System, base: System, change: Difference) -> Iterator[str]:
    layers = {**base.faults, **variant.faults}
    told = [part for layer, tables in layers.items() for part in _layer(change, layer, tables)]
    if told:
        yield "## Faults"
        yield from told


def _layer(change: Difference, layer: str, tables: tuple[Table, ...]) -> Iterator[str]:
    if tables and all(("table", layer, table.machine.name) in change.removed for table in tables):
        yield f"### {layer}"
        yield "This layer is removed."
        return
    told = []
    for table in tables:
        lines = list(_rows(change, layer, table))
        if lines and not table.machine.world:
            told.append(f"Of {instance_text(table.machine.instance)}:")
        told += lines
    if told:
        yield f"### {layer}"
        yield from told


def _rows(change: Difference, layer: str, table: Table) -> Iterator[str]:
    """The differences of one table; rows that are the same in both systems are left out."""
    name = (layer, table.machine.name)
    if ("table", *name) in change.removed:
        yield "This table is removed."
        return
    if ("table", *name) in change.added:
        yield rows_text(table.rows)
        return
    removed = [row for row in _of(change.removed, "row", *name).values() if isinstance(row, Row)]
    added = [row for row in _of(change.added, "row", *name).values() if isinstance(row, Row)]
    changed = [
        (before, after)
        for before, after in _of(change.changed, "row", *name).values()
        if isinstance(before, Row) and isinstance(after, Row)
    ]
    if removed:
        yield "Removed rows:"
        yield _block("diff", "\n".join(f"- {row_heading(row)}" for row in removed))
    if changed:
        yield "Changed rows:"
        yield _block("diff", "\n\n".join(_both(*pair) for pair in changed))
    if added:
        yield "Added rows:"
        yield rows_text(added)


def _both(before: Row, after: Row) -> str:
    """A row before and after, as one text: lines that only one form has are marked."""
    old, new = row_text(before).splitlines(), row_text(after).splitlines()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=len(old) + len(new)))
    return "\n".join(f"{line[0]} {line[1:]}" for line in lines[UNIFIED_HEAD:])


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _properties(variant: System, base: System, change: Difference) -> Iterator[str]:
    removed = [f"**{key[-1]}**" for key in _of(change.removed, "property")]
    removed += ["where a run may end" for _ in _of(change.removed, "final")]
    removed += ["which states are initial" for _ in _of(change.removed, "init")]
    added = [_claim(part) for part in _of(change.added, "property").values()]
    pairs = [
        (_claim(before), _claim(after))
        for before, after in _of(change.changed, "property").values()
    ]
    assumed: dict[tuple[str, str], list[str]] = {}
    for before, after in pairs:
        if _only_assumes(before, after):
            both = _under(before, base), _under(after, variant)
            assumed.setdefault(both, []).append(f"**{after.name}**")
    lines = [
        f"* {', '.join(names)}: when {new} (in {base.name}: when {old})"
        for (old, new), names in assumed.items()
    ]
    lines += [property_text(after, variant)
              for before, after in pairs if not _only_assumes(before, after)]
    for kind, text in (("init", init_text), ("final", final_text)):
        parts = _of(_new(change), kind).values()
        lines += [text(part) for part in parts if isinstance(part, Formula)]
    if not (removed or added or lines):
        return
    yield "## Properties"
    yield _named("Not claimed here", removed)
    if lines:
        yield "Changed:"
        yield "\n".join(lines)
    if added:
        yield "Added:"
        yield "\n".join(property_text(claim, variant) for claim in added)


def _claim(part: Part) -> Property:
    assert isinstance(part, PROPERTY_KINDS)  # noqa: S101 - by its key
    return part


def _only_assumes(before: Property, after: Property) -> bool:
    """Whether only what a property of liveness assumes differs."""
    return (
        isinstance(before, LeadsTo)
        and isinstance(after, LeadsTo)
        and (before.premise, before.goal, before.why) == (after.premise, after.goal, after.why)
    )


def _under(claim: Property, system: System) -> str:
    under = claim.under if isinstance(claim, LeadsTo) else ()
    return "; when ".join(assumption_texts(system, under))


def _configurations(variant: System, change: Difference) -> Iterator[str]:
    """All configurations of the variant, if one of them differs from the base."""
    every: tuple[Mapping[Key, object], ...] = (change.removed, change.changed, change.added)
    if any(_of(parts, "configuration") for parts in every) and variant.configurations:
        yield "## Configurations"
        yield grid(
            CONFIGURATIONS,
            [configuration(name, chosen) for name, chosen in variant.configurations.items()],
        )
