"""Prove that the properties of a system hold for any number of elements of its sorts.

Without SYSTEM, it proves the systems of the hand-over whose tables processes run: registry and its
replicas, bootstrap, binding, transfer and agreement, optimistic prefill of one rank, incarnations
and drain. The composed systems, and optimistic prefill of a group, are proved by their names.

Each safety property must hold at the start, and every row must preserve it, also the fault rows.
Lemmas help, and are proved together with the property. The axioms are assumed, and must be
satisfiable together. A failure is shown as a step that breaks the property. If the state before the
step is unreachable, a lemma is missing; `--bmc K` searches for a run of K steps to a violation.
Every trigger must have exactly one answer. With a ranking, each leads_to is proved too.

A claim is proved with all that its proof rests on: lemmas, other properties, edges, rankings. Of
one that rests on a claim that is not proved it says "proved, if ... holds". Every size means from 1
on: each sort has at least one element.

Exit status: 0 all proved, beside each leads_to without a ranking, which it names, 1 something
fails, 2 usage or spec error, 3 unknown, or there is nothing to prove, 4 internal error.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pdproto.check.executor_tasks import ExecutorMaker
from pdproto.check.prove.assurance import cache_folder, remember
from pdproto.check.prove.certificates import certificates, is_certificate
from pdproto.check.prove.inherited import surviving
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.judging import judged
from pdproto.check.prove.proving import (
    CUTOFF,
    ENGINES,
    Proof,
    ProofSettings,
    prove,
)
from pdproto.check.prove.refutation import Refutation, refutations
from pdproto.check.prove.shared import (
    SharedProof,
    digest_of,
    merged_proof,
    shared_proof,
    task_of,
)
from pdproto.check.prove.spread import SpreadProof
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.suggest import Suggestion, pasteable, suggest
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.report.narration import counted
from pdproto.check.report.progress import Reporter
from pdproto.check.report.proofs import tell, to_json
from pdproto.check.shards import Merged, Shard
from pdproto.check.words import formula_text
from pdproto.cli import proved_before
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_lemmas,
    add_system,
    check_folder,
    check_targets,
    console,
    fault_layers,
    remove,
    whole_number,
    write,
)
from pdproto.cli.sharding import add_shard, keep_answers, merged_run, shard
from pdproto.cli.systems import files_of_a_run, subject
from pdproto.cli.workers import add_workers, executor
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.system import System

__all__ = ["ProofSubject", "configure", "run", "subject"]

RUN_BY_PROCESSES: Final = tuple(entry.name for entry in CATALOGUE if entry.runs)
TIMEOUT_S: Final = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto prove`."""
    add_system(parser, left_out="the tables that processes run")
    parser.add_argument("--property", metavar="NAME", action="append", nargs="+", default=[],
                        dest="properties", help="prove these properties and lemmas only")
    add_lemmas(parser)
    parser.add_argument("--faults", metavar="LAYER", action="append", nargs="+", default=[],
                        help="the fault layers under which to prove; `none` for no faults "
                             "(default: all)")
    parser.add_argument("--engine", choices=[*ENGINES, "both"],
                        help="a propositional formula of bounded size (cutoff), Z3 with "
                             "quantifiers, or both, which must agree (default: cutoff, and "
                             "quantified where cutoff cannot decide)")
    parser.add_argument("--bmc", metavar="K", type=whole_number,
                        help="search for a run of at most K steps that violates an unproved claim")
    parser.add_argument("--suggest", action="store_true",
                        help="search for lemmas that prove the properties; ignores existing lemmas")
    parser.add_argument("--export", metavar="DIR",
                        help="write each obligation as SMT-LIB 2 and as DIMACS")
    parser.add_argument("--timeout", metavar="S", type=whole_number, default=TIMEOUT_S,
                        help=f"seconds for one question (default: {TIMEOUT_S})")
    add_workers(parser, "processes (default: one for each core)")
    add_shard(parser)
    parser.add_argument("--no-cache", action="store_true",
                        help="neither read nor write proofs of earlier runs")
    parser.add_argument("--json", metavar="FILE|-", help="write the result as JSON")
    parser.add_argument("--html", metavar="FILE|-",
                        help="write a page with each claim, and the step that breaks it as a "
                             "picture")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Prove one system, or those that processes run; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([arguments.json, arguments.html])
    check_folder(arguments.export)
    for earlier in files_of_a_run(Path(arguments.export)) if arguments.export else ():
        if is_certificate(earlier):  # perhaps of other tables
            remove(earlier)
    _refuse_page_of_several(arguments)
    part = shard(arguments)
    spread = executor(arguments)
    known = proved_before.recall(arguments)
    if known is not None:
        return _recalled(known, arguments)
    subjects = _subjects(arguments)
    if arguments.suggest:
        if part is not None:
            raise UsageError("--shard divides obligations, and --suggest has none")
        return max(_suggest(one, arguments) for _, one in subjects)
    proofs: list[Verdicts] = []
    for load, one in subjects:
        proofs.append(_proof(load, one, arguments, spread, part))
        if part is None:
            _tell(proofs[-1], arguments)
        if proofs[-1].proof.interrupted:
            break
    if part is not None:
        answers = [shared_proof(found.one, found.proof) for found in proofs]
        told = {found.proof.status(o) for found in proofs for o in found.proof.obligations}
        return keep_answers(arguments, answers, _status(proofs), tables=_tables(subjects),
                            unknown="a part proves nothing" if told <= {Status.PROVED} else
                            "some obligations are unknown here")
    status = _report(proofs, arguments)
    if not status:
        proved_before.keep(arguments, proofs)
    return status


