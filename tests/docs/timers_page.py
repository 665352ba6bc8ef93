"""docs/reference/timers.md: on which clocks do the promises rest? Written by `reference_pages`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pdproto.cli.systems import load, subject
from pdproto.spec.catalogue import HANDOFF, SYSTEMS
from pdproto.spec.handoff.properties import PROMISES
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language import Row, System, Timer

INTRODUCTION: Final = """
A timer of the tables is *fair* if it fires in every run in which it could fire for ever: then a
promise may rest on it. Nodes fire a timer after its default, or after the seconds of
[a setting](settings.md#waits). A timer with an infinite default is not fair in any system. So no
promise rests on it, and the promises hold as nodes run the tables.

The last column has the promises with a ranking (`spec/lemmas`) that counts on a row of the timer.
The explorer judges the others, and names no row.

| timer | default, s | fair | systems | configurations | promises whose proofs use it |
|---|--:|---|--:|--:|---|
"""
SYSTEMS_OF_EACH: Final = """
## The systems of each timer

With their configurations. Where a timer is not fair, it may fire, and may also never fire.

| timer | fair | systems |
|---|---|---|
"""
ELSEWHERE: Final = """
In a group with optimistic prefill, the agreement has no `bootstrap_timeout`, because the entry's
table of passes has one until it hands the request over (`pdproto/group/passes.py`).
"""


def rows_on(name: str, system: System) -> tuple[Row, ...]:
    """The rows of a system on the timer of that name."""
    return tuple(row for table in system.tables for row in table.rows
                 if isinstance(row.on, Timer) and row.on.name == name)


def with_timer(name: str) -> tuple[System, ...]:
    """The systems of the hand-over that have the timer."""
    return tuple(system for system in map(load, HANDOFF) if rows_on(name, system))


def proved_with(name: str, systems: Sequence[System]) -> tuple[str, ...]:
    """The promises of which some proof uses a fair row of the timer."""
    used = set()
    for system in systems:
        rows = {row.name for row in rows_on(name, system) if row.is_fair}
        for ranking in subject(system.name).every_ranking if SYSTEMS[system.name].ranking else ():
            if rows.intersection(help_.row for help_ in ranking.helpers):
                used.add(ranking.leads_to)
    return tuple(promise.id for promise in PROMISES if used.intersection(promise.names))


def page(generated: str) -> str:
    """The page. generated: the line that says how it is written."""
    found = {name: with_timer(name) for name in WAITS}
    return (f"# Timers, and the promises that rest on them\n\n{generated}{INTRODUCTION}"
            + "".join(_rows(found)) + SYSTEMS_OF_EACH + "".join(_systems(found)) + ELSEWHERE)


def _fair(name: str, systems: Sequence[System]) -> str:
    fair = {row.is_fair for system in systems for row in rows_on(name, system)}
    return "yes" if fair == {True} else "no"


def _rows(found: Mapping[str, Sequence[System]]) -> Iterator[str]:
    for name, systems in found.items():
        yield (f"| `{name}` | {WAITS[name].seconds:g} | {_fair(name, systems)} | {len(systems)} | "
               f"{sum(len(system.configurations) for system in systems)} | "
               f"{', '.join(proved_with(name, systems))} |\n")


def _systems(found: Mapping[str, Sequence[System]]) -> Iterator[str]:
    for name, systems in found.items():
        told = "; ".join(f"{system.name} ({', '.join(system.configurations)})"
                         for system in systems)
        yield f"| `{name}` | {_fair(name, systems)} | {told} |\n"
