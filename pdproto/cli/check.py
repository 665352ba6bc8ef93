"""Explore every state of a system and check its properties. Counterexamples are the shortest ones.

Without SYSTEM, all systems of the hand-over are checked at each of their named sizes, with loss and
crashes. Then every row of their tables must also fire in some state.

A message or a completion that no row answers in some state is a violation, as in `pdproto lint`.
"""

import argparse
import json
import os
import sys
from dataclasses import replace
from importlib import import_module
from math import isfinite
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Final

from pdproto.check import native, suite
from pdproto.check.answers import is_answered, with_answers
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED, SearchLimits
from pdproto.check.load import suggestion
from pdproto.check.prove.assurance import cache_folder, recall
from pdproto.check.questions import names
from pdproto.check.report import suite as suite_report
from pdproto.check.report.as_json import to_json
from pdproto.check.report.progress import Reporter
from pdproto.check.report.terminal import render
from pdproto.check.result import EXIT_STATUS, CheckResult, Verdict
from pdproto.cli import promises
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_sizes,
    add_system,
    check_targets,
    configuration,
    console,
    whole_number,
    write,
)
from pdproto.cli.recall import add_no_cache, cache
from pdproto.cli.systems import BUILT_IN, load_with_module, with_proofs
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.language.properties import Always, Fairness
from pdproto.spec.language.system import DEFAULT, System

