"""The cases of a row: its guard is split where an update depends on the state before the row."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from pdproto.ground.program import Guard, Literal, conjunction
from pdproto.ground.values import Assigning
from pdproto.spec.language.formula import TRUE, Formula, Not, normal
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Update

Environment: TypeAlias = Mapping[Sort, int]
Case: TypeAlias = tuple[Guard, tuple[Literal, ...]]
E = TypeVar("E")
Values: TypeAlias = Callable[
    [Assigning, Update, Environment], Iterator[tuple[Formula, Environment, tuple[E, ...]]]]
CASES_MAX: Final = 4_096  # of one row at its parameters


class Splitting(Assigning, Protocol):
    """A ground system, as far as it splits guards."""

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[Environment]:
        """Every choice of elements for the variables."""

    def guard(
        self, formula: Formula, environment: Environment, row: Row | None = None, part: str = ...
    ) -> Guard | None:
        """The formula as a guard; None where it cannot hold."""


def split(
    ground: Splitting, table: Table, row: Row, environment: Environment, guard: Guard,
    values: Values[E],
) -> list[tuple[Guard, tuple[E, ...]]]:
    """The row's guard with the effects of the row, in the order of the row.

    An update with a `where` has a case for each choice of the cells that it is for, and for each of
    the `values` of the cell. The guards of two cases exclude each other, and one of them holds
    where the row's guard holds. Raises SpecError above CASES_MAX cases.
    """
    cases: list[tuple[Guard, tuple[E, ...]]] = [(guard, ())]
    for update in table.written(row):
        for chosen in ground.environments(update.variables):
            inner = {**environment, **chosen}
            choices = [*values(ground, update, inner)]
            if update.where != TRUE:
                choices.append((Not(update.where), inner, ()))
            cases = [
                (narrowed, (*before, *effects))
                for holding, before in cases
                for condition, of, effects in choices
                if (narrowed := _narrowed(ground, row, holding, condition, of)) is not None
            ]
            if len(cases) > CASES_MAX:
                raise SpecError(row.place, f"row {row.name!r}: its updates have over "
                                           f"{CASES_MAX:,} cases at these sizes: {_way(update)}")
    return cases


def _way(update: Update) -> str:
    """The way round too many cases, of the update that made them too many."""
    if update.variables:
        return (f"make a variable of `each` of {update.symbol} a parameter (`choose=`), so that "
                "the row fires once for each element")
    return (f"{update.symbol} computes with too many values: give the functions that it reads "
            "fewer values, or make one of them a parameter (`choose=`, of a sort of Numbers)")


def _narrowed(
    ground: Splitting, row: Row, guard: Guard, condition: Formula, environment: Environment
) -> Guard | None:
    """The guard and the condition together."""
    if condition == TRUE:
        return guard
    one = ground.guard(normal(condition), environment, row, "the `where` of an update")
    return None if one is None else conjunction(guard, one)
