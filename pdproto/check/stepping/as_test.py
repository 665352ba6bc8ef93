"""A path as a test for pytest, to be copied into a project."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdproto.check.runs import Transition
from pdproto.check.stepping.walk import Walker
from pdproto.ground.layout import cell_name


@dataclass(frozen=True, slots=True)
class SystemImport:
    """How a test gets the system, as lines of Python.

    imports: a line that imports; may be empty. system, configuration: expressions; the second one
    is empty for the default. topology: the number of the interpretation, from 1. constant: a line
    after the imports; may be empty.
    """

    imports: str
    system: str
    configuration: str = ""
    topology: int = 1
    constant: str = ""


def written(source: SystemImport, walker: Walker, moves: Sequence[Transition]) -> str:
    """The test: it follows the path, and compares what fails and what has changed at its end."""
    name = re.sub(r"\W+", "_", walker.system.name).strip("_")
    options = [f"sizes={_literal(_sizes(walker))}", f"faults={_tuple(walker.configuration.faults)}"]
    if source.configuration:
        options.insert(0, f"configuration={source.configuration}")
    if source.topology != 1:
        options.append(f"topology={source.topology}")
    return "\n".join([
        *sorted(filter(None, [source.imports, "from pdproto.testing.paths import walk"])),
        *(["", source.constant] if source.constant else []),
        "",
        "",
        f"def test_a_run_of_{name}() -> None:",
        f"    run = walk({source.system}, [",
        *(f"        {_literal(walker.label(move.row))}," for move in moves),
        f"    ], {', '.join(options)})",
        f"    assert run.violated == {_literal(walker.violated(walker.after(moves)))}",
        *(f"    assert run.values[{_literal(cell)}] == {_literal(value)}"
          for cell, value in _values(walker, walker.after(moves))),
        "",
    ])


def _literal(value: object) -> str:
    """Text, a list or a dict of such as Python, with double quotes."""
    return json.dumps(value, ensure_ascii=False)


def _tuple(names: tuple[str, ...]) -> str:
    return f"({' '.join(f'{_literal(name)},' for name in names)})"


def _sizes(walker: Walker) -> dict[str, int]:
    return {sort.__name__: size for sort, size in walker.configuration.sizes.items()}


def _values(walker: Walker, state: int) -> Iterator[tuple[str, str]]:
    """The variables that differ from the initial state."""
    for symbol, at, (value, initial) in walker.ground.layout.texts(state, walker.initial):
        if value != initial:
            yield cell_name(symbol, at), value
