"""Propositional questions in the DIMACS form, put to Z3's SAT solver."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import z3

VERSION: Final[str] = z3.get_version_string()


class Answer(StrEnum):
    UNSATISFIABLE = "unsatisfiable"
    SATISFIABLE = "satisfiable"
    UNKNOWN = "unknown"


class Solver:
    """One set of clauses, asked under changing assumptions."""

    def __init__(self, dimacs: str, *, timeout_s: float) -> None:
        # A context of its own: what earlier questions left behind would slow later ones.
        self._context: Final = z3.Context()
        self._solver: Final[Any] = z3.SolverFor("QF_FD", ctx=self._context)
        self._solver.set("timeout", int(timeout_s * 1000))
        self._solver.from_string(dimacs)

    def ask(self, assumed: Sequence[int]) -> Answer:
        """Whether the clauses can be satisfied together with these literals."""
        answer = self._solver.check(*(self._literal(number) for number in assumed))
        if answer == z3.unsat:
            return Answer.UNSATISFIABLE
        return Answer.SATISFIABLE if answer == z3.sat else Answer.UNKNOWN

    def require(self, *clause: int) -> None:
        """One clause more, for this and all later questions."""
        self._solver.add(z3.Or(*(self._literal(number) for number in clause), self._context))

    def core(self) -> frozenset[int]:
        """Some of the literals that were assumed, which alone make the last question fail."""
        return frozenset(self._number(literal) for literal in self._solver.unsat_core())

    @staticmethod
    def _number(literal: Any) -> int:
        name: str = str(literal)
        return int(name.removeprefix("k!"))

    def true(self, numbers: Sequence[int]) -> list[bool]:
        """Which of these literals hold in the model that the last answer found."""
        model = self._solver.model()
        return [z3.is_true(model.eval(self._literal(number), True)) for number in numbers]

    def _literal(self, number: int) -> Any:
        # Z3 reads the numbers of DIMACS as symbols that are numbers.
        variable = z3.Bool(abs(number), self._context)
        return variable if number > 0 else z3.Not(variable)
