"""The text of numbers and of computed values: `n(p) + 1`, `count(v: vote(v)) * 2`."""

from collections.abc import Callable, Sequence
from typing import Final

from pdproto.spec.language.computed import Chosen
from pdproto.spec.language.formula import TRUE, AtLeast, Formula
from pdproto.spec.language.numbered import NumberOf
from pdproto.spec.language.numbers import Either, Extreme, Total
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.terms import Arithmetic, Constant, NumberCell, Term

CellText = Callable[[Symbol, tuple[Sort, ...], Sequence[Sort]], str]
FormulaText = Callable[[Formula, Sequence[Sort]], str]
VariableText = Callable[[Sort, Sequence[Sort]], str]

OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
TOLD: Final = {"==": "="}  # as other values are compared in a text


class NumberWords:
    """Writes terms with the texts of cells, formulas and variables that are given.

    Each takes the variables that are bound around it.
    """

    def __init__(self, cell: CellText, formula: FormulaText, variable: VariableText) -> None:
        self._cell, self._formula, self._variable = cell, formula, variable

    def compared(self, left: Term, sign: str, right: Term) -> str:
        """The text of a comparison."""
        return f"{self.term(left)} {TOLD.get(sign, sign)} {self.term(right)}"

    def term(self, term: Term, bound: Sequence[Sort] = ()) -> str:
        """The text of a number."""
        match term:
            case Constant(number):
                return str(number)
            case NumberOf(variable):
                return self._variable(variable, bound)
            case NumberCell():
                return self._cell(term.symbol, term.arguments, bound)
            case Arithmetic(sign, left, right):
                return f" {sign} ".join(
                    f"({self.term(one, bound)})" if self._is_loose(one, sign, one is right)
                    else self.term(one, bound) for one in (left, right))
            case Total():
                return self._total(term, bound)
            case Extreme(word, variables, each, where):
                condition = self._where(where, (*bound, *variables))
                return (f"{word.removesuffix('_of')}({', '.join(map(repr, variables))}: "
                        f"{self.term(each, (*bound, *variables))}{condition})")
            case Either(condition, yes, no):
                return (f"(if {self._formula(condition, bound)} then {self.term(yes, bound)} "
                        f"else {self.term(no, bound)})")
        raise AssertionError(term)

    def _total(self, term: Total, bound: Sequence[Sort]) -> str:
        inside = (*bound, *term.variables)
        named = ", ".join(map(repr, term.variables))
        if not isinstance(term.each, Constant):
            return (f"sum({named}: {self.term(term.each, inside)}"
                    f"{self._where(term.where, inside)})")
        if term.where == TRUE and not term.variables[1:]:
            return f"size({type(term.variables[0]).__name__})"
        return f"count({named}: {self._formula(term.where, inside)})"

    def _where(self, where: Formula, bound: Sequence[Sort]) -> str:
        return "" if where == TRUE else f" where {self._formula(where, bound)}"

    @staticmethod
    def _is_loose(term: Term, sign: str, right: bool) -> bool:
        return isinstance(term, Arithmetic) and (sign not in "+-" or (sign == "-" and right))

    def at_least(self, formula: AtLeast) -> str:
        """The text of a formula about counts that stands for no comparison as it is written."""
        parts = [f"{n} * count({', '.join(map(repr, one.variables))}: "
                 f"{self._formula(case, one.variables)})"
                 for one in formula.summands for case, n in one.cases if n]
        return f"{' + '.join(parts) or '0'} >= {formula.bound}"

    def chosen(self, value: Chosen, text: Callable[[object], str]) -> str:
        """The text of a choice between two values. text: of one of them."""
        return (f"(if {self._formula(value.where, ())} then {text(value.yes)} else "
                f"{text(value.no)})")
