"""Prove that the safety properties of a system hold for any number of everything.

Each property must hold at the start and survive every row, fault rows included; lemmas help, and
are proved with it. What fails is shown as a step that breaks it, from a state that need not be
reachable: then a lemma is missing. `--bmc K` looks whether a run of K steps gets there.

Exit status: 0 all proved, 1 something fails, 2 usage or spec error, 3 unknown, 4 internal error.
"""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from pdproto.check.load import load
from pdproto.check.prove.certificates import certificates
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Claim, Obligation, claims, obligations
from pdproto.check.prove.proving import ENGINES, Proof, Settings, prove
from pdproto.check.prove.sat import VERSION
from pdproto.check.report.picture import draw
from pdproto.check.result import Finding, Kind, Verdict
from pdproto.check.words import formula_text
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_system,
    check_targets,
    console,
    whole_number,
    write,
)
from pdproto.cli.progress import Reporter
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import System

HAND_OVER: Final = ("registry", "dp-rank", "transfer", "agreement", "optimistic")
# By built-in name: the module with its LEMMAS, and perhaps what is ASSUMED of its rigid symbols.
LEMMAS: Final[Mapping[str, str]] = {
    "two-phase-commit": "pdproto.spec.lemmas.two_phase_commit_lemmas",
    "lock-server": "pdproto.spec.lemmas.lock_server_lemmas",
    "registry": "pdproto.spec.lemmas.registry_lemmas",
    "dp-rank": "pdproto.spec.lemmas.dp_rank_lemmas",
    "transfer": "pdproto.spec.lemmas.transfer_lemmas",
    "transfer-lossy": "pdproto.spec.lemmas.transfer_lemmas",
    "agreement": "pdproto.spec.lemmas.agreement_lemmas",
    "agreement-lost": "pdproto.spec.lemmas.agreement_lemmas",
    "agreement-once": "pdproto.spec.lemmas.agreement_lemmas",
    "optimistic": "pdproto.spec.lemmas.optimistic_lemmas",
    "optimistic-lossy": "pdproto.spec.lemmas.optimistic_lemmas",
}
TIMEOUT_S: Final = 30
DRAWN_MAX: Final = 3  # steps that break a property; more of them say little


