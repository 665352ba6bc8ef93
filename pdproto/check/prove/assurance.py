"""Records which properties of a system are proved for every size, so that a check can report them.

`pdproto prove` writes the names of proved properties into a file. The name of the file is a digest
of everything on which the proofs depend: the tables with their fault layers, the properties, the
axioms, and the prover's own text. `pdproto check` computes the same digest of its system, so a
changed table is never called proved.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import MONOTONE, Method, rows
from pdproto.check.prove.solver_version import solver_version
from pdproto.check.result import CheckResult, Verdict
from pdproto.check.store import Store
from pdproto.check.user_cache import PROOFS, user_cache
from pdproto.check.words import effect_text, formula_text, update_text
from pdproto.spec.language.formula import Formula, normal
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Sometimes
from pdproto.spec.language.system import System

if TYPE_CHECKING:  # it needs the solver, which takes long to import
    from pdproto.check.prove.proving import Proof

def cache_folder() -> Path:
    """The folder of this user's records."""
    return user_cache(PROOFS)


def remember(
    folder: Path, system: System, proof: "Proof", words: Mapping[str, str] | None = None
) -> None:
    """Record the properties whose obligations are all proved.

    words: by property, the text of its proof, if it assumes more than the axioms.
    """
    told = {name: (words or {}).get(name) or in_words(system) for name in _proved(proof)}
    known = {**recall(folder, system), **told}
    store = Store(folder)
    store.keep(_name(system), dict(sorted(known.items())))
    store.make_room()


def recall(folder: Path, system: System) -> Mapping[str, str]:
    """The recorded properties of the system, each with the text of its proof and assumptions."""
    return Store(folder).read(_name(system), dict[str, str]) or {}


def with_assurance(folder: Path, system: System, result: CheckResult) -> CheckResult:
    """The result, where each property that holds also says whether it is recorded as proved."""
    proved = recall(folder, system)
    return replace(result, findings=tuple(
        replace(finding, assurance=f"{finding.assurance}; {proved[finding.name]}")
        if finding.name in proved and finding.verdict is Verdict.HOLDS else finding
        for finding in result.findings
    ))


def in_words(
    system: System,
    *,
    where: Sequence[str] = (),
    without: Sequence[str] = (),
    assumed: Mapping[str, Formula] | None = None,
) -> str:
    """The text of a proof, with all its assumptions.

    where: the assumptions of fairness, of which one suffices. without: layers of faults that do
    not happen. assumed: formulas in addition to the axioms.
    """
    text = "proved for every size"
    if where:
        text += f" where {' or '.join(where)}"
    if without:
        text += f", in runs without {' and '.join(without)} faults"
    every = {**system.axioms, **(assumed or {})}
    if every:
        said = "; ".join(f"{name}: {formula_text(formula)}" for name, formula in every.items())
        text += f", assuming {said}"
    return text


def _proved(proof: "Proof") -> frozenset[str]:
    """The claims whose obligations are all proved; for a `leads_to`, also the monotone predicates.

    Empty if an assumed claim is not proved itself.
    """
    proved: dict[str, bool] = {}
    assumed: set[str] = set()
    ranked: set[str] = set()
    for obligation in proof.obligations:
        is_proved = proof.status(obligation) is Status.PROVED
        for name in {obligation.claim.name, obligation.claim.part_of or obligation.claim.name}:
            proved[name] = proved.get(name, True) and is_proved
        assumed |= {claim.name for claim in obligation.sequent.assumed}
        if obligation.claim.method is Method.RANKING:
            ranked.add(obligation.claim.part_of)
    if not all(proved.get(name, False) for name in assumed):
        return frozenset()
    unkept = ranked if not proved.get(MONOTONE, True) else frozenset()
    return frozenset(name for name, whole in proved.items() if whole and name not in unkept)


def _name(system: System) -> str:
    modules = sorted(Path(__file__).parent.glob("*.py"))
    prover = (path.read_text(encoding="utf-8") for path in modules)
    text = "\n".join((solver_version(), *prover, *_text(system)))
    return hashlib.sha256(text.encode()).hexdigest()


def _text(system: System) -> Iterator[str]:
    """The text of everything on which a proof of the system depends."""
    for sort in system.sorts:
        yield f"{sort.__name__} {sort.ordered}"
    for symbol in (*system.variables, *system.rigids):
        yield f"{symbol.signature} {symbol.values}"
    for axiom in system.axioms.values():
        yield formula_text(normal(axiom))
    for table, row, layer in rows(system):
        yield f"{table.machine.name} {row.name} {row.kind} {row.fair} {layer}"
        yield formula_text(normal(table.guard(row)))
        yield from (update_text(update) for update in table.updates(row))
        yield from (effect_text(effect) for effect in row.send)
    for claim in system.properties:
        match claim:
            case Always():
                yield f"{claim.name} {formula_text(claim.claim)} {claim.by}"
            case Sometimes():
                yield f"{claim.name} {formula_text(claim.claim)}"
            case OnRow():
                yield f"{claim.name} {claim.row} {formula_text(claim.claim)}"
            case LeadsTo():
                yield f"{claim.name} {formula_text(claim.premise)} {formula_text(claim.goal)}"
