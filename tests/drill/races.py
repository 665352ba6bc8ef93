"""Which defects of the catalogue `python -m lab race` shows on nodes, and why not the others.

    python -m tests.drill.races            # arrange every race, and record what was seen
    python -m tests.drill.races B22 R19    # only these
"""

import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from lab.race.arrange import NotArrangedError, arranged
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS

RECORD: Final = Path(__file__).with_name("races.json")
KEPT: Final = "refused: "  # the beginning of what is recorded of a defect that no race shows
RACES: Final = {bug.system.name: bug for bug in BUGS}


def outcome(bug: Bug) -> str:
    """The promise that nodes broke in the race of the defect, or the reason why none is arranged.
    """
    try:
        return arranged(bug).seen[0].promise
    except NotArrangedError as error:
        return f"{KEPT}{str(error).removeprefix(f'{bug.id}: ')}"


def recorded() -> dict[str, str]:
    """The outcome of each race, by the name of the system with the defect."""
    found: dict[str, str] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def rows() -> Iterator[str]:
    """A row in Markdown for each defect of the catalogue."""
    known = recorded()
    for name, bug in RACES.items():
        seen = known[name]
        told = (f"| no | {seen.removeprefix(KEPT)} |" if seen.startswith(KEPT)
                else f"| yes | `{seen}` |")
        yield f"| `{bug.id}` | `{name}` | `{bug.violates}` {told}"


def main(words: Collection[str]) -> None:
    """Arrange the races, and record their outcomes."""
    known = {name: seen for name, seen in recorded().items() if name in RACES}
    for name, bug in RACES.items():
        if not words or {name, bug.id} & {*words}:
            known[name] = outcome(bug)
            RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
