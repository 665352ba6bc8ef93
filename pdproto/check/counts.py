"""The counts of complete explorations, in a file that a command writes: `pdproto check --record`.

A change of a table changes counts. Who reviews it reads the diff of this file, which has a line for
each configuration of each system: its states; its transitions, which are the enabled ground rows,
summed over all states; its depth, which is the number of steps to the farthest state. They are of a
search to its end, with the system's own reductions and every property watched.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pdproto.check.load import LoadError
from pdproto.check.result import CheckResult


class Counts(NamedTuple):
    """The counts of a complete exploration; see above."""

    states: int
    transitions: int
    depth: int


Recorded: TypeAlias = Mapping[tuple[str, str], Counts]  # by system and configuration
NONE: Final[Recorded] = {}


def counts(found: CheckResult) -> Counts:
    """The counts of this exploration."""
    return Counts(found.states, found.transitions, found.depth)


def read(path: Path) -> Recorded:
    """The counts in a file. Raises LoadError for a file that `written` did not write."""
    try:
        return {
            (system, name): Counts(**one)
            for system, sizes in json.loads(path.read_text(encoding="utf-8")).items()
            for name, one in sizes.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise LoadError(f"{path}: not the counts of `pdproto check --record`: {error}") from error


def written(known: Recorded) -> str:
    """The file with these counts, in the order of the names."""
    systems: dict[str, list[str]] = {}
    for (system, name), one in sorted(known.items()):
        systems.setdefault(system, []).append(f"  {json.dumps(name)}: {json.dumps(one._asdict())}")
    told = (f' "{system}": {{\n' + ",\n".join(sizes) + "\n }" for system, sizes in systems.items())
    return "{\n" + ",\n".join(told) + "\n}\n"


def with_results(
    known: Recorded, results: Iterable[tuple[str, CheckResult]], systems: Iterable[str] = ()
) -> Recorded:
    """The counts with those of these results, each with its configuration.

    systems: if given, the counts of others are left out. Raises LoadError for a search that did not
    come to its end.
    """
    new = dict(known)
    for name, found in results:
        if not found.complete:
            raise LoadError(f"{found.system} {name} was not explored to its end, so it has no "
                            f"counts to record: give --keep-going, or larger limits")
        new[found.system, name] = counts(found)
    kept = set(systems)
    return {key: one for key, one in new.items() if not kept or key[0] in kept}
