"""The snapshot: the states of a model without tables, and the shortest run to a lost token."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.examples import snapshot, snapshot_broken
from pdproto.spec.examples.snapshot import Node, Place, Token
from pdproto.spec.language import Configuration

MARKER = "marker"


class Run(NamedTuple):
    """A state of n processes; a token is known by its number.

    purses: the tokens that each process has. recorded: those that it has recorded; None before.
    came: for each process, the tokens that it has recorded on their way, with their sender. heard:
    those whose marker has come. wires: for each sender, the queue to each receiver. paid: each
    process with the tokens that it has ever paid with (not `unspent`).
    """

    purses: tuple[frozenset[int], ...]
    recorded: tuple[frozenset[int] | None, ...]
    came: tuple[frozenset[tuple[int, int]], ...]
    heard: tuple[frozenset[int], ...]
    wires: tuple[tuple[tuple[int | str, ...], ...], ...]
    paid: frozenset[tuple[int, int]] = frozenset()

    def put(self, field: str, at: int, value: object) -> "Run":
        old = getattr(self, field)
        changed: dict[str, Any] = {field: (*old[:at], value, *old[at + 1:])}
        return self._replace(**changed)

    def record(self, at: int) -> "Run":
        marked = tuple((*wire, MARKER) if to != at else wire
                       for to, wire in enumerate(self.wires[at]))
        return self.put("recorded", at, self.purses[at]).put("wires", at, marked)

    def wire(self, sender: int, receiver: int, queue: tuple[int | str, ...]) -> "Run":
        row = self.wires[sender]
        return self.put("wires", sender, (*row[:receiver], queue, *row[receiver + 1:]))


def steps(run: Run, nodes: int, places: int) -> Iterator[Run]:
    """The states after one step; those in which a wire is too long are left out."""
    for p in range(nodes):
        after = [] if run.recorded[p] is not None else [run.record(p)]
        for q in range(nodes):
            if p == q:
                continue
            after += [run.put("purses", p, run.purses[p] - {token})
                      .wire(p, q, (*run.wires[p][q], token))._replace(paid=run.paid | {(p, token)})
                      for token in run.purses[p]]
            if run.wires[q][p]:
                first, *rest = run.wires[q][p]
                after.append(taken(run.wire(q, p, tuple(rest)), p, q, first))
        yield from (one for one in after
                    if all(len(wire) <= places for row in one.wires for wire in row))


def taken(run: Run, p: int, q: int, first: int | str) -> Run:
    """The state after process p has taken what was first on the wire from q."""
    if isinstance(first, str):
        run = run if run.recorded[p] is not None else run.record(p)
        return run.put("heard", p, run.heard[p] | {q})
    if run.recorded[p] is not None and q not in run.heard[p]:
        run = run.put("came", p, run.came[p] | {(q, first)})
    return run.put("purses", p, run.purses[p] | {first})


def explored(nodes: int, tokens: int, places: int) -> set[Run]:
    purses = tuple(frozenset(t for t in range(tokens) if t % nodes == p) for p in range(nodes))
    none: tuple[frozenset[int], ...] = (frozenset(),) * nodes
    start = Run(purses, (None,) * nodes, (frozenset(),) * nodes, none, (((),) * nodes,) * nodes)
    seen, new = {start}, {start}
    while new:
        new = {after for run in new for after in steps(run, nodes, places)} - seen
        seen |= new
    return seen


def differences(run: Run, tokens: int) -> bool:
    """Whether a complete snapshot lacks a token, or has one twice."""
    if any(len(h) < len(run.heard) - 1 for h in run.heard) or None in run.recorded:
        return False
    found = [t for kept in run.recorded for t in kept or ()]
    return sorted([*found, *(t for came in run.came for _, t in came)]) != [*range(tokens)]


@pytest.mark.parametrize(("nodes", "tokens", "places"), [
    (2, 1, 1), (2, 2, 2), (2, 2, 3), pytest.param(3, 1, 2, marks=pytest.mark.nightly)])
def test_it_has_the_states_of_a_model_without_tables(
    nodes: int, tokens: int, places: int
) -> None:
    model = explored(nodes, tokens, places)
    assert not any(differences(run, tokens) for run in model)
    sizes = {Node: nodes, Token: tokens, Place: places}
    plain = Configuration(sizes, symmetry=False, dead_bits=False)
    result = check(snapshot.SYSTEM, plain, CheckSettings(keep_going=True))
    assert result.states == len(model)
    assert not {f.name for f in result.findings if f.verdict is Verdict.VIOLATED} - {"deadlock"}


def test_a_marker_that_overtakes_a_token_loses_it() -> None:
    """The token is paid, both record, and each hears the other's marker before the token comes."""
    default = snapshot_broken.SYSTEM.configurations["default"]
    result = check(snapshot_broken.SYSTEM, default, CheckSettings())
    finding = next(f for f in result.findings if f.name == "no_token_is_missing")
    assert finding.trace is not None
    assert [step.row for step in finding.trace.steps] == [
        "pay", "begin", "take_first_marker", "take_marker"]
