"""Decides propositional formulas in the DIMACS format, with Z3's SAT solver."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import z3

VERSION: Final[str] = z3.get_version_string()


class Answer(StrEnum):
    """The answer to one question; UNKNOWN after the time limit."""

    UNSATISFIABLE = "unsatisfiable"
    SATISFIABLE = "satisfiable"
    UNKNOWN = "unknown"


class Solver:
    """One set of clauses, decided under changing assumptions. timeout_s: for one question."""

    def __init__(self, dimacs: str, *, timeout_s: float) -> None:
        # A context of its own: earlier questions in a shared context would slow later ones.
        self._context: Final = z3.Context()
        self._solver: Final[Any] = z3.SolverFor("QF_FD", ctx=self._context)
        self._solver.set("timeout", int(timeout_s * 1000))
        self._model: Any = None  # of the last answer
        self.add(dimacs)

    def add(self, dimacs: str) -> None:
        """Add clauses over the same variables for all later questions."""
        self._solver.from_string(dimacs)

    def ask(self, assumed: Sequence[int]) -> Answer:
        """Whether the clauses are satisfiable together with these literals."""
        self._model = None
        answer = self._solver.check(*(self._literal(number) for number in assumed))
        if answer == z3.unsat:
            return Answer.UNSATISFIABLE
        return Answer.SATISFIABLE if answer == z3.sat else Answer.UNKNOWN

    def require(self, *clause: int) -> None:
        """Add one clause for all later questions."""
        self._solver.add(z3.Or(*(self._literal(number) for number in clause), self._context))

    def core(self) -> frozenset[int]:
        """Literals of the last question that are enough to make it unsatisfiable."""
        return frozenset(self._number(literal) for literal in self._solver.unsat_core())

    @staticmethod
    def _number(literal: Any) -> int:
        name: str = str(literal)
        return int(name.removeprefix("k!"))

    def true(self, numbers: Sequence[int]) -> list[bool]:
        """For each of these literals, whether it holds in the model of the last answer."""
        if self._model is None:
            self._model = self._solver.model()  # of so many variables that it takes milliseconds
        return [z3.is_true(self._model.eval(self._literal(number), True)) for number in numbers]

    def _literal(self, number: int) -> Any:
        # Z3 turns the numbers of DIMACS into symbols that are numbers.
        variable = z3.Bool(abs(number), self._context)
        return variable if number > 0 else z3.Not(variable)
