"""Sorts of numbers: numbers as arguments of messages, and as parameters of rows and functions.

    class Ballot(Numbers, values=Int(0, 5)):
        \"\"\"A ballot.\"\"\"

    b = Ballot("b")
    prepare = Message("prepare", b, sender=proposer, receiver=acceptor)
    Row("promise", on=prepare(b), when=b > highest(a), do=highest(a).to(b))

Rule 1: The elements are the numbers of the range, in ascending order, and their count is its size.
That a variable is one of them is an atom of a rigid relation, one for each number, so each reader
of the tables knows it already. Three axioms of the sort tell proofs the same.
Rule 2: `Ballot(highest(a) + 1)` is the argument of what a row reads, writes or sends: the row has a
parameter of its own, which equals the number. Where that is out of the range, the row reads past an
end (sequences.py, rule 2).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, NoReturn

from .formula import And, Before, Formula, Not, Same, all_of, any_of, exists, forall, implies
from .kinds import require, shown
from .place import SpecError, here
from .ranges import Int
from .sorts import Sort
from .states import Number
from .symbols import Rigid, Sizes
from .terms import Case, Chooser, Constant, Operand, Term, compared, term


class Numbers(Sort, ordered=True):
    """A variable of a sort whose elements are the numbers of a range, `values`."""

    __slots__ = ("stands_for",)

    values: ClassVar[Int]

    def __init_subclass__(cls, *, values: Int | None = None, **others: Any) -> None:
        require(not others, f"{cls.__name__}: {', '.join(others)}= is for other sorts: a sort of "
                            "numbers has values= alone, as in values=Int(0, 5)")
        given: object = values
        if not isinstance(given, Int) or given.saturates:
            raise SpecError(here(), f"{cls.__name__}: values={shown(values)}: want the range of "
                                    "its numbers, as in values=Int(0, 5)")
        super().__init_subclass__(ordered=True)
        cls.values = given

    def __init__(self, name: "str | Operand") -> None:
        self.stands_for = None if isinstance(name, str) else term(name, type(self).__name__, "of")
        of = self.stands_for
        require(not isinstance(of, Constant) or of.number in self.values,
                f"{of!r} is no {type(self).__name__}: it has the range {self.values!r}")
        super().__init__(name if isinstance(name, str) else _named(self.stands_for))

    @property
    def number(self) -> Term:
        return NumberOf(self)

    @classmethod
    def own_size(cls) -> int:
        return len(cls.values.numbers)

    @classmethod
    def element(cls, index: int) -> str:
        return str(cls.values.low + index)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Term | Number) or type(other) is int:
            return compared(self.number, "==", other)
        return super().__eq__(other) and (
            repr(self.stands_for) == repr(getattr(other, "stands_for", None)))

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return Not(equal) if isinstance(equal, Formula) else not equal

    def __hash__(self) -> int:
        return super().__hash__()

    def __lt__(self, other: Operand) -> Formula:  # type: ignore[override]  # numbers compare
        return compared(self.number, "<", other)

    def __le__(self, other: Operand) -> Formula:  # type: ignore[override]  # as above
        return compared(self.number, "<=", other)

    def __gt__(self, other: Operand) -> Formula:  # type: ignore[override]  # as above
        return compared(self.number, ">", other)

    def __ge__(self, other: Operand) -> Formula:  # type: ignore[override]  # as above
        return compared(self.number, ">=", other)

    def among(self, *numbers: Operand) -> Formula:
        """The number is one of these."""
        return self.number.among(*(term(one, self, ".among of") for one in numbers))

    def __add__(self, other: Operand) -> Term:
        return self.number + term(other, self, "+")

    def __radd__(self, other: int) -> Term:
        return other + self.number

    def __sub__(self, other: Operand) -> Term:
        return self.number - term(other, self, "-")

    def __rsub__(self, other: int) -> Term:
        return other - self.number

    def __mul__(self, other: Operand) -> Term:
        return self.number * term(other, self, "*")

    def __rmul__(self, other: int) -> Term:
        return other * self.number

    def __floordiv__(self, other: Operand) -> Term:
        return self.number // term(other, self, "//")

    def __rfloordiv__(self, other: int) -> Term:
        return other // self.number

    def __mod__(self, other: Operand) -> Term:
        return self.number % term(other, self, "%")

    def __rmod__(self, other: int) -> Term:
        return other % self.number

    def __neg__(self) -> Term:
        return -self.number

    def __truediv__(self, other: object) -> NoReturn:
        self.number / other  # it raises
        raise AssertionError


def _named(of: object) -> str:
    """A name for the variable that stands for a number: `highest_a_plus_1`."""
    text = repr(of)
    for sign, word in _WORDS.items():
        text = text.replace(sign, word)
    name = "_".join("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    return name if name.isidentifier() else f"n{name}"


_WORDS: Final = {"//": "over", "+": "plus", "-": "minus", "*": "times", "%": "modulo"}


def standing(variables: Iterable[Sort]) -> Iterator[tuple[Numbers, Term]]:
    """Those of the variables that stand for a number that is computed, each with it."""
    for one in dict.fromkeys(variables):
        if isinstance(one, Numbers) and one.stands_for is not None:
            yield one, one.stands_for


class IsNumber(Rigid[Any]):
    """The rigid relation of one number: the variable is this one."""

    def __init__(self, sort: type[Numbers], number: int) -> None:
        self.number: Final = number
        name = f"{sort.__name__}_is_{sort.values.value(number).name.removeprefix('n')}"
        super().__init__(name, sort("x"), given=self.at)

    def holds(self, element: object) -> bool:
        """Whether an element of a process or of a trace, which is a number, is this one."""
        return element == self.number

    def at(self, _: Sizes) -> frozenset[tuple[int, ...]]:
        """Its interpretation: one element."""
        return frozenset({(self.number - self.sorts[0].values.low,)})  # type: ignore[attr-defined]  # a sort of numbers


def relations(sort: type[Numbers]) -> Mapping[int, IsNumber]:
    """The relation of each number of the sort."""
    if sort not in _RELATIONS:
        _RELATIONS[sort] = {number: IsNumber(sort, number) for number in sort.values.numbers}
    return _RELATIONS[sort]


_RELATIONS: Final[dict[Any, Mapping[int, IsNumber]]] = {}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NumberOf(Chooser):
    """The number that a variable is."""

    variable: Numbers

    def cases(self) -> tuple[Case, ...]:
        sort = type(self.variable)
        return tuple((of(self.variable), number) for number, of in relations(sort).items())

    def compared(self, sign: str, other: Term) -> Formula | None:
        if not isinstance(other, NumberOf) or type(other.variable) is not type(self.variable):
            return None
        one, two = self.variable, other.variable
        return {"==": Same(one, two), "!=": Not(Same(one, two)), "<": Before(one, two),
                ">": Before(two, one), "<=": Not(Before(two, one)), ">=": Not(Before(one, two))}[
                    sign]

    def __repr__(self) -> str:
        return self.variable.name


@dataclass(frozen=True, slots=True, repr=False)
class NumberAxiom(And):
    """What a proof knows of a sort of numbers. text: it, for a reader."""

    text: str


def axioms_of(sort: type[Numbers]) -> Iterator[tuple[str, NumberAxiom]]:
    """Each element is a number, no two are one, and they are in order; and all are there."""
    x, y = sort("x"), sort("y")
    every = [*relations(sort).values()]
    ends = f"from {sort.values.low} to {sort.values.high}"
    yield f"{sort.__name__}_is_a_number", NumberAxiom(
        (forall(x, any_of(*(of(x) for of in every))),),
        f"each {sort.__name__} is a number {ends}")
    # One quantifier for all parts: a proof would choose elements for each of several.
    yield f"{sort.__name__}_is_in_order", NumberAxiom((forall((x, y), all_of(
        *(implies(of(x) & of(y), x.same(y)) for of in every),
        *(implies(one(x) & two(y), x.before(y)) for one, two in pairwise(every)))),),
        f"the numbers of {sort.__name__} are in their order")
    yield f"{sort.__name__}_is_whole", NumberAxiom(
        tuple(exists(x, of(x)) for of in every), f"each number {ends} is a {sort.__name__}")