GIB: Final = 1 << 30
REPORTS: Final = {
    "html": "a page to step through the traces",
    "mermaid": "a sequence diagram of the first violation, or else of the first witness",
    "junit": "a test report: one case for each property",
    "sarif": "the violations, for code scanning",
    "json": "the result, with every trace",
}
MEMORY_SHARE: Final = 0.75  # of the free memory: reports and other processes need the rest


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto check`."""
    add_system(parser, left_out="the whole hand-over")
    add_sizes(parser)
    parser.add_argument(
        "--deep", action="store_true",
        help="one size up: --configuration deep, of each system if SYSTEM is left out",
    )
    parser.add_argument(
        "--table", action="store_true",
        help="only print the promises of the hand-over as Markdown, each with its check",
    )
    parser.add_argument(
        "--property", metavar="NAME", action="append", nargs="+", default=[], dest="properties",
        help="look at these properties only",
    )
    for flag, what in (
        ("symmetry", "merge states that differ only in the names of interchangeable elements"),
        ("dead-bits", "clear bits that no row will read before they are written again"),
    ):
        parser.add_argument(f"--{flag}", action=argparse.BooleanOptionalAction, help=what)
    parser.add_argument(
        "--fairness", choices=[f.name.lower().replace("_", "-") for f in Fairness],
        action="append", default=[], help="assume this of the environment (leads_to only)",
    )
    parser.add_argument(
        "--workers", metavar="N", type=whole_number, default=os.cpu_count() or 1,
        help="threads (default: one for each core); the result is the same for any number",
    )
    add_no_cache(parser)
    parser.add_argument(
        "--keep-going", action=argparse.BooleanOptionalAction,
        help="continue after a violation (default: only if the system is an edit of another)",
    )
    parser.add_argument(
        "--max-states", metavar="N", type=whole_number, help="give up after N states"
    )
    parser.add_argument(
        "--max-memory", metavar="GIB", type=_gib,
        help="give up when the states take this much (default: 3/4 of the free memory)",
    )
    for kind, what in REPORTS.items():
        parser.add_argument(f"--{kind}", metavar="FILE|-", help=f"write {what}")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Check one system, or all of the hand-over; returns the exit status."""
    check_targets(getattr(arguments, kind) for kind in REPORTS)
    if arguments.table:
        write(promises.document(), STANDARD_OUTPUT)
        return 0
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        if not native.available():
            reporter.say("no C compiler was found at installation: the portable engine is slow")
        if arguments.system is None:
            return _run_suite(arguments, reporter)
        return _run_one(arguments, reporter)


def _run_one(arguments: argparse.Namespace, reporter: Reporter) -> int:
    system, home = load_with_module(arguments.system)
    if arguments.deep:
        if arguments.configuration != DEFAULT:
            raise UsageError("--deep means --configuration deep: give only one of the two")
        arguments.configuration = suite.DEEP
    chosen = configuration(system, arguments)
    for field in ("symmetry", "dead_bits"):
        if getattr(arguments, field) is not None:
            chosen = replace(chosen, **{field: getattr(arguments, field)})
    settings = _settings(system, arguments, reporter)
    result = _with_proofs(system, cache(arguments).check(system, chosen, settings))
    if not arguments.properties and result.stopped != INTERRUPTED:
        result = _with_answers(arguments.system, system, home, result)
    _report(result, arguments)
    if result.stopped == INTERRUPTED and result.verdict is not Verdict.VIOLATED:
        _say("interrupted: the answer is incomplete")
    return EXIT_STATUS[result.verdict]


def _with_proofs(system: System, result: CheckResult) -> CheckResult:
    """Add to each property that holds whether this user's `pdproto prove` has proved it."""
    proved = recall(cache_folder(), system)
    return replace(result, findings=tuple(
        replace(finding, assurance=f"{finding.assurance}; {proved[finding.name]}")
        if finding.name in proved and finding.verdict is Verdict.HOLDS else finding
        for finding in result.findings
    ))


def _with_answers(
    name: str, system: System, home: ModuleType, result: CheckResult
) -> CheckResult:
    """Add the findings about messages that no row answers, as `pdproto lint` reports them."""
    found = with_answers(system, result)
    if is_answered(found):
        return found
    proofs = with_proofs(name, system, home, None)
    if proofs.lemmas_of or not proofs.lemmas:
        return found
    always = (claim for claim in system.properties if isinstance(claim, Always))
    return with_answers(system, result, (*proofs.lemmas, *always))


def _run_suite(arguments: argparse.Namespace, reporter: Reporter) -> int:
    _refuse_for_the_suite(arguments)
    began = monotonic()
    settings = CheckSettings(
        limits=replace(_limits(arguments), bytes_max=_bytes(arguments) // arguments.workers),
        keep_going=bool(arguments.keep_going),
    )
    wanted = suite.tasks({name: BUILT_IN[name] for name in HANDOFF}, deep=arguments.deep)
    found = suite.run(wanted, settings, arguments.workers, reporter.show, cache(arguments))
    seconds = monotonic() - began
    targets = _targets(arguments)
    if STANDARD_OUTPUT not in targets.values():
        with console() as drawn:
            suite_report.draw(found, seconds, drawn)
    for kind, target in targets.items():
        write(suite_report.written(kind, found, seconds), target)
    return EXIT_STATUS[found.verdict]


def _refuse_for_the_suite(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that needs SYSTEM."""
    one = {name: getattr(arguments, name) for name in ("size", "faults", "properties", "fairness")}
    one["property"] = one.pop("properties")
    one["configuration"] = arguments.configuration != DEFAULT
    one |= {name: getattr(arguments, name) is not None for name in ("symmetry", "dead_bits")}
    one |= {kind: getattr(arguments, kind) is not None
            for kind in REPORTS if kind not in suite_report.FORMATS}
    for name, given in one.items():
        if given:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} needs the name of a system, as in "
                             f"`pdproto check transfer --{option} ...`")


def _settings(system: System, arguments: argparse.Namespace, reporter: Reporter) -> CheckSettings:
    wanted = tuple(name for group in arguments.properties for name in group)
    known = names(system)
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"{system.name} has no property {name!r}{suggestion(name, known)}; "
                f"it has: {', '.join(known)}"
            )
    return CheckSettings(
        properties=wanted,
        limits=_limits(arguments),
        workers=arguments.workers,
        keep_going=_keeps_going(system, arguments),
        fairness=tuple(Fairness[n.upper().replace("-", "_")] for n in arguments.fairness),
        monitor=reporter.show,
    )


def _keeps_going(system: System, arguments: argparse.Namespace) -> bool:
    """Whether to continue after a violation.

    In an edited system the first violation is often one of bookkeeping. All violations together
    show the effect of the edit.
    """
    asked: bool | None = arguments.keep_going
    return system.base is not None if asked is None else asked


def _limits(arguments: argparse.Namespace) -> SearchLimits:
    return SearchLimits(arguments.max_states, _bytes(arguments))


def _bytes(arguments: argparse.Namespace) -> int:
    """The limit for the memory of states, in bytes."""
    gib = arguments.max_memory
    return int(gib * GIB) if gib is not None else int(_free_bytes() * MEMORY_SHARE)


def _free_bytes() -> int:
    """The free memory in bytes; on Linux with the memory of file caches."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gib(text: str) -> float:
    try:
        gib = float(text)
    except ValueError:
        gib = 0.0
    if not (isfinite(gib) and gib > 0):
        raise argparse.ArgumentTypeError(f"want GiB above 0, not {text!r}")
    return gib


def _report(result: CheckResult, arguments: argparse.Namespace) -> None:
    """Write the reports that the options name, and the terminal's unless one uses its output."""
    targets = _targets(arguments)
    if STANDARD_OUTPUT not in targets.values():
        with console() as drawn:
            render(result, drawn)
    for kind, target in targets.items():
        text = _rendered(kind, result)
        if text is None:
            _say(f"no property has a trace to draw: {target} is not written")
        else:
            write(text, target)


def _targets(arguments: argparse.Namespace) -> dict[str, str]:
    """The file of each report that the options name, by its kind."""
    return {kind: target for kind in REPORTS if (target := getattr(arguments, kind)) is not None}


def _rendered(kind: str, result: CheckResult) -> str | None:
    """The report as text; None if there is no trace to draw."""
    match kind:
        case "json":
            return json.dumps(to_json(result), indent=2)
        case "mermaid":
            return _mermaid(result)
        case _:
            # Imported only here, because most runs draw no page.
            return str(import_module(f"pdproto.check.report.{kind}").render(result))


def _mermaid(result: CheckResult) -> str | None:
    """The first violation as a diagram, or the first witness if there is none."""
    from pdproto.check.report import mermaid  # noqa: PLC0415 - as above

    drawn = [finding for finding in result.findings if finding.trace is not None]
    drawn.sort(key=lambda finding: finding.verdict is not Verdict.VIOLATED)
    return mermaid.render(drawn[0]) if drawn else None


def _say(line: str) -> None:
    print(f"pdproto: {line}", file=sys.stderr)  # noqa: T201 - beside the answer
