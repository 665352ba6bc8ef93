"""Where `explore`, `step` and `run` start: the system, its sizes, its topology, and a path."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.findings import topology
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.check.runs import Transition
from pdproto.check.stepping.as_test import SystemImport
from pdproto.check.stepping.recorded import RecordedRun, RecordError, recorded
from pdproto.check.stepping.walk import Path, PathError, Walker, nth_walker, walkers
from pdproto.cli.options import (
    UsageError,
    add_sizes,
    chosen_properties,
    configuration,
    whole_number,
)
from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.system import DEFAULT, Configuration, System

ANY_VIOLATION: Final = ""
SEPARATOR: Final = ";"


@dataclass(frozen=True, slots=True)
class Start:
    """A system at sizes, and the path with which to begin."""

    walker: Walker
    source: SystemImport
    path: Path
    topology: str  # empty without rigid relations
    told: tuple[str, ...] = ()  # what is to be known of a recorded run, a line each
    life: str = ""  # of a recorded run with several lives, the one that is shown

    @property
    def facts(self) -> Iterator[tuple[str, str]]:
        """The sizes, faults and topology, as label and value."""
        chosen = self.walker.configuration
        for sort, size in chosen.sizes.items():
            yield sort.__name__, str(size)
        if chosen.faults:
            yield "faults", ", ".join(chosen.faults)
        if self.topology:
            yield "topology", self.topology
        if self.life:
            yield "life", self.life


def add_start(parser: argparse.ArgumentParser) -> None:
    """Add SYSTEM, its sizes, and the options that say where the path begins."""
    parser.add_argument(
        "system", metavar="SYSTEM", nargs="?",
        help="a built-in name, module:attribute, or path/to/file.py:attribute (left out only with "
             "--bug)",
    )  # fmt: skip
    add_sizes(parser)
    add_topology(parser)
    beginnings = parser.add_mutually_exclusive_group()
    beginnings.add_argument(
        "--bug", metavar="ID",
        help="start at the end of the shortest trace of this defect (see `python -m lab bugs`)",
    )
    beginnings.add_argument(
        "--violation", metavar="PROPERTY", nargs="?", const=ANY_VIOLATION,
        help="check first, and start at the end of the counterexample (default: of the first "
             "property that fails)",
    )
    beginnings.add_argument(
        "--trace", metavar="FILE", nargs="+", type=FilePath,
        help="start at the end of a recorded run: the traces of its processes, or the JSON of a "
             "counterexample that check, fuzz or sim has written; sizes are those of the run",
    )
    beginnings.add_argument(
        "--path", metavar="ROWS", help="start at the end of this path: rows separated by `;`",
    )
    parser.add_argument(
        "--life", metavar="N", type=whole_number,
        help="with --trace: the life to show, if the traces have several hand-overs; 1 is the "
             "first to fire a row (default: that of the line that no row explains, or else 1)",
    )


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add --topology."""
    parser.add_argument(
        "--topology", metavar="N", type=whole_number, default=1,
        help="the interpretation of the rigid relations and the initial state there, by their "
             "number (default: 1)",
    )


def start_at_beginning(arguments: argparse.Namespace, path: Path = ()) -> Start:
    """The start of SYSTEM at the sizes and the topology of the options.

    Raises UsageError, and the errors of `load` and of grounding.
    """
    system, chosen, source = _chosen(arguments)
    return _begun(system, chosen, source, path)


def start(arguments: argparse.Namespace) -> Start:
    """The start that the options ask for.

    Raises UsageError, and the errors of `load` and of grounding.
    """
    if arguments.life is not None and arguments.trace is None:
        raise UsageError("--life chooses a hand-over of recorded traces: give them with --trace")
    if arguments.bug is not None:
        return _at_bug(arguments)
    if arguments.system is None:
        raise UsageError("SYSTEM is missing: name one, or a defect with --bug ID")
    if arguments.trace is not None:
        return _at_end_of(arguments)
    if arguments.violation is not None:
        return _at_violation(*_chosen(arguments), arguments.violation)
    rows = (arguments.path or "").split(SEPARATOR)
    return start_at_beginning(arguments, tuple(filter(None, map(str.strip, rows))))


def _chosen(arguments: argparse.Namespace) -> tuple[System, Configuration, SystemImport]:
    system = load(arguments.system)
    arguments.configuration = _name(system, arguments.configuration)
    source = _source(arguments.system, arguments.configuration, arguments.topology)
    return system, configuration(system, arguments), source


def _name(system: System, name: str) -> str:
    """The name of the configuration; the first one of a system that has no default."""
    if name == DEFAULT and name not in system.configurations:
        return next(iter(system.configurations), name)
    return name


def _begun(system: System, chosen: Configuration, source: SystemImport, path: Path) -> Start:
    """The start at the end of the path, in the topology of the source."""
    try:
        walker = nth_walker(system, chosen, source.topology)
        walker.follow(path)
    except PathError as error:
        raise UsageError(str(error)) from error
    return Start(walker, source, path, topology(walker.ground))


