"""The findings of several searches as one: over interpretations, and over assumptions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import cell_name

VACUOUS: Final = "vacuous: its premise never holds"


def merged(findings: Sequence[Finding]) -> Finding:
    """One property over all interpretations: one violation decides, and so does one witness. Its
    trace is the shortest of all.
    """
    if findings[0].kind is PropertyKind.SOMETIMES:
        order = (Verdict.HOLDS, Verdict.UNKNOWN, Verdict.VIOLATED)
    else:
        order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS)
    # A property is vacuous only if it is vacuous in every topology.
    return min(findings, key=lambda f: (
        order.index(f.verdict), f.trace_length or 0, VACUOUS in f.note))


def jointly(findings: Sequence[Finding]) -> Finding:
    """One property under several assumptions: the worst verdict, and its assumptions."""
    order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS)
    worst = min(findings, key=lambda finding: order.index(finding.verdict))
    if worst.verdict is Verdict.VIOLATED:
        return worst
    return replace(worst, note="; ".join(dict.fromkeys(finding.note for finding in findings)),
                   under=tuple(one for finding in findings for one in finding.under))


def located(finding: Finding, ground: Ground) -> Finding:
    """The finding, with the topology of its trace."""
    if finding.trace is None:
        return finding
    return replace(finding, instance=", ".join(filter(None, (finding.instance, placed(ground)))))


def placed(ground: Ground) -> str:
    """The interpretation in words, after an instance; empty if it is the same everywhere."""
    if not ground.system.relations:
        return ""
    return f"where {related}" if (related := topology(ground)) else "where nothing is related"


def topology(ground: Ground) -> str:
    """The text of an interpretation: "next(n0, n1), next(n1, n0)"."""
    return ", ".join(
        cell_name(symbol, indices)
        for symbol in ground.system.relations for indices in sorted(ground.given[symbol])
    )