def _recalled(known: proved_before.KeptReport, arguments: argparse.Namespace) -> int:
    """Print the report of an earlier run, in which everything was proved."""
    if arguments.json != STANDARD_OUTPUT:
        write(f"{known.text}from an earlier run: nothing has changed", STANDARD_OUTPUT)
    _write_json(known.results, arguments)
    return 0


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the proofs of shards as one; returns the exit status."""
    _refuse_page_of_several(arguments)
    subjects = _subjects(arguments)
    answers.require_tables(_tables(subjects))
    shared = answers.answers(SharedProof)
    wanted = _wanted(arguments)
    proofs = [Verdicts(*merged_proof(one, wanted, shared, answers.lacking), wanted)
              for _, one in subjects]
    for found in proofs:
        _tell(found, arguments)
    return _report(proofs, arguments)


def _refuse_page_of_several(arguments: argparse.Namespace) -> None:
    if arguments.html is not None and (arguments.suggest or arguments.system is None):
        raise UsageError("--html shows the proof of one system: name it, and leave out --suggest")


def _subjects(arguments: argparse.Namespace) -> list[tuple["_Load", ProofSubject]]:
    names = RUN_BY_PROCESSES if arguments.system is None else [arguments.system]
    subjects = []
    for name in names:
        one = subject(name, arguments.lemmas)
        load = _Load(name, arguments.lemmas, fault_layers(one.system, arguments.faults))
        subjects.append((load, load.of(one)))
    return subjects


def _tables(subjects: Sequence[tuple["_Load", ProofSubject]]) -> str:
    return digest_of([one for _, one in subjects])


def _wanted(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name for group in arguments.properties for name in group)


def _tell(found: Verdicts, arguments: argparse.Namespace) -> None:
    system, proof = found.one.system, found.proof
    refuted: Iterable[Refutation] = refutations(
        system, found.failed, arguments.timeout, arguments.bmc)
    if arguments.html is not None:
        refuted = tuple(refuted)
        write(import_module("pdproto.check.report.proof_page").page(found, refuted),
              arguments.html)
    if STANDARD_OUTPUT not in (arguments.json, arguments.html):
        with console() as drawn:
            tell(found, refuted, drawn)
    if arguments.export and not proof.interrupted:
        _export(system, proof, Path(arguments.export), several=arguments.system is None)


def _report(proofs: Sequence[Verdicts], arguments: argparse.Namespace) -> int:
    _write_json([to_json(found) for found in proofs], arguments)
    return _status(proofs)


def _write_json(results: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> None:
    if arguments.json:
        whole = results if arguments.system is None else results[0]
        write(json.dumps(whole, indent=2), arguments.json)


def _status(proofs: Sequence[Verdicts]) -> int:
    statuses = [found.exit_status for found in proofs]
    # A refuted claim is more important than an unknown one.
    return 1 if 1 in statuses else max(statuses)


@dataclass(frozen=True, slots=True)
class _Load:
    """Loads a subject by its name, also in a worker. layers: of faults; None for all.

    broken: the lemmas that it leaves out.
    """

    name: str
    lemmas: str | None
    layers: tuple[str, ...] | None
    broken: tuple[str, ...] = ()

    def of(self, one: ProofSubject) -> ProofSubject:
        """The subject of that name with these layers, without the broken lemmas."""
        kept = tuple(lemma for lemma in one.lemmas if lemma.name not in self.broken)
        one = replace(one, lemmas=kept, broken=self.broken)
        return one if self.layers is None else one.under(self.layers)

    def __call__(self) -> ProofSubject:
        return self.of(subject(self.name, self.lemmas))


def _proof(
    load: _Load, one: ProofSubject, arguments: argparse.Namespace, spread: ExecutorMaker | None,
    part: Shard | None,
) -> Verdicts:
    """The verdicts on the subject, with the lemmas that the proof uses.

    part: proves only the obligations of this shard.
    """
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        folder = None if arguments.no_cache else cache_folder()
        settings = ProofSettings(
            engines=_engines(arguments),
            timeout_s=arguments.timeout,
            workers=arguments.workers,
            cache_folder=folder,
            monitor=reporter.line,
            slow=lambda name, seconds: reporter.remark(f"slow: {name} took {seconds:.1f} s"),
        )
        if one.lemmas_of:
            one = surviving(one, lambda asked: prove(one.system, asked, settings))
        if spread is not None:
            decide = SpreadProof(spread, replace(load, broken=one.broken))
            settings = replace(settings, decide=decide)
        found = judged(
            one, settings, _wanted(arguments), helped=arguments.engine is None,
            part=None if part is None else lambda o: part.has(task_of(one, o)))
    if folder is not None and part is None:
        remember(folder, found)
    return found


def _engines(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.engine is None:
        return (CUTOFF,)
    return tuple(ENGINES) if arguments.engine == "both" else (arguments.engine,)


def _suggest(one: ProofSubject, arguments: argparse.Namespace) -> int:
    """Print lemmas that suffice (status 0), or else all inductive clauses (status 3)."""
    try:
        found = suggest(one.system, ProofSettings(
            timeout_s=arguments.timeout, workers=arguments.workers))
    except ValueError as error:
        raise UsageError(f"{one.system.name}: {error}") from error
    told = found.lemmas if found.proved else found.inductive
    result = {
        "system": one.system.name,
        "proved": found.proved,
        "assumed": {name: formula_text(axiom) for name, axiom in one.system.axioms.items()},
        "literals": found.tried,
        "true": found.true,
        "inductive": found.kept,
        "unproved": list(found.unproved),
        "stopped": found.stopped,
        "lemmas": [formula_text(lemma) for lemma in found.lemmas],
        "text": pasteable(told),
    }
    if arguments.json != STANDARD_OUTPUT:
        with console() as drawn:
            for line in _suggested(one.system, found):
                drawn.print(line, markup=False, highlight=False, soft_wrap=True)
            drawn.print(result["text"], markup=False, highlight=False, soft_wrap=True, end="")
    if arguments.json:
        write(json.dumps(result, indent=2), arguments.json)
    return 0 if found.proved else 3


def _suggested(system: System, found: Suggestion) -> Iterator[str]:
    """The lines about the search, which come before the lemmas."""
    word = "proved by" if found.proved else "not proved by"
    yield (f"{system.name}: {word} {found.kept} inductive clauses of {found.true} that hold in "
           f"small instances")
    if found.stopped:
        yield f"  unknown   no suggestion with {found.stopped}"
    for name, axiom in system.axioms.items():
        yield f"  assumed   {name}: {formula_text(axiom)}"
    for claim in system.properties:
        if isinstance(claim, LeadsTo):
            yield f"  not asked {claim.name}: it needs a ranking, of which no lemma is a part"
    if found.proved and not found.lemmas:
        yield "# It needs no lemma: `pdproto prove` proves it as it is"
        return
    if found.proved:
        yield f"# {counted(len(found.lemmas), 'lemma')} to put beside the system:"
        return
    yield f"  unproved  {', '.join(found.unproved)}"
    yield f"# `pdproto prove` proves these {found.kept}, but not the above with them:"


def _export(system: System, proof: Proof, folder: Path, *, several: bool) -> None:
    target = folder / system.name if several else folder
    target.mkdir(parents=True, exist_ok=True)
    for certificate in certificates(system, proof.obligations):
        write(certificate.text, str(target / certificate.name))