def _source(name: str, chosen: str, number: int) -> SystemImport:
    """How a test gets the system of that name."""
    named = "" if chosen == DEFAULT else json.dumps(chosen)
    module, _, attribute = BUILT_IN.get(name, name).rpartition(":")
    if module.endswith(".py"):
        return SystemImport("", json.dumps(f"{module}:{attribute}"), named, number)
    return SystemImport(f"from {module} import {attribute}", attribute, named, number)


def _at_bug(arguments: argparse.Namespace) -> Start:
    bug = _bug(arguments.bug, arguments.system)
    source = SystemImport(
        "from pdproto.spec.bugs.catalogue import BUGS", "BUG.system", "BUG.configuration",
        constant=f'BUG = next(bug for bug in BUGS if bug.id == "{bug.id}")',
    )
    return _at_violation(bug.system, bug.configuration, source, bug.violates)


def _bug(identity: str, system: str | None) -> Bug:
    """The defect. system: if it is named, it must be the one that has the defect."""
    from pdproto.spec.bugs.catalogue import BUGS  # noqa: PLC0415 - it imports every table

    bug = next((bug for bug in BUGS if bug.id == identity), None)
    if bug is None:
        hint = suggestion(identity, [bug.id for bug in BUGS]) or "; pdproto/spec/bugs has them"
        raise UsageError(f"there is no defect {identity!r}{hint}")
    if system not in (None, bug.system.name):
        raise UsageError(f"the defect {identity} is in {bug.system.name}, not in {system}")
    return bug


def _at_violation(system: System, chosen: Configuration, source: SystemImport, name: str) -> Start:
    """Check, and begin at the end of the counterexample."""
    wanted = chosen_properties(system, [[name] if name else []])
    settings = CheckSettings(properties=wanted, workers=os.cpu_count() or 1)
    result = check(system, chosen, settings)
    finding = _violated(result.findings)
    if finding is None or finding.trace is None:
        raise UsageError(f"{_without_run(result, name or 'every property')}; start without "
                         f"--violation")
    path = tuple(f"{step.row}({step.parameters})" for step in finding.trace.steps)
    begun = {*finding.trace.start}

    def follow(walker: Walker) -> tuple[Transition, ...]:
        if not begun <= {*walker.trace(()).start}:
            raise PathError("the run begins in another initial state")
        return walker.follow(path)

    return _in_its_topology(system, chosen, source, follow)


def _without_run(result: CheckResult, name: str) -> str:
    """Why there is no counterexample to begin at."""
    match result.verdict:
        case Verdict.HOLDS:
            return f"{name} holds: there is no counterexample"
        case Verdict.UNKNOWN:
            return f"no counterexample was found before the search ended ({result.stopped})"
        case Verdict.VIOLATED:
            broken = (one.name for one in result.findings if one.verdict is Verdict.VIOLATED)
            return f"no single run shows that {', '.join(broken)} is violated"


def _in_its_topology(
    system: System, chosen: Configuration, source: SystemImport,
    follow: Callable[[Walker], tuple[Transition, ...]],
) -> Start:
    """The start in the first topology in which the run is possible: the run does not name it.

    Raises UsageError with the reason of the first topology if there is none.
    """
    refused: PathError | None = None
    for number, walker in enumerate(walkers(system, chosen), start=1):
        try:
            path = tuple(walker.label(move.row) for move in follow(walker))
        except PathError as error:
            refused = refused or error
        else:
            placed = replace(source, topology=number)
            return Start(walker, placed, path, topology(walker.ground))
    raise UsageError(str(refused))


def _at_end_of(arguments: argparse.Namespace) -> Start:
    """The start at the end of a recorded run, at the sizes of the run if no others are given."""
    try:
        run = recorded(load(arguments.system), arguments.trace, arguments.life)
    except RecordError as error:
        option = "--trace" if arguments.life is None else f"--life {arguments.life}"
        raise UsageError(f"{option}: {error}") from error
    given = {text.partition("=")[0] for group in arguments.size for text in group}
    arguments.size.append([f"{sort}={size}" for sort, size in run.sizes.items()
                           if sort not in given])
    if run.faults is not None and not arguments.faults:
        arguments.faults.append(run.faults or ("none",))
    system, chosen, source = _chosen(arguments)
    for sort, size in chosen.sizes.items():
        if size < run.sizes.get(sort.__name__, 0):
            raise UsageError(f"--size {sort.__name__}={size}: the recorded run names "
                             f"{run.sizes[sort.__name__]} elements")
    begun = _in_its_topology(system, chosen, source, run.follow)
    if len(run.lives) > 1:
        begun = replace(begun, life=f"{run.life} of {len(run.lives)} ({run.lives[run.life - 1]})")
    return replace(begun, told=tuple(_told(run)))


def _told(run: RecordedRun) -> Iterator[str]:
    """Where the run ends early, and which lives there are."""
    if run.ended:
        yield f"{run.ended}; the run up to this line is shown"
    if len(run.lives) > 1:
        yield (f"the traces have {len(run.lives)} lives; life {run.life} is shown "
               f"({run.lives[run.life - 1]}), and --life N shows another")


def _violated(findings: tuple[Finding, ...]) -> Finding | None:
    """The first violated finding with a trace."""
    return next((one for one in findings
                 if one.verdict is Verdict.VIOLATED and one.trace is not None), None)
