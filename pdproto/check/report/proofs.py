"""The result of `pdproto prove`, as lines and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from pdproto.check.prove.fair_rows import proved_under
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import MONOTONE, Claim, Method, Obligation
from pdproto.check.prove.proving import EngineAnswer, Proof
from pdproto.check.prove.refutation import BoundedRuns, Refutation
from pdproto.check.prove.sat import VERSION
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.report.narration import counted
from pdproto.check.report.picture import draw
from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.check.words import formula_text
from pdproto.spec.language.properties import LeadsTo

EXPLORED: Final = "explored"  # a leads_to without a ranking


@dataclass(frozen=True, slots=True)
class Promise:
    """The assurance of a `leads_to`.

    obligations: the number of its own; it also depends on every safety claim. under: the
    assumptions under which it is proved. explored_under: those under which only the explorer checks
    it. without: fault layers that are excluded.
    """

    property: str
    status: str
    obligations: int
    under: tuple[str, ...]
    explored_under: tuple[str, ...]
    assumed: Mapping[str, str]
    without: tuple[str, ...] = ()


def exit_status(proof: Proof) -> int:
    """The exit status: 0 all proved, 1 something fails, 3 something is unknown."""
    found = {proof.status(obligation) for obligation in proof.obligations}
    if Status.FAILED in found:
        return 1
    return 0 if found <= {Status.PROVED} and proof.from_possible_axioms else 3


def promises(one: ProofSubject, proof: Proof) -> Iterator[Promise]:
    """Each `leads_to` with obligations in the proof; all, if the proof is of everything."""
    rankings = {ranking.leads_to: ranking for ranking in one.every_ranking}
    without = {ranking.leads_to: one.fault_free.without for ranking in one.fault_free.rankings}
    parts = _parts(proof)
    base = [o for o in proof.obligations if o.claim.part_of in ("", MONOTONE)]
    # Every claim about every state has an obligation without a row.
    always = {claim.name for claim in one.claims if claim.holds_always}
    asked_for_all = always <= {o.claim.name for o in base}
    for claim in one.system.properties:
        if not isinstance(claim, LeadsTo):
            continue
        mine = parts.get(claim.name, [])
        if mine:
            proved = proved_under(claim)
            yield Promise(
                claim.name, _word([*mine, *base], proof), len(mine), tuple(proved),
                tuple(f for f in claim.under if f not in proved),
                {name: formula_text(formula)
                 for name, formula in rankings[claim.name].assumed.items()},
                without.get(claim.name, ()),
            )
        elif claim.name not in rankings and asked_for_all:
            yield Promise(claim.name, EXPLORED, 0, (), tuple(claim.under), {})


def answers(proof: Proof) -> dict[str, str]:
    """By machine, whether every trigger has exactly one answer."""
    return {
        part: _word(mine, proof) for part, mine in _parts(proof).items()
        if mine[0].claim.method is Method.COVERAGE
    }


def _parts(proof: Proof) -> dict[str, list[Obligation]]:
    """The obligations of each group."""
    found: dict[str, list[Obligation]] = {}
    for obligation in proof.obligations:
        if obligation.claim.part_of:
            found.setdefault(obligation.claim.part_of, []).append(obligation)
    return found


def _word(found: Sequence[Obligation], proof: Proof) -> str:
    statuses = {proof.status(obligation) for obligation in found}
    if statuses <= {Status.PROVED}:
        return "proved"
    return "failed" if Status.FAILED in statuses else "unknown"


def to_json(one: ProofSubject, proof: Proof) -> dict[str, Any]:
    """The result as JSON values."""
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
        "assumed_is_possible": proof.axioms.status,
        "lemmas": [claim.name for claim in one.fault_free_claims if claim.is_lemma],
        "without_faults": list(one.without),
        "lemmas_of": one.lemmas_of,
        "lemmas_broken": list(one.broken),
        "answers": answers(proof),
        "leads_to": [asdict(promise) for promise in promises(one, proof)],
        "engines": sorted({outcome.engine for outcome in proof.outcomes}),
        "decided_by_second_engine": [o.obligation.name for o in _second(proof)],
        "interrupted": proof.interrupted,
        "seconds": round(proof.seconds, 2),
        "z3": VERSION,
    }


def _second(proof: Proof) -> list[EngineAnswer]:
    """The verdicts of a second engine, where the first one had none."""
    return [outcome for outcome in proof.outcomes if outcome.instead_of]


def tell(
    one: ProofSubject,
    proof: Proof,
    refuted: Iterable[Refutation],
    drawn: Console,
    *,
    everything: bool,
) -> None:
    """Print the verdict on every claim, and for each refutation the step that breaks the claim.

    everything: also print claims that no obligation was asked for.
    """
    for line in _lines(one, proof, everything=everything):
        drawn.print(line, markup=False, highlight=False, soft_wrap=True)
    for refutation in refuted:
        _draw(refutation, drawn)


def _lines(one: ProofSubject, proof: Proof, *, everything: bool) -> Iterator[str]:
    result = to_json(one, proof)
    yield (
        f"{one.system.name}: {result['proved']} of {result['obligations']} obligations proved, "
        f"{len(result['failed'])} failed, {len(result['unknown'])} unknown, "
        f"{proof.seconds:.1f} s ({', '.join(result['engines'])}; Z3 {VERSION})"
    )
    for name, axiom in one.system.axioms.items():
        yield f"  assumed   {name}: {formula_text(axiom)}"
    if one.without:
        yield f"  assumed   there are no {' and no '.join(one.without)} faults"
    if one.lemmas_of:
        yield (f"  lemmas    {len(one.lemmas)} of {one.lemmas_of}, of which this is an edit"
               f"{'; broken: ' if one.broken else ''}{', '.join(one.broken)}")
    if proof.interrupted:
        yield "  interrupted: obligations without an answer are unknown"
    if not proof.from_possible_axioms:
        yield (f"  unknown   whether the assumptions can hold together, so nothing counts as "
               f"proved ({proof.axioms.note})")
    second = _second(proof)
    if second:
        why = second[0].instead_of.partition("; ")[0]
        yield (f"  engine    Z3 with quantifiers answered {len(second)} obligations that the "
               f"cut-off left open, such as {second[0].obligation.name}: {why}")
    every = {claim.name for claim in one.every_claim}
    for claim in one.fault_free_claims:
        mine = [o for o in proof.obligations if o.claim.name == claim.name]
        if mine or everything:
            spared = () if claim.name in every else one.fault_free.without
            yield _line(claim, mine, proof) + _without(spared)
    for part, found in _parts(proof).items():
        if found[0].claim.method is Method.COVERAGE:
            yield _part(part, found, proof, "one answer to every trigger")
        elif part == MONOTONE:
            yield _part(part, found, proof, "nothing takes them back")
    for promise in promises(one, proof):
        yield from _promised(promise, _parts(proof).get(promise.property, []), proof)


def _line(claim: Claim, mine: Sequence[Obligation], proof: Proof) -> str:
    kind = "lemma " if claim.is_lemma else ""
    if not mine:
        return f"  proved    {claim.name}: for all sizes (no row can break it)"
    open_ones = [o for o in mine if proof.status(o) is not Status.PROVED]
    if not open_ones:
        return f"  proved    {kind}{claim.name}: for all sizes ({counted(len(mine), 'obligation')})"
    at = ", ".join(o.scope for o in open_ones)
    word = _word(mine, proof)
    return f"  {word:8}  {kind}{claim.name}: at {at}{_reason(open_ones, proof)}"


def _reason(open_ones: Sequence[Obligation], proof: Proof) -> str:
    """Why one of them has no verdict: the note of an engine, or that the engines disagree."""
    for obligation in open_ones:
        said = [o for o in proof.outcomes if o.obligation is obligation]
        for outcome in said:
            if outcome.judgement.note:
                return f" ({outcome.judgement.note})"
        if len({outcome.judgement.status for outcome in said}) > 1:
            verdicts = ", ".join(f"{o.engine}: {o.judgement.status}" for o in said)
            return f" (the engines contradict each other: {verdicts})"
    if not proof.from_possible_axioms:
        return f" ({proof.axioms.note})"
    return ""


def _without(layers: Sequence[str]) -> str:
    return f", in runs without {' and '.join(layers)} faults" if layers else ""


def _part(part: str, mine: Sequence[Obligation], proof: Proof, told: str) -> str:
    word = _word(mine, proof)
    if word == "proved":
        return f"  proved    {part}: {told}, for all sizes ({counted(len(mine), 'obligation')})"
    return f"  {word:8}  {part}: {_open(mine, proof)}"


def _open(found: Sequence[Obligation], proof: Proof) -> str:
    """The obligations that are not proved, with the reason if there is no verdict."""
    left = [o for o in found if proof.status(o) is not Status.PROVED]
    return "; ".join(o.name for o in left) + _reason(left, proof)


def _promised(promise: Promise, mine: Sequence[Obligation], proof: Proof) -> Iterator[str]:
    if promise.status == EXPLORED:
        yield (f"  explored  {promise.property}: it has no ranking, and `pdproto check` is exact "
               f"at the sizes given")
        return
    own = _open(mine, proof)
    if promise.status == "proved":
        told = f"for all sizes, where {' or '.join(promise.under)} ({promise.obligations} " \
               f"obligations, beside what is safe){_without(promise.without)}"
    else:
        told = own or "its own obligations are met, but claims that they assume are not proved"
    yield f"  {promise.status:8}  {promise.property}: {told}"
    for name, formula in promise.assumed.items():
        yield f"    assumed  {name}: {formula}"
    if promise.explored_under:
        yield f"    explored only where {' or '.join(promise.explored_under)}"


def _draw(one: Refutation, drawn: Console) -> None:
    """Print the state and the step that break a claim."""
    obligation, found = one.obligation, one.found
    if found is None:
        drawn.print(f"\n{obligation.name} fails, as Z3 with quantifiers says; no smallest state "
                    f"that shows it was found to draw", markup=False, highlight=False,
                    soft_wrap=True)
        return
    sizes = " ".join(f"{sort.__name__}={size}" for sort, size in found.sizes.items())
    claim = obligation.claim
    drawn.print(
        f"\n{obligation.name} {failure(obligation)} ({sizes})\n"
        f"{claim.why + chr(10) if claim.part_of and claim.why else ''}"
        f"{formula_text(claim.formula)}\n"
        f"{claim.place}\n{reached(one)}",
        markup=False, highlight=False, soft_wrap=True,
    )
    finding = Finding(
        claim.name, PropertyKind.ALWAYS, "", Verdict.VIOLATED, "", claim.place, trace=found.trace,
    )
    for line in draw(finding, drawn):
        drawn.print(line, no_wrap=True, overflow="ignore", crop=False)


def failure(obligation: Obligation) -> str:
    if obligation.claim.by:
        return f"does not follow from {', '.join(obligation.claim.by)}: in this state it fails"
    if obligation.claim.part_of:
        return "is not met: in this state all its assumptions hold, but it does not"
    return "is not inductive: in this state every claim holds, but the row breaks this one"


def reached(one: Refutation) -> str:
    """Whether a short run violates the claim (a defect), or a lemma may be missing."""
    match one.run:
        case None if one.obligation.claim.by:
            return "if the state is unreachable, one of these claims is too weak"
        case None:
            how = "`pdproto check`" if one.obligation.claim.part_of else "--bmc K"
            return (f"if the state is unreachable, a lemma is missing ({how} searches for a "
                    f"violating run)")
        case BoundedRuns(steps, violates=True):
            return f"a run of {steps} steps violates it: this is a defect"
        case BoundedRuns(steps):
            return f"no run of up to {steps} steps violates it: perhaps a lemma is missing"
