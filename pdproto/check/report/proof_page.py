"""The page of `prove --html`: each claim, and the step that breaks it, drawn as a trace is.

A counterexample to induction starts in a state in which every claim holds, and need not be
reachable. So a claim that fails is *not proved*, and not violated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.prove.obligations import Claim
from pdproto.check.prove.refutation import Refutation
from pdproto.check.prove.verdicts import UnitStatus, Verdicts
from pdproto.check.report.html import Masthead, render
from pdproto.check.report.narration import PROOF_WORDS, counted, sizes_phrase
from pdproto.check.report.proofs import failure, reached, to_json
from pdproto.check.result import CheckResult, Finding, PropertyKind, Trace, Verdict

VERDICT: Final = {
    UnitStatus.PROVED: Verdict.HOLDS, UnitStatus.FAILED: Verdict.VIOLATED,
    UnitStatus.UNKNOWN: Verdict.UNKNOWN, UnitStatus.CONDITIONAL: Verdict.UNKNOWN,
}


def page(verdicts: Verdicts, refuted: Sequence[Refutation]) -> str:
    """The whole page. refuted: the obligations that fail, with their counterexamples."""
    one, proof = verdicts.one, verdicts.proof
    findings = (*map(_refuted, refuted), *_others(verdicts, refuted))
    result = CheckResult(
        one.system.name, one.system.about, {}, (), states=0, transitions=0, depth=0,
        seconds=proof.seconds, complete=not proof.interrupted,
        stopped="interrupted" if proof.interrupted else "", findings=findings,
        rows_never_fired=(), deadlocks=0)
    told = to_json(verdicts)
    return render(result, Masthead(PROOF_WORDS[VERDICT[verdicts.verdict]], [
        ("obligations", f"{told['obligations']:,}"), ("proved", f"{told['proved']:,}"),
        ("failed", f"{len(told['failed']):,}"), ("unknown", f"{len(told['unknown']):,}"),
        ("seconds", f"{proof.seconds:.2f}"),
    ]))


def _refuted(one: Refutation) -> Finding:
    """A refuted obligation, with the step that breaks its claim."""
    obligation, claim, found = one.obligation, one.obligation.claim, one.found
    note, sizes = failure(obligation), ""
    trace = None if found is None else _marked(found.trace, claim, obligation.name)
    if found is not None:
        named = {sort.__name__: size for sort, size in found.sizes.items()}
        sizes = f"a counterexample with {sizes_phrase(named)}"
        note = f"It {note}; {reached(one)}"
    return replace(_finding(claim, Verdict.VIOLATED), name=obligation.name, assurance=sizes,
                   place=obligation.place, trace=trace, note=note)


def _marked(trace: Trace, claim: Claim, name: str) -> Trace:
    """The trace with the place at which the claim fails: its step, or its start."""
    if claim.part_of or not trace.steps:
        return replace(trace, start_holds={name: False}, supposed=bool(claim.part_of))
    steps = tuple(replace(step, holds={name: False}) for step in trace.steps)
    return replace(trace, steps=steps, start_holds={name: True}, supposed=True)


def _others(verdicts: Verdicts, refuted: Sequence[Refutation]) -> Iterator[Finding]:
    """Every claim without a refutation: those that are not proved first."""
    drawn = {refutation.obligation.claim.name for refutation in refuted}
    by_verdict: dict[Verdict, list[Finding]] = {verdict: [] for verdict in
                                                (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS)}
    asked = verdicts.proof.obligations
    claims = {claim.name: claim for claim in (
        *verdicts.one.fault_free_claims, *(o.claim for o in asked))}
    for name, claim in claims.items():
        mine = [o for o in asked if o.claim.name == name]
        if name in drawn or not mine:
            continue
        unit = verdicts.of(claim)
        verdict = VERDICT[unit.standing]
        if unit.open and not {*map(id, mine)} & {*map(id, unit.open)}:
            verdict = Verdict.UNKNOWN  # another claim of its group is not proved
        told = f"{'a lemma, ' if claim.is_lemma else ''}{counted(len(mine), 'obligation')}"
        if unit.unmet:
            told += f"; it rests on {', '.join(unit.unmet)}, not proved here"
        if verdict is Verdict.HOLDS:
            told += f"; {verdicts.one.proved_words(name)}"
        by_verdict[verdict].append(replace(_finding(claim, verdict), assurance=told))
    for found in by_verdict.values():
        yield from found


def _finding(claim: Claim, verdict: Verdict) -> Finding:
    return Finding(claim.name, PropertyKind.INDUCTIVE, claim.text, verdict, "",
                   claim.place, note=claim.why)
