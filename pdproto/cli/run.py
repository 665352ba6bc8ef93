"""Walk through a system at random, and count how often each row fires.

This is a first look at a system that is too large to explore: it shows mistakes, and proves
nothing. The same seed gives the same walks. Exit status: 0 no violation was seen, 1 one was, 3 no
step was taken, or the walks were interrupted.
"""

import argparse
import json
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.outcome import INTERRUPTED, Outcome, outcome
from pdproto.check.report.as_json import changes
from pdproto.check.report.narration import counted
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.check.stepping.random_walks import WalkCounts, random_walks
from pdproto.check.stepping.standing import Stands, standings
from pdproto.check.stepping.walk import Path, Walker
from pdproto.check.unjudged import ONE_RUN, unjudged, unjudged_lines
from pdproto.cli.numbers import natural
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    add_sizes,
    add_system,
    check_targets,
    console,
    whole_number,
    write,
)
from pdproto.cli.reports import say
from pdproto.cli.starting import Start, add_topology, start_at_beginning
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Property
from pdproto.spec.language.refines import Refines

WALKS: Final = 1_000
STEPS: Final = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto run`."""
    add_system(parser)
    add_sizes(parser)
    add_topology(parser)
    parser.add_argument("--runs", metavar="N", type=whole_number, default=WALKS,
                        help=f"how many walks (default: {WALKS:,})")
    parser.add_argument("--steps", metavar="N", type=whole_number, default=STEPS,
                        help=f"the most steps of a walk (default: {STEPS})")
    parser.add_argument("--seed", metavar="N", type=natural, default=0,
                        help="walks of another seed are others (default: 0)")
    parser.add_argument("--json", metavar="FILE|-", help="write the counts and the violations")


def run(arguments: argparse.Namespace) -> int:
    """Walk and report; returns the exit status."""
    check_targets([arguments.json])
    begun = start_at_beginning(arguments)
    seen = random_walks(begun.walker, arguments.seed, arguments.runs, arguments.steps)
    if arguments.json != STANDARD_OUTPUT:
        with console() as out:
            _show(begun, seen, arguments.seed, out)
    if arguments.json:
        write(json.dumps(_as_json(begun, seen, arguments.seed), indent=2), arguments.json)
    if seen.interrupted:
        say(INTERRUPTED)
    return _outcome(seen).exit_status


def _outcome(seen: WalkCounts) -> Outcome:
    return outcome(violated=bool(seen.violations), steps=seen.steps, interrupted=seen.interrupted)


def _why_unjudged(_: str, claim: Property | None) -> str:
    """Why no walk judges the property; empty if it does."""
    if claim is None or isinstance(claim, Always | OnRow | Refines):
        return ""
    return "a walk ends" if isinstance(claim, LeadsTo) else ONE_RUN


def _show(begun: Start, seen: WalkCounts, seed: int, out: Console) -> None:
    walker = begun.walker
    facts = ", ".join(f"{label} {value}" for label, value in begun.facts)
    out.print(Text.assemble((walker.system.name, "bold"), f"  {facts}"))
    out.print(Text(f"{counted(seen.walks, 'walk')} of seed {seed}: {counted(seen.steps, 'step')}, "
                   f"{counted(len(seen.states), 'state')}; "
                   f"{counted(seen.ended, 'walk')} came to an end"))
    out.print()
    out.print(_rows(walker, seen))
    for name, (first, path) in seen.violations.items():
        out.print()
        out.print(Text(f"{counted(seen.broken[name], 'walk')} with a violation; the shortest, "
                       f"which `pdproto check` may shorten:", style="dim"))
        render_trace(_finding(walker.starting(first), name, path), out)
    for line in unjudged_lines(unjudged(walker.system, _why_unjudged)):
        out.print(Text(line, style="yellow"), soft_wrap=True)
    if not seen.violations:
        out.print(Text(_outcome(seen).told, style="dim"))


def _rows(walker: Walker, seen: WalkCounts) -> Table:
    """Each row with its counts; those that never fired stand last."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("row", overflow="fold")
    table.add_column("fired", justify="right", no_wrap=True)
    table.add_column("could fire", justify="right", no_wrap=True)
    table.add_column("place", overflow="fold")
    for name in sorted(_names(walker), key=lambda name: not seen.fired[name]):
        fired = seen.fired[name]
        place = walker.system.row(name)
        table.add_row(
            Text(name, style="" if fired else "yellow"),
            f"{fired:,}" if fired else Text("never", style="yellow"),
            f"{seen.enabled[name]:,}",
            Text("" if place is None else str(place[1].place), style="dim"),
        )
    return table


def _names(walker: Walker) -> list[str]:
    """The rows under the chosen faults that may change a state, in the order of the tables."""
    tables = walker.system.tables_under(walker.configuration.faults)
    return [row.name for table, _ in tables for row in table.rows if row.kind == "row"]


def _finding(walker: Walker, name: str, path: Path) -> Finding:
    moves = walker.follow(path)
    (told,) = (one for one in standings(walker, moves)
               if (one.name, one.stands) == (name, Stands.VIOLATED))
    known = {one.name: one for one in (*walker.system.properties, *walker.questions)}
    place = known[name].place if name in known else walker.system.place
    kind = PropertyKind(told.kind)
    return Finding(name, kind, told.claim, Verdict.VIOLATED, "seen", place, walker.trace(moves),
                   note="; ".join(told.because))


def _as_json(begun: Start, seen: WalkCounts, seed: int) -> dict[str, Any]:
    walker = begun.walker
    return {
        "system": walker.system.name,
        "sizes": {sort.__name__: size for sort, size in walker.configuration.sizes.items()},
        "faults": list(walker.configuration.faults),
        "seed": seed,
        "walks": seen.walks,
        "steps": seen.steps,
        "states": len(seen.states),
        "ended": seen.ended,
        "verdict": _outcome(seen).seen,
        "not_judged": [f"{claim}: {why}" for claim, why in
                       unjudged(walker.system, _why_unjudged).items()],
        "interrupted": seen.interrupted,
        "rows": {name: {"fired": seen.fired[name], "enabled": seen.enabled[name]}
                 for name in _names(walker)},
        "violations": {name: {"walks": seen.broken[name], "path": list(path),
                              "start": changes(walker.starting(first).trace(()).start)}
                       for name, (first, path) in seen.violations.items()},
    }
