"""Explore every state of a system and judge its properties; shortest counterexamples are drawn."""

import argparse
import json
import os
import sys
from dataclasses import replace
from typing import Final

from rich.console import Console

from pdproto.check import native
from pdproto.check.checking import Settings, check
from pdproto.check.explore import INTERRUPTED, Limits
from pdproto.check.load import load
from pdproto.check.questions import names
from pdproto.check.report.as_json import to_json
from pdproto.check.report.terminal import render
from pdproto.check.result import EXIT_STATUS, CheckResult, Verdict
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_sizes,
    add_system,
    configuration,
    write,
)
from pdproto.cli.progress import Reporter
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.system import System

HELP: Final = "explore every state of a system and judge its properties"
GIB: Final = 1 << 30
DEFAULT_SYSTEM: Final = "two-phase-commit"
MEMORY_SHARE: Final = 0.75  # of what is free now: the rest is for reports and for others


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto check`."""
    add_system(parser)
    parser._actions[-1].nargs = "?"  # argparse has no public way to make it optional later
    parser.set_defaults(system=DEFAULT_SYSTEM)
    add_sizes(parser)
    parser.add_argument(
        "--property", metavar="NAME", action="append", nargs="+", default=[], dest="properties",
        help="look at these properties only",
    )
    for flag, what in (
        ("symmetry", "merge states that differ only in the names of interchangeable elements"),
        ("dead-bits", "clear what no row can read any more"),
    ):
        parser.add_argument(f"--{flag}", action=argparse.BooleanOptionalAction, help=what)
    parser.add_argument(
        "--fairness", choices=[f.name.lower().replace("_", "-") for f in Fairness],
        action="append", default=[], help="assume this of the environment (leads_to only)",
    )
    parser.add_argument(
        "--workers", metavar="N", type=_positive, default=os.cpu_count() or 1,
        help="threads (default: one a core); the answer is the same for any number",
    )
    parser.add_argument("--keep-going", action="store_true", help="explore past a violation")
    parser.add_argument("--max-states", metavar="N", type=_positive, help="give up after N states")
    parser.add_argument(
        "--max-memory", metavar="GIB", type=float, help="give up there (default: 3/4 of the free)"
    )
    for kind in ("html", "mermaid", "junit", "sarif"):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write a {kind} report")
    parser.add_argument("--json", metavar="FILE|-", help="write the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Check one system; returns the exit status."""
    system = load(arguments.system)
    chosen = configuration(system, arguments)
    for field in ("symmetry", "dead_bits"):
        if getattr(arguments, field) is not None:
            chosen = replace(chosen, **{field: getattr(arguments, field)})
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        if not native.available():
            reporter.say("no C compiler was found at installation: the portable engine is slow")
        result = check(system, chosen, _settings(system, arguments, reporter))
    _report(result, arguments)
    if result.stopped == INTERRUPTED and result.verdict is not Verdict.VIOLATED:
        print("pdproto: interrupted: the answer is incomplete", file=sys.stderr)  # noqa: T201
    return EXIT_STATUS[result.verdict]


def _settings(system: System, arguments: argparse.Namespace, reporter: Reporter) -> Settings:
    wanted = tuple(name for group in arguments.properties for name in group)
    known = names(system)
    for name in wanted:
        if name not in known:
            raise UsageError(f"{system.name} has no property {name!r}; it has: {', '.join(known)}")
    if arguments.max_memory is not None and arguments.max_memory <= 0:
        raise UsageError(f"--max-memory {arguments.max_memory}: want GiB above 0")
    gib = arguments.max_memory
    limit = int(gib * GIB) if gib is not None else int(_free_bytes() * MEMORY_SHARE)
    return Settings(
        properties=wanted,
        limits=Limits(arguments.max_states, limit),
        workers=arguments.workers,
        keep_going=arguments.keep_going,
        fairness=tuple(Fairness[n.upper().replace("-", "_")] for n in arguments.fairness),
        monitor=reporter.show,
    )


def _free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _positive(text: str) -> int:
    if not text.replace("_", "").replace(",", "").isdecimal():
        raise argparse.ArgumentTypeError(f"want a whole number of at least 1, not {text!r}")
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("want at least 1")
    return number


def _report(result: CheckResult, arguments: argparse.Namespace) -> None:
    """Write what was asked for; to the terminal if nothing else goes to standard output."""
    targets = [arguments.html, arguments.mermaid, arguments.junit, arguments.sarif, arguments.json]
    if STANDARD_OUTPUT not in targets:
        render(result, Console(file=sys.stdout))
    if arguments.json:
        write(json.dumps(to_json(result), indent=2), arguments.json)
    for kind in ("html", "junit", "sarif"):
        target = getattr(arguments, kind)
        if target:
            write(_rendered(kind, result), target)
    if arguments.mermaid:
        write(_mermaid(result), arguments.mermaid)


def _rendered(kind: str, result: CheckResult) -> str:
    # Imported when asked for: most runs draw no page.
    from importlib import import_module  # noqa: PLC0415

    return str(import_module(f"pdproto.check.report.{kind}").render(result))


def _mermaid(result: CheckResult) -> str:
    """The first violation as a diagram, or the first witness if there is none."""
    from pdproto.check.report import mermaid  # noqa: PLC0415 - as above

    drawn = [finding for finding in result.findings if finding.trace is not None]
    drawn.sort(key=lambda finding: finding.verdict is not Verdict.VIOLATED)
    if not drawn:
        raise UsageError("--mermaid: no property has a trace to draw")
    return str(mermaid.render(drawn[0]))
