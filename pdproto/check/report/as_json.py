"""A result as JSON values, for `--json` and for the HTML page.

The text is that of the spec, unescaped: the printer of the values must escape them.
"""

from collections.abc import Iterable
from typing import Any

from pdproto.check.result import Arrow, Blocked, Change, CheckResult, Finding, Trace, TraceStep
from pdproto.spec.language.place import Place


def to_json(result: CheckResult) -> dict[str, Any]:
    """Return the result as dicts, lists, strings, numbers, booleans and None."""
    return {
        "system": result.system,
        "sizes": dict(result.sizes),
        "faults": list(result.faults),
        "reductions": list(result.reductions),
        "verdict": result.verdict.value,
        "states": result.states,
        "transitions": result.transitions,
        "depth": result.depth,
        "seconds": result.seconds,
        "recalled": result.recalled,
        "complete": result.complete,
        "stopped": result.stopped,
        "properties": [_property(finding) for finding in result.findings],
        "rows_never_fired": list(result.rows_never_fired),
        "rows_hidden": list(result.rows_hidden),
        "row_counts": dict(result.row_counts),
        "deadlocks": result.deadlocks,
    }


def _property(finding: Finding) -> dict[str, Any]:
    """A finding. If it has a trace, `trace` is the list of steps, beside lanes, start, loop and
    blocked; otherwise all of these are missing.
    """
    plain: dict[str, Any] = {
        "name": finding.name,
        "kind": finding.kind.value,
        "claim": finding.claim,
        "verdict": finding.verdict.value,
        "assurance": finding.assurance,
        "instance": finding.instance,
        "note": finding.note,
        "place": _place(finding.place),
        "trace_length": finding.trace_length,
    }
    if finding.under:
        plain["fairness"] = [fairness.option for fairness in finding.under]
    return plain if finding.trace is None else plain | _trace(finding.trace)


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "lanes": [{"name": lane.name, "machine": lane.machine} for lane in trace.lanes],
        "start": changes(trace.start),
        "start_holds": dict(trace.start_holds),
        "trace": [_step(step) for step in trace.steps],
        "loop": trace.loop,
        "blocked": [_blocked(blocked) for blocked in trace.blocked],
        **({"supposed": True} if trace.supposed else {}),
    }


def _step(step: TraceStep) -> dict[str, Any]:
    return {
        "row": step.row,
        "parameters": step.parameters,
        "lane": step.lane,
        "trigger": step.trigger,
        "why": step.why,
        "place": _place(step.place),
        "fault": step.fault,
        "received": None if step.received is None else _arrow(step.received),
        "sent": [_arrow(arrow) for arrow in step.sent],
        "lost": [_arrow(arrow) for arrow in step.lost],
        "changes": changes(step.changes),
        "holds": dict(step.holds),
    }


def changes(given: Iterable[Change]) -> list[dict[str, str]]:
    """The changes, each with its lane, its variable and the values before and after."""
    return [{"lane": one.lane, "variable": one.variable, "before": one.before, "after": one.after}
            for one in given]


def _arrow(arrow: Arrow) -> dict[str, Any]:
    return {
        "message": arrow.message,
        "sender": arrow.sender,
        "receivers": list(arrow.receivers),
    }


def _blocked(blocked: Blocked) -> dict[str, Any]:
    return {
        "row": blocked.row,
        "parameters": blocked.parameters,
        "lane": blocked.lane,
        "failing": list(blocked.failing),
    }


def _place(place: Place) -> dict[str, Any]:
    return {"path": place.path, "line": place.line}
