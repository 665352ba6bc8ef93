"""The result of `pdproto prove`, as lines and as JSON: the verdicts of verdicts.py in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from pdproto.check.prove.fair_rows import proved_under
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import MONOTONE, START, Claim, Method, Obligation
from pdproto.check.prove.proving import EngineAnswer, Proof
from pdproto.check.prove.refutation import BoundedRuns, Refutation
from pdproto.check.prove.sat import VERSION
from pdproto.check.prove.verdicts import UnitStatus, UnitVerdict, Verdicts
from pdproto.check.report.narration import counted
from pdproto.check.report.picture import draw
from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.check.words import assumption_texts, formula_text
from pdproto.ground.layout import at_sizes
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.symbols import Sizes

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


def promises(found: Verdicts) -> Iterator[Promise]:
    """Each `leads_to` that was asked for."""
    one = found.one
    rankings = {ranking.leads_to: ranking for ranking in one.every_ranking}
    without = {ranking.leads_to: one.fault_free.without for ranking in one.fault_free.rankings}
    for claim in one.system.properties:
        if not isinstance(claim, LeadsTo):
            continue
        if claim.name in found.chosen:
            verdict = found.units[claim.name]
            proved = proved_under(claim)
            yield Promise(
                claim.name, verdict.standing, len(verdict.own),
                assumption_texts(one.system, proved),
                assumption_texts(one.system, [f for f in claim.under if f not in proved]),
                {name: formula_text(formula)
                 for name, formula in rankings[claim.name].assumed.items()},
                without.get(claim.name, ()),
            )
        elif claim.name not in rankings and not found.wanted:
            yield Promise(claim.name, EXPLORED, 0, (),
                          assumption_texts(one.system, claim.under), {})


def answers(found: Verdicts) -> dict[str, str]:
    """By machine, whether every trigger has exactly one answer."""
    return {name: found.units[name].standing for name in found.chosen if _is_coverage(found, name)}


def _is_coverage(found: Verdicts, name: str) -> bool:
    return any(o.claim.method is Method.COVERAGE for o in found.units[name].own)


def to_json(found: Verdicts) -> dict[str, Any]:
    """The result as JSON values. failed, unknown: of all obligations that were asked."""
    one, proof = found.one, found.proof
    by_status: dict[Status, list[dict[str, str]]] = {status: [] for status in Status}
    for obligation in proof.obligations:
        by_status[proof.status(obligation)].append({
            "property": obligation.claim.name,
            "row": obligation.scope,
            "scope": obligation.layer or "protocol",
        })
    return {
        "system": one.system.name,
        "verdict": found.verdict,
        "verdicts": {name: found.units[name].standing for name in found.chosen},
        "if": {name: list(unmet) for name in found.chosen if (unmet := found.units[name].unmet)},
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
        "answers": answers(found),
        "leads_to": [asdict(promise) for promise in promises(found)],
        "engines": sorted({outcome.engine for outcome in proof.outcomes}),
        "decided_by_second_engine": [o.obligation.name for o in _second(proof)],
        "interrupted": proof.interrupted,
        "seconds": round(proof.seconds, 2),
        "z3": VERSION,
    }


def _second(proof: Proof) -> list[EngineAnswer]:
    """The verdicts of a second engine, where the first one had none."""
    return [outcome for outcome in proof.outcomes if outcome.instead_of]


def tell(found: Verdicts, refuted: Iterable[Refutation], drawn: Console) -> None:
    """Print the verdict on every claim that was asked for, and on each that is not met; and for
    each refutation the step that breaks the claim.
    """
    for line in _lines(found):
        drawn.print(line, markup=False, highlight=False, soft_wrap=True)
    lacks_a_lemma = False
    for refutation in refuted:
        _draw(refutation, drawn)
        lacks_a_lemma |= refutation.may_lack_a_lemma
    if lacks_a_lemma:
        drawn.print(f"\na lemma is an Always in LEMMAS of {found.one.lemmas_in}",
                    markup=False, highlight=False, soft_wrap=True)


def _lines(found: Verdicts) -> Iterator[str]:
    one, proof = found.one, found.proof
    result = to_json(found)
    yield (
        f"{one.system.name}: {result['proved']} of {result['obligations']} obligations proved, "
        f"{len(result['failed'])} failed, {len(result['unknown'])} unknown, "
        f"{proof.seconds:.1f} s ({', '.join(result['engines'])}; Z3 {VERSION})"
    )
    yield from _premises(found)
    second = _second(proof)
    if second:
        why = second[0].instead_of.partition("; ")[0]
        yield (f"  engine    Z3 with quantifiers answered {len(second)} obligations that the "
               f"cut-off left open, such as {second[0].obligation.name}: {why}")
    yield from _of_units(found)
    for promise in promises(found):
        yield from _promised(promise, found)
    with_them = {*one.closure(found.chosen)} & found.proved - found.told
    if with_them:
        yield f"  proved    {counted(len(with_them), 'other claim')} on which these rest"


def _premises(found: Verdicts) -> Iterator[str]:
    """What the proof assumes, and why it may be incomplete."""
    one, proof = found.one, found.proof
    yield "  assumed   each sort has at least one element"
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


def _of_units(found: Verdicts) -> Iterator[str]:
    told, every = found.told, {claim.name for claim in found.one.every_claim}
    for claim in found.one.fault_free_claims:
        if claim.name in told:
            spared = () if claim.name in every else found.one.fault_free.without
            yield _line(claim, found.of(claim), found.proof) + _without(spared)
    for name in found.units:
        if name in told and _is_coverage(found, name):
            yield _part(found.units[name], found.proof, "one answer to every trigger")
        elif name in told and name == MONOTONE:
            yield _part(found.units[name], found.proof, "nothing takes them back")


def _line(claim: Claim, verdict: UnitVerdict, proof: Proof) -> str:
    kind = "lemma " if claim.is_lemma else ""
    why = counted(len(verdict.own), "obligation") if verdict.own else "no row can break it"
    told = f"for all sizes ({why})"
    if verdict.doubt:
        told = verdict.doubt
    if verdict.open:
        told = f"at {', '.join(o.scope for o in verdict.open)}{_reason(verdict.open, proof)}"
    return f"  {_verdict(verdict, f'{kind}{claim.name}', told)}"


def _verdict(verdict: UnitVerdict, name: str, told: str) -> str:
    """The line of a unit: told if it is proved, or not met; else on which it depends."""
    if verdict.standing is UnitStatus.CONDITIONAL:
        several = len(verdict.unmet) > 1
        return (f"open      {name}: proved, if {', '.join(verdict.unmet)} "
                f"{'hold, which are' if several else 'holds, which is'} not proved")
    return f"{verdict.standing:8}  {name}: {told}"


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


def _part(verdict: UnitVerdict, proof: Proof, told: str) -> str:
    said = f"{told}, for all sizes ({counted(len(verdict.own), 'obligation')})"
    return f"  {_verdict(verdict, verdict.name, _open(verdict, proof) or said)}"


def _open(verdict: UnitVerdict, proof: Proof) -> str:
    """The obligations that are not proved, with the reason if there is no verdict."""
    return "; ".join(o.name for o in verdict.open) + _reason(verdict.open, proof)


def _promised(promise: Promise, found: Verdicts) -> Iterator[str]:
    if promise.status == EXPLORED:
        yield (f"  explored  {promise.property}: it has no ranking, and `pdproto check` is exact "
               f"at the sizes given")
        return
    verdict = found.units[promise.property]
    told = (f"for all sizes, where {' or '.join(promise.under)} ({promise.obligations} "
            f"obligations, beside what is safe){_without(promise.without)}")
    if verdict.standing is not UnitStatus.PROVED:
        told = _open(verdict, found.proof) or verdict.doubt
    yield f"  {_verdict(verdict, promise.property, told)}"
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
    claim = obligation.claim
    drawn.print(
        f"\n{obligation.name} {failure(obligation)}{_sizes(found.sizes)}\n"
        f"{claim.why + chr(10) if claim.part_of and claim.why else ''}"
        f"{claim.text}\n"
        f"{obligation.place}\n{reached(one)}",
        markup=False, highlight=False, soft_wrap=True,
    )
    finding = Finding(
        claim.name, PropertyKind.ALWAYS, "", Verdict.VIOLATED, "", obligation.place,
        trace=found.trace,
    )
    for line in draw(finding, drawn):
        drawn.print(line, no_wrap=True, overflow="ignore", crop=False)


def failure(obligation: Obligation) -> str:
    if obligation.scope == START:
        return "fails: in the state at the start the claim does not hold"
    if obligation.claim.by:
        return f"does not follow from {', '.join(obligation.claim.by)}: in this state it fails"
    if obligation.claim.part_of:
        return "is not met: in this state all its assumptions hold, but it does not"
    if obligation.about_rows:
        return "fails: in this state every claim holds, and the row fires"
    return "is not inductive: in this state every claim holds, but the row breaks this one"


def reached(one: Refutation) -> str:
    """Whether a short run violates the claim (a defect), or a lemma may be missing."""
    match one.run:
        case _ if one.obligation.scope == START:
            return "every run starts in such a state: the claim is false"
        case None if one.obligation.claim.by:
            return "if the state is unreachable, one of these claims is too weak"
        case None:
            how = "`pdproto check`" if one.obligation.claim.part_of else "--bmc K"
            return (f"if the state is unreachable, a lemma is missing ({how} searches for a "
                    f"violating run)")
        case BoundedRuns(steps, violates=True):
            return f"a run of {steps} steps violates it: this is a defect"
        case BoundedRuns(steps, sizes):
            return (f"no run of up to {steps} steps violates it at the default sizes"
                    f"{_sizes(sizes)}: perhaps a lemma is missing")


def _sizes(sizes: Sizes) -> str:
    """The sizes in parentheses; "" if there is no sort."""
    return f" ({at_sizes(sizes)})" if sizes else ""
