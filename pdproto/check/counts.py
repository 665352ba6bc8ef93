"""The counts of complete explorations, in a file that a command writes: `pdproto check --record`.

A change of a table changes counts. Who reviews it reads the diff of this file, which has a line for
each configuration of each system: its states; its transitions, which are the enabled ground rows,
summed over all states; its depth, which is the number of steps to the farthest state. They are of a
search to its end, with the system's own reductions and every property watched. Beside them stands
the identity of the tables that were explored, so that a count of earlier tables is noticed.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pdproto.check.identity import of_count
from pdproto.check.load import LoadError
from pdproto.check.result import CheckResult
from pdproto.spec.language.system import System


class Counts(NamedTuple):
    """The counts of a complete exploration; see above."""

    states: int
    transitions: int
    depth: int


class RecordedCounts(NamedTuple):
    """Counts, with the identity of the tables that were explored; None where it is not known."""

    counts: Counts
    tables: str | None


Recorded: TypeAlias = Mapping[tuple[str, str], RecordedCounts]  # by system and configuration
NONE: Final[Recorded] = {}


def counts(found: CheckResult) -> Counts:
    """The counts of this exploration."""
    return Counts(found.states, found.transitions, found.depth)


def read(path: Path) -> Recorded:
    """The counts in a file. Raises LoadError for a file that `written` did not write."""
    try:
        return {
            (system, name): RecordedCounts(
                Counts(one["states"], one["transitions"], one["depth"]), one.get("tables"))
            for system, sizes in json.loads(path.read_text(encoding="utf-8")).items()
            for name, one in sizes.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LoadError(f"{path}: not the counts of `pdproto check --record`: {error}") from error


def written(known: Recorded) -> str:
    """The file with these counts, in the order of the names."""
    systems: dict[str, list[str]] = {}
    for (system, name), one in sorted(known.items()):
        line = json.dumps({**one.counts._asdict(), "tables": one.tables})
        systems.setdefault(system, []).append(f"  {json.dumps(name)}: {line}")
    told = (f' "{system}": {{\n' + ",\n".join(sizes) + "\n }" for system, sizes in systems.items())
    return "{\n" + ",\n".join(told) + "\n}\n"


def with_results(
    known: Recorded, results: Iterable[tuple[System, str, CheckResult]],
    systems: Iterable[str] = (),
) -> Recorded:
    """The counts with those of these results, each with its system and configuration.

    systems: if given, the counts of others are left out. Raises LoadError for a search that did not
    come to its end.
    """
    new = dict(known)
    for system, name, found in results:
        if not found.complete:
            raise LoadError(f"{found.system} {name} was not explored to its end, so it has no "
                            f"counts to record: give --keep-going, or larger limits")
        new[found.system, name] = RecordedCounts(counts(found), tables(system, name))
    kept = set(systems)
    return {key: one for key, one in new.items() if not kept or key[0] in kept}


def tables(system: System, name: str) -> str | None:
    """The identity of the system's tables in this configuration; None if they cannot be compared,
    or there is no configuration of this name.
    """
    try:
        return of_count(system, system.configurations[name])
    except (KeyError, TypeError):
        return None


def unconfirmed(known: Recorded, system: System) -> list[str]:
    """The configurations whose counts are not known to be of the system's present tables."""
    return [name for (of, name), one in known.items()
            if of == system.name and (one.tables is None or one.tables != tables(system, name))]
