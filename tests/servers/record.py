"""The cells of an engine, which of them was seen red under its defect, and the page of both."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LENGTH: Final = 160  # of a failure that the page shows


@dataclass(frozen=True, slots=True)
class Cell:
    """layout: how servers are started. check: the name of the function that checks. defect: the
    cell must fail under it. quick: it is part of a subset that takes a few minutes. given: to the
    check, after the stage and the layout.
    """

    name: str
    layout: str
    check: str
    asserts: str
    defect: str
    quick: bool = False
    given: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """page: a document, of a head, a table and a tail. seen: a file with the failures. defect_of:
    a defect as the page tells it, by its name.
    """

    cells: Sequence[Cell]
    page: Path
    seen: Path
    head: str
    tail: str
    defect_of: Callable[[str], str]

    def note(self, cell: Cell, failure: str) -> None:
        """The cell has failed under its defect."""
        short = " ".join(failure.split())
        kept = short if len(short) <= LENGTH else f"{short[:LENGTH]} ..."
        told = self._failures() | {cell.name: {"defect": cell.defect, "failure": kept}}
        in_order = {each.name: told[each.name] for each in self.cells if each.name in told}
        self.seen.write_text(json.dumps(in_order, indent=1) + "\n")

    def text(self) -> str:
        """Of the page."""
        known, rows = self._failures(), []
        for cell in self.cells:
            told = known.get(cell.name, {})
            failure = told["failure"] if told.get("defect") == cell.defect else "not yet"
            plain = failure.replace("|", "\\|").replace("<", "&lt;")
            rows.append(f"| {cell.name} | {cell.asserts} | {self.defect_of(cell.defect)} "
                        f"| {plain} |\n")
        return self.head + "".join(rows) + self.tail

    def _failures(self) -> dict[str, dict[str, str]]:
        """By the name of a cell: its defect, and how the failure was told."""
        found: dict[str, dict[str, str]] = (
            json.loads(self.seen.read_text()) if self.seen.exists() else {})
        return found
