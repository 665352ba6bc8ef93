"""Arrange the race of a historical defect on nodes in virtual time.

The events are those of its shortest counterexample, in their order, on nodes with the edited tables
and then with the unedited ones. Exit status: 1 the defect was seen, 2 usage, 3 its race cannot be
arranged.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from lab.race.arrange import Arranged, NotArrangedError, arranged
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, check_targets, console, write
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS

SEEN: Final = 1
REFUSED: Final = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab race`."""
    parser.add_argument("bug", metavar="ID", help="the defect, or its system")
    parser.add_argument("--json", metavar="FILE", help="write the race; - for standard output")


def run(arguments: argparse.Namespace) -> int:
    """Arrange the race, and report; returns the exit status. Raises UsageError for no such defect.
    """
    check_targets([arguments.json])
    refusals = []
    for bug in _named(arguments.bug):
        try:
            race = arranged(bug)
        except NotArrangedError as error:
            refusals.append(str(error))
            continue
        if arguments.json:
            write(json.dumps(_numbers(race), indent=2) + "\n", arguments.json)
        if arguments.json != STANDARD_OUTPUT:
            with console() as out:
                _show(race, out)
        return SEEN
    sys.stderr.write(f"pdproto: {arguments.bug} is refused, its race cannot be arranged: "
                     f"{'; '.join(refusals)}\n")
    return REFUSED


def _named(name: str) -> Sequence[Bug]:
    """The defects of this id, or with a system of this name. Raises UsageError."""
    found = [bug for bug in BUGS if name in (bug.id, bug.system.name)]
    if not found:
        raise UsageError(f"{name}: there is no such defect: pdproto/spec/bugs has them")
    return found


def _show(race: Arranged, out: Console) -> None:
    """Print the race, and what was seen."""
    out.print(f"{race.bug.id} ({race.bug.source}): {race.bug.symptom}", highlight=False,
              soft_wrap=True)
    out.print(f"arranged on nodes in virtual time, {len(race.steps)} steps: "
              f"{'; '.join(race.steps)}", highlight=False, soft_wrap=True)
    for seen in race.seen:
        out.print(f"[red]✗[/] {seen.promise}: ", end="", highlight=False)
        out.print(seen.where, markup=False, highlight=False, soft_wrap=True)
    out.print(f"The counterexample of the tables breaks {race.bug.violates}. With the unedited "
              f"tables, the same race breaks no promise.", highlight=False, soft_wrap=True)


def _numbers(race: Arranged) -> dict[str, object]:
    """The race, for machines."""
    return {"bug": race.bug.id, "system": race.bug.system.name, "violates": race.bug.violates,
            "steps": list(race.steps),
            "seen": [{"promise": seen.promise, "where": seen.where} for seen in race.seen]}