@dataclass(frozen=True, slots=True)
class Subject:
    """A system with its lemmas, and what is taken for granted of its rigid symbols."""

    system: System
    lemmas: tuple[Always, ...]
    assumed: Mapping[str, Formula]

    @property
    def claims(self) -> tuple[Claim, ...]:
        return claims(self.system, self.lemmas)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto prove`."""
    add_system(parser, left_out="the whole hand-over")
    parser.add_argument("--property", metavar="NAME", action="append", nargs="+", default=[],
                        dest="properties", help="prove these properties and lemmas only")
    parser.add_argument("--lemmas", metavar="MODULE",
                        help="a module with LEMMAS (default: the system's own, if it is built in)")
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="cutoff",
                        help="a propositional question of bounded size, Z3 with quantifiers, or "
                             "both, which must agree (default: cutoff)")
    parser.add_argument("--bmc", metavar="K", type=whole_number,
                        help="look whether a run of at most K steps violates what is not proved")
    parser.add_argument("--suggest", action="store_true",
                        help="look for lemmas that prove the properties, without those it has")
    parser.add_argument("--export", metavar="DIR",
                        help="write each obligation as SMT-LIB 2 and as DIMACS")
    parser.add_argument("--timeout", metavar="S", type=whole_number, default=TIMEOUT_S,
                        help=f"seconds for one question (default: {TIMEOUT_S})")
    parser.add_argument("--workers", metavar="N", type=whole_number, default=os.cpu_count() or 1,
                        help="processes (default: one a core)")
    parser.add_argument("--no-cache", action="store_true",
                        help="prove anew what has been proved before")
    parser.add_argument("--json", metavar="FILE|-", help="write the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Prove one system, or the hand-over; returns the exit status."""
    check_targets([arguments.json])
    named = arguments.system is not None
    names = [arguments.system] if named else HAND_OVER
    subjects = [subject(name, arguments.lemmas) for name in names]
    if arguments.suggest:
        return max(_suggest(one, arguments) for one in subjects)
    statuses, results = [], []
    for one in subjects:
        proof = _proof(one, arguments)
        statuses.append(exit_status(proof))
        results.append(to_json(one, proof))
        if arguments.json != STANDARD_OUTPUT:
            with console() as drawn:
                _tell(one, proof, drawn, arguments)
        if arguments.export:
            _export(one, proof, Path(arguments.export), several=not named)
    if arguments.json:
        write(json.dumps(results[0] if named else results, indent=2), arguments.json)
    # What is refuted says more than what is unknown.
    return 1 if 1 in statuses else max(statuses)


def subject(name: str, module: str | None = None) -> Subject:
    """The system of that name, with its own lemmas or those of another module."""
    system = load(name)
    found = module or LEMMAS.get(name)
    if found is None:
        return Subject(system, (), {})
    try:
        held = vars(importlib.import_module(found))
    except ModuleNotFoundError as error:
        raise UsageError(f"--lemmas {found}: {error}") from error
    lemmas, assumed = held.get("LEMMAS"), held.get("ASSUMED", {})
    if not isinstance(lemmas, tuple) or not all(isinstance(lemma, Always) for lemma in lemmas):
        raise UsageError(f"--lemmas {found}: want LEMMAS, a tuple of Always")
    axioms = {**system.axioms, **assumed}
    return Subject(replace(system, axioms=axioms), lemmas, assumed)


def _proof(one: Subject, arguments: argparse.Namespace) -> Proof:
    wanted = tuple(name for group in arguments.properties for name in group)
    known = [claim.name for claim in one.claims]
    for name in wanted:
        if name not in known:
            have = ", ".join(known)
            raise UsageError(f"{one.system.name} has no safety property {name!r}; it has: {have}")
    engines = tuple(ENGINES) if arguments.engine == "both" else (arguments.engine,)
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        return prove(one.system, obligations(one.system, one.claims, wanted=wanted), Settings(
            engines=engines,
            timeout_s=arguments.timeout,
            workers=arguments.workers,
            cache_folder=None if arguments.no_cache else _cache_folder(),
            monitor=reporter.line,
            slow=lambda name, seconds: reporter.say(f"slow: {name} took {seconds:.1f} s"),
        ))


def _suggest(one: Subject, arguments: argparse.Namespace) -> int:
    """Print lemmas that suffice; 0 if there are, 3 if none were found."""
    from pdproto.check.prove.suggest import suggest  # noqa: PLC0415 - rarely asked for

    try:
        found = suggest(one.system, arguments.timeout)
    except ValueError as error:
        raise UsageError(f"{one.system.name}: {error}") from error
    lemmas = [formula_text(lemma) for lemma in found.lemmas]
    result = {
        "system": one.system.name,
        "proved": found.proved,
        "literals": found.tried,
        "true": found.true,
        "inductive": found.kept,
        "lemmas": lemmas,
    }
    if arguments.json != STANDARD_OUTPUT:
        with console() as drawn:
            word = "proved by" if found.proved else "not proved by"
            drawn.print(
                f"{one.system.name}: {word} {found.kept} inductive clauses of {found.true} that "
                f"hold in small instances", markup=False, highlight=False, soft_wrap=True,
            )
            for line in lemmas:
                drawn.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if arguments.json:
        write(json.dumps(result, indent=2), arguments.json)
    return 0 if found.proved else 3


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pdproto" / "proofs"


def exit_status(proof: Proof) -> int:
    """0 all proved, 1 something fails, 3 something is unknown."""
    found = {proof.status(obligation) for obligation in proof.obligations}
    if Status.FAILED in found:
        return 1
    return 0 if found <= {Status.PROVED} else 3


def to_json(one: Subject, proof: Proof) -> dict[str, Any]:
    """The result for machines."""
    by_status: dict[Status, list[dict[str, str]]] = {status: [] for status in Status}
    for obligation in proof.obligations:
        by_status[proof.status(obligation)].append({
            "property": obligation.claim.name,
            "row": obligation.scope,
            "scope": obligation.layer or "protocol",
        })
    return {
        "system": one.system.name,
        "obligations": len(proof.obligations),
        "proved": len(by_status[Status.PROVED]),
        "failed": by_status[Status.FAILED],
        "unknown": by_status[Status.UNKNOWN] + by_status[Status.REFUSED],
        "assumed": {name: formula_text(axiom) for name, axiom in one.system.axioms.items()},
        "lemmas": [lemma.name for lemma in one.lemmas],
        "engines": sorted({outcome.engine for outcome in proof.outcomes}),
        "seconds": round(proof.seconds, 2),
        "z3": VERSION,
    }


def _tell(
    one: Subject, proof: Proof, drawn: Console, arguments: argparse.Namespace
) -> None:
    """The verdict on every claim, and for what fails a step that breaks it."""
    result = to_json(one, proof)
    drawn.print(
        f"{one.system.name}: {result['proved']} of {result['obligations']} obligations proved, "
        f"{len(result['failed'])} failed, {len(result['unknown'])} unknown, "
        f"{proof.seconds:.1f} s ({', '.join(result['engines'])}; Z3 {VERSION})",
        markup=False, highlight=False, soft_wrap=True,
    )
    for name, axiom in one.system.axioms.items():
        drawn.print(f"  assumed   {name}: {formula_text(axiom)}", markup=False, highlight=False,
                    soft_wrap=True)
    for claim in one.claims:
        mine = [o for o in proof.obligations if o.claim.name == claim.name]
        if mine or not arguments.properties:
            drawn.print(_line(claim, mine, proof), markup=False, highlight=False, soft_wrap=True)
    broken = [o for o in proof.obligations if proof.status(o) is Status.FAILED]
    for obligation in broken[:DRAWN_MAX]:
        _draw(one, obligation, drawn, arguments)


def _line(claim: Claim, mine: Sequence[Obligation], proof: Proof) -> str:
    kind = "lemma " if claim.is_lemma else ""
    if not mine:
        return f"  proved    {claim.name}: for all sizes (no row can break it)"
    open_ones = [o for o in mine if proof.status(o) is not Status.PROVED]
    if not open_ones:
        return f"  proved    {kind}{claim.name}: for all sizes ({len(mine)} obligations)"
    word = "failed" if any(proof.status(o) is Status.FAILED for o in open_ones) else "unknown"
    notes = [
        outcome.judgement.note for outcome in proof.outcomes
        if outcome.judgement.note and any(outcome.obligation is o for o in open_ones)
    ]
    at = ", ".join(o.scope for o in open_ones)
    return f"  {word:8}  {kind}{claim.name}: at {at}" + (f" ({notes[0]})" if notes else "")


def _draw(
    one: Subject, obligation: Obligation, drawn: Console, arguments: argparse.Namespace
) -> None:
    """The smallest state from which the row breaks the claim, and the step."""
    found = counterexample(one.system, obligation, arguments.timeout)
    if found is None:
        return
    sizes = " ".join(f"{sort.__name__}={size}" for sort, size in found.sizes.items())
    drawn.print(
        f"\n{obligation.name} is not inductive: in this state every claim holds, and the row "
        f"breaks this one ({sizes})\n{formula_text(obligation.claim.formula)}\n"
        f"{obligation.claim.place}\n{_reached(one.system, obligation, arguments)}",
        markup=False, highlight=False, soft_wrap=True,
    )
    finding = Finding(
        obligation.claim.name, Kind.ALWAYS, "", Verdict.VIOLATED, "", obligation.claim.place,
        trace=found.trace,
    )
    for line in draw(finding, drawn):
        drawn.print(line, no_wrap=True, overflow="ignore", crop=False)


def _reached(system: System, obligation: Obligation, arguments: argparse.Namespace) -> str:
    """Whether a short run gets there: then it is a defect, and otherwise a lemma may be missing."""
    configuration = system.configurations.get("default")
    if arguments.bmc is None or configuration is None or obligation.claim.is_lemma:
        return "the state need not be reachable: then a lemma is missing (--bmc K looks)"
    from pdproto.check.bmc import bounded  # noqa: PLC0415 - most runs need no second opinion

    name = obligation.claim.name
    result = bounded(system, configuration, arguments.bmc, properties=(name,))
    if any(f.name == name and f.verdict is Verdict.VIOLATED for f in result.findings):
        return f"a run of {result.depth} steps violates it: this is a defect"
    return f"no run of up to {result.depth} steps violates it: perhaps a lemma is missing"


def _export(one: Subject, proof: Proof, folder: Path, *, several: bool) -> None:
    target = folder / one.system.name if several else folder
    target.mkdir(parents=True, exist_ok=True)
    for obligation in proof.obligations:
        try:
            for certificate in certificates(one.system, obligation):
                (target / certificate.name).write_text(certificate.text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write in {str(target)!r}: {error.strerror}") from error
