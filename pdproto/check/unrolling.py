"""The runs of a ground system up to some length, as propositional constraints for Z3.

Bounded model checking uses them (bmc.py). For each step there is a boolean for each bit of the
state, and one for each row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from time import monotonic
from typing import Any, Final

import z3

from pdproto.check.questions import Question
from pdproto.ground.decisions import NO, DecisionDiagram
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.program import Action, Guard, Literal, Program

FOR_EVER_MS: Final = 1_000_000_000  # instead of no limit; the solver accepts no greater number


@dataclass(frozen=True, slots=True)
class Reached:
    """A run as its initial state and its rows, and the names of the targets that its last state
    reaches.
    """

    start: int
    rows: tuple[GroundRow, ...]
    names: tuple[str, ...]


class Unrolling:
    """The runs of exactly k steps of a ground system, as constraints; k grows by `extend`.

    A bit that no row sets, and no initial state has, is always false, and has no variable. A step
    is one row. The binary digits of its number are variables too, so that two rows cannot fire in
    one step. Only the row that fires changes bits, and it changes at least one.

    If two consecutive rows are independent, the one with the smaller number comes first. From each
    run, exchanges of independent rows lead to such a run, with the same length and the same end.
    """

    def __init__(self, ground: Ground, form: Program) -> None:
        # A context of its own: in the shared context, Z3's choices depend on earlier questions of
        # the process, and an answer may take ten times as long.
        self.logic: Final = _Logic(z3.Context())
        self.form: Final = form
        acting = [row for row in ground.rows if row.action.clear]
        self.acting: Final[tuple[GroundRow, ...]] = tuple(acting)
        set_somewhere = 0
        for row in acting:
            set_somewhere |= row.action.assign | row.action.moved
        for state in form.initial:
            set_somewhere |= state
        self.bits: Final = tuple(_ones(set_somewhere))
        self.solver: Final[Any] = z3.SolverFor("QF_FD", ctx=self.logic.context)
        self.steps: Final[list[list[Any]]] = []
        self.asked = 0
        boolean = self.logic.boolean
        # A bit that is clear in each initial state needs no variable.
        free = reduce(or_, form.initial)
        self.now: dict[int, Any] = {
            bit: boolean(f"bit{bit}@0") if free >> bit & 1 else self.logic.any_of()
            for bit in self.bits}
        self.first: Final = self.now
        if free:
            self.solver.add(self.logic.any_of(*(
                self.logic.equals(Literal(free, state), self.now) for state in form.initial)))
        self.before: Final = {bit: boolean(f"before{bit}") for bit in self.bits}
        self.after: Final = {bit: boolean(f"after{bit}") for bit in self.bits}
        self.fires: Final = [boolean(f"fires{n}") for n in range(len(acting))]
        self.digits: Final = [boolean(f"digit{n}") for n in range(len(acting).bit_length())]
        self.earlier: Final = [boolean(f"earlier{n}") for n in range(len(acting))]
        self.step: Final = self.logic.all_of(*self._step())
        self.order: Final = self.logic.all_of(*self._order())

    def _step(self) -> Iterator[Any]:
        """One step between two states, over variables that `extend` substitutes."""
        writers: dict[int, list[Any]] = {bit: [] for bit in self.bits}
        for number, (row, fires) in enumerate(zip(self.acting, self.fires, strict=True)):
            action = row.action
            yield z3.Implies(fires, self.logic.holds(action.guard, self.before))
            yield z3.Implies(fires, z3.Not(self.logic.idle(action, self.before)))
            for place, digit in enumerate(self.digits):
                yield z3.Implies(fires, digit if number >> place & 1 else z3.Not(digit))
            sources = _sources(action)
            for bit in _ones(action.clear):
                if bit in writers:
                    after = self.after[bit]
                    yield z3.Implies(fires, (
                        after == self.before[sources[bit]] if sources.get(bit) in writers else
                        after if action.assign >> bit & 1 else z3.Not(after)))
                    writers[bit].append(fires)
        for bit, rows in writers.items():
            yield self.logic.any_of(self.before[bit] == self.after[bit], *rows)
        yield self.logic.any_of(*self.fires)

    def _order(self) -> Iterator[Any]:
        """A row does not fire right after an independent row with a greater number."""
        reads = [row.action.reads for row in self.acting]
        writes = [row.action.clear for row in self.acting]
        absent = [z3.Not(fired) for fired in self.earlier]
        for number, fires in enumerate(self.fires):
            mine, touched = writes[number], reads[number] | writes[number]
            yield z3.Implies(fires, self.logic.all_of(*(
                absent[later] for later in range(number + 1, len(self.fires))
                if not (mine & (reads[later] | writes[later]) or touched & writes[later])
            )))

    def extend(self) -> None:
        """Make the runs one step longer."""
        k = len(self.steps)
        fires = [self.logic.boolean(f"fires{n}@{k}") for n in range(len(self.fires))]
        digits = [self.logic.boolean(f"digit{n}@{k}") for n in range(len(self.digits))]
        after = {bit: self.logic.boolean(f"bit{bit}@{k + 1}") for bit in self.bits}
        self.solver.add(z3.substitute(
            self.step,
            *((self.before[bit], self.now[bit]) for bit in self.bits),
            *((self.after[bit], after[bit]) for bit in self.bits),
            *zip(self.fires, fires, strict=True),
            *zip(self.digits, digits, strict=True),
        ))
        if self.steps:
            self.solver.add(z3.substitute(
                self.order,
                *zip(self.earlier, self.steps[-1], strict=True),
                *zip(self.fires, fires, strict=True),
            ))
        self.steps.append(fires)
        self.now = after

    def ends_in(self, question: Question | None) -> Any:
        """The formula: the last state has a pattern of the question; None: it is a deadlock."""
        all_of, any_of, holds = self.logic.all_of, self.logic.any_of, self.logic.holds
        if question is not None:
            return any_of(*(holds(pattern.guard, self.now) for pattern in question.patterns))
        rows = zip(self.form.rows, self.form.progress, strict=True)
        return all_of(
            *(z3.Not(holds(guard, self.now)) for guard in self.form.final),
            *(any_of(z3.Not(holds(row.guard, self.now)), self.logic.idle(row, self.now))
              for row, progress in rows if progress and row.clear),
        )

    def has_runs(self, until: float | None) -> bool:
        """Whether there is a run of this length. until: monotonic time at which to give up."""
        return self._check((), until)

    def reached(self, wanted: Mapping[str, Any], until: float | None) -> Reached | None:
        """A run whose last state satisfies one of the formulas, with the names of all it satisfies.

        None if no run of this length does. Raises TimeoutError when the time is up.
        """
        self.asked += 1
        goal = self.logic.boolean(f"goal{self.asked}")
        some = self.logic.any_of(*wanted.values())
        self.solver.add(z3.Implies(goal, some))
        if not self._check((goal,), until):
            # The decided fact helps with later questions.
            self.solver.add(z3.Not(some))
            return None
        model = self.solver.model()
        rows = (
            self.acting[next(n for n, f in enumerate(fires) if z3.is_true(model.eval(f, True)))]
            for fires in self.steps
        )
        start = sum(1 << bit for bit, formula in self.first.items()
                    if z3.is_true(model.eval(formula, True)))
        names = (name for name, end in wanted.items() if z3.is_true(model.eval(end, True)))
        return Reached(start, tuple(rows), tuple(names))

    def _check(self, assumed: tuple[Any, ...], until: float | None) -> bool:
        """Whether the constraints are satisfiable. Raises TimeoutError when the time is up."""
        left_ms = FOR_EVER_MS if until is None else int((until - monotonic()) * 1000)
        if left_ms <= 0:  # Z3's own clock is late on a busy machine
            raise TimeoutError
        self.solver.set("timeout", left_ms)
        answer = self.solver.check(*assumed)
        if answer == z3.unknown:
            if "interrupt" in self.solver.reason_unknown():
                raise KeyboardInterrupt
            raise TimeoutError
        return bool(answer == z3.sat)


class _Logic:
    """Guards as formulas of one Z3 context. A state maps each bit that can be set to a formula."""

    def __init__(self, context: Any) -> None:
        self.context: Final = context

    def boolean(self, name: str) -> Any:
        return z3.Bool(name, self.context)

    def all_of(self, *parts: Any) -> Any:
        return z3.And(*parts, self.context)

    def any_of(self, *parts: Any) -> Any:
        return z3.Or(*parts, self.context)

    def holds(self, guard: Guard, state: Mapping[int, Any]) -> Any:
        return self.all_of(
            self.equals(Literal(guard.mask, guard.value), state),
            *(self.any_of(*(self.equals(literal, state) for literal in clause))
              for clause in guard.clauses),
            *(self._ends_well(decision, state) for decision in guard.decisions),
        )

    def _ends_well(self, decision: DecisionDiagram, state: Mapping[int, Any]) -> Any:
        """The walk ends at YES."""
        found = [self.any_of(), self.all_of()]
        for node in decision.nodes:
            cells = (Literal(node.mask, code << node.shift) for code in range(len(node.below)))
            found.append(self.any_of(*(
                self.all_of(self.equals(cell, state), found[below])
                for cell, below in zip(cells, node.below, strict=True) if below != NO)))
        return found[-1]

    def equals(self, literal: Literal, state: Mapping[int, Any]) -> Any:
        parts = []
        for bit in _ones(literal.mask):
            wanted = literal.value >> bit & 1
            if bit in state:
                parts.append(state[bit] if wanted else z3.Not(state[bit]))
            elif wanted:
                return self.any_of()
        return self.all_of(*parts)

    def idle(self, action: Action, state: Mapping[int, Any]) -> Any:
        """The formula: the row would change nothing."""
        never = self.any_of()
        still = (state.get(bit, never) == state.get(source, never)
                 for bit, source in _sources(action).items())
        return self.all_of(
            self.equals(Literal(action.clear & ~action.moved, action.assign), state), *still)


def _sources(action: Action) -> dict[int, int]:
    """For each bit that is moved to, the bit that it gets."""
    return {bit + shift: bit for mask, shift in action.moves for bit in _ones(mask)}


def _ones(mask: int) -> Iterator[int]:
    """The places of the bits that are set, in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
