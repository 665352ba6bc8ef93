"""The answers of the explore page as plain values: one function for each question it asks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pdproto.check.narrative import channel_name, lane_name
from pdproto.check.questions import DEADLOCK
from pdproto.check.report.as_json import to_json
from pdproto.check.report.sequence import colour_classes, sequence
from pdproto.check.result import CheckResult, Finding, PropertyKind, Trace, TraceStep, Verdict
from pdproto.check.runs import Transition
from pdproto.check.stepping.as_test import SystemImport, written
from pdproto.check.stepping.formulas import wanted
from pdproto.check.stepping.standing import standings
from pdproto.check.stepping.walk import Choice, Disabled, PathError, Walker
from pdproto.check.stepping.ways import Way, neighbourhood, shortest, shortest_to_deadlock
from pdproto.ground.channels import EMPTY
from pdproto.ground.layout import cell_name

PICTURE: Final = "p"  # step s of the picture has the id ps{s}


def view(walker: Walker, source: SystemImport, path: Sequence[str]) -> dict[str, Any]:
    """Everything that the page shows at the end of a path. Raises PathError."""
    moves = walker.follow(path)
    state = walker.after(moves)
    trace = walker.trace(moves)
    finding = _finding(walker, trace)
    colours = _colours(walker)
    stuck = walker.is_stuck(state)
    return {
        "path": [walker.label(move.row) for move in moves],
        "finding": _plain(finding) | {"colours": dict(colours)},
        "picture": str(sequence(finding, prefix=PICTURE, colours=colours)),
        "enabled": [_choice(walker, choice, state, colours) for choice in walker.enabled(state)],
        "disabled": [_disabled(row, colours) for row in walker.disabled(state)],
        "state": list(_state(walker, state, moves, colours)),
        "properties": [
            {"name": one.name, "kind": one.kind, "claim": one.claim, "why": one.why,
             "stands": one.stands.value, "because": list(one.because)}
            for one in standings(walker, moves)
        ],
        "end": ("final" if walker.is_final(state) else "stuck") if stuck else "",
        "test": written(source, walker, moves),
    }


def why(walker: Walker, path: Sequence[str], row: str) -> dict[str, Any]:
    """Every instance of a row at the end of the path. Raises PathError."""
    state = walker.after(walker.follow(path))
    colours = _colours(walker)
    return {"instances": [
        _disabled(one, colours) if isinstance(one, Disabled)
        else _choice(walker, one, state, colours)
        for one in walker.instances(state, row)
    ]}


def way(
    walker: Walker, path: Sequence[str], *, formula: str = "", claim: str = ""
) -> dict[str, Any]:
    """The shortest way from the end of the path to a state where the formula holds.

    claim: instead, the name of a property: to a state that violates it, or that a `sometimes`
    wants. Raises PathError and FormulaError.
    """
    state = walker.after(walker.follow(path))
    if claim:
        found = _way_of(walker, state, claim)
    else:
        found = shortest(walker, state, wanted(walker.ground, formula))
    return {
        "way": None if found.path is None else list(found.path),
        "states": found.states,
        "complete": found.complete,
    }


def _way_of(walker: Walker, state: int, claim: str) -> Way:
    if claim == DEADLOCK:
        return shortest_to_deadlock(walker, state)
    for question in walker.questions:
        if question.name == claim:
            return shortest(walker, state, [pattern.guard for pattern in question.patterns])
    raise PathError(f"{walker.system.name} has no property {claim!r} of single states")


def around(walker: Walker, path: Sequence[str], states_max: int) -> dict[str, Any]:
    """The states around the end of the path, with the transitions between them."""
    found = neighbourhood(walker, walker.after(walker.follow(path)), states_max)
    return {
        "nodes": [
            {"path": [*path, *node.path], "depth": len(node.path),
             "label": node.path[-1] if node.path else "here", "violated": list(node.violated),
             "stuck": node.stuck, "cut": not node.expanded}
            for node in found.nodes
        ],
        "edges": [list(edge) for edge in found.edges],
        "complete": found.complete,
    }


def _colours(walker: Walker) -> Mapping[str, str]:
    """The colour of each process, the same for all paths."""
    return colour_classes(Trace(tuple(walker.narrator.lanes()), (), ()))


def _finding(walker: Walker, trace: Trace) -> Finding:
    return Finding("path", PropertyKind.SOMETIMES, "", Verdict.HOLDS, "", walker.system.place,
                   trace)


def _plain(finding: Finding) -> dict[str, Any]:
    result = CheckResult(
        system="", description="", sizes={}, faults=(), states=0, transitions=0, depth=0,
        seconds=0.0, complete=True, stopped="", findings=(finding,), rows_never_fired=(),
        deadlocks=0,
    )
    plain: dict[str, Any] = to_json(result)["properties"][0]
    return plain


def _choice(
    walker: Walker, choice: Choice, state: int, colours: Mapping[str, str]
) -> dict[str, Any]:
    row = choice.ground
    step = walker.narrator.step(Transition(row, state, row.action.apply(state)))
    return _row(choice, colours) | {
        "enabled": True,
        "changes": choice.changes,
        "effects": list(_effects(step)),
        "sends": [arrow.message for arrow in step.sent],
        "loses": [arrow.message for arrow in step.lost],
    }


def _effects(step: TraceStep) -> Iterator[str]:
    for change in step.changes:
        yield f"{change.variable}: {change.before} → {change.after}"


def _disabled(row: Disabled, colours: Mapping[str, str]) -> dict[str, Any]:
    return _row(row, colours) | {
        "enabled": False,
        "failing": [{"text": one.text, "now": one.now} for one in row.failing],
        "others": row.others,
    }


def _row(one: Choice | Disabled, colours: Mapping[str, str]) -> dict[str, Any]:
    return {
        "label": one.label,
        "name": one.ground.row.name,
        "lane": one.lane,
        "colour": colours.get(one.lane, "m0"),
        "trigger": one.trigger,
        "why": one.ground.row.why,
        "fault": one.ground.layer,
        "place": str(one.ground.row.place),
    }


def _state(
    walker: Walker, state: int, moves: Sequence[Transition], colours: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The variables of each process, with their values before the last step if it changed them."""
    layout = walker.ground.layout
    before = moves[-1].before if moves else state
    main = {table.state for table in walker.system.tables}
    lanes: dict[str, list[dict[str, Any]]] = {lane.name: [] for lane in walker.narrator.lanes()}
    for symbol, indices, texts in layout.texts(state, before, walker.initial):
        lane = lane_name(symbol.owner, indices[: len(symbol.owner.own)])
        value, was, initial = texts
        lanes.setdefault(lane, []).append({
            "name": cell_name(symbol, indices),
            "value": value,
            "before": was if was != value else None,
            "main": symbol in main,
            "initial": value == initial,
        })
    queues = walker.ground.queues
    for queue in queues.every():
        lane, name = channel_name(queue)
        value, was = queues.text(state, queue), queues.text(before, queue)
        lanes.setdefault(lane, []).append({
            "name": name,
            "value": value,
            "before": was if was != value else None,
            "main": False,
            "initial": value == EMPTY,
        })
    for lane, cells in lanes.items():
        if cells:
            yield {"lane": lane, "colour": colours.get(lane, "m0"), "cells": cells}
