"""Sorts: sets of identities, and variables that range over them.

A sort is a class, a variable of it an instance, so that a type checker sees a wrong sort:

    class Participant(Sort):
        \"\"\"A process that votes.\"\"\"

    p, q = Participant("p"), Participant("q")

A run of the explorer gives a sort its size; a proof leaves it open; at run time an element is a
concrete identity. Elements are no numbers, but for the sorts of numbered.py: where order matters, a
sort is declared `ordered`.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from typing import Any, ClassVar, Final, NoReturn, Self, TypeAlias

from .formula import Before, Formula, Not, Same
from .kinds import require, shown
from .no_formula import Bindable
from .place import SpecError, here

Sets: TypeAlias = Callable[[int], Collection[tuple[int, ...]]]


class Sort(Bindable):
    """A variable of the sort that its class is.

    Class arguments: `ordered=True` gives the elements a fixed total order (`before`), which also
    makes them distinguishable; `prefix` names the elements in traces (default: the class name's
    first letter), so that the elements of Participant read p0, p1, ...

    `of=Acceptor, sets=majorities` makes each element a set of elements of another sort: `sets` is a
    function from the size of that sort to the sets of indices, which also gives this sort its size.
    Renaming the other sort's elements renames the sets. derived: the sorts with sets of this one.
    """

    __slots__ = ("name",)

    ordered: ClassVar[bool] = False
    prefix: ClassVar[str] = ""
    of: ClassVar["type[Sort] | None"] = None
    sets: ClassVar[Sets | None] = None
    derived: ClassVar[list["type[Sort]"]] = []

    def __init_subclass__(
        cls, *, ordered: bool = False, prefix: str = "",
        of: "type[Sort] | None" = None, sets: Sets | None = None,
    ) -> None:
        cls.ordered = ordered
        cls.prefix = prefix or cls.__name__[0].lower()
        cls.derived = []
        cls.of, cls.sets = of, None if sets is None else staticmethod(sets)
        if of is None and sets is None:
            return
        given: object = of
        if not isinstance(given, type) or not issubclass(given, Sort) or not callable(sets):
            raise SpecError(here(), f"{cls.__name__}: want both of=, a sort, and sets=, a function "
                                    "of its size, as in of=Acceptor, sets=majorities")
        of = given
        require(of.of is None and not of.ordered and not ordered,
                f"{cls.__name__}: neither a sort of sets nor the sort of its elements is ordered, "
                f"and {of.__name__} is no sort of sets itself")
        of.derived.append(cls)

    @classmethod
    def subsets(cls, size: int) -> tuple[frozenset[int], ...]:
        """Each element of a sort of sets as the indices in it. size: of the sort it is `of`."""
        if cls.sets is None:
            raise SpecError(here(), f"{cls.__name__} is no sort of sets: it has no sets=")
        found = tuple(dict.fromkeys(frozenset(one) for one in cls.sets(size)))
        stray = {index for one in found for index in one} - {*range(size)}
        require(not stray, f"{cls.__name__}: sets= gives a set with {min(stray, default=0)} of "
                           f"{size} elements, which are counted from 0")
        return found

    @classmethod
    def members(cls, sizes: "Mapping[type[Sort], int]") -> set[tuple[int, int]]:
        """For `given=` of a rigid relation: each set of this sort with each element in it."""
        if cls.of is None:
            raise SpecError(here(), f"{cls.__name__} is no sort of sets: it has no of=")
        subsets = cls.subsets(sizes[cls.of])
        return {(number, index) for number, one in enumerate(subsets) for index in one}

    def __init__(self, name: str) -> None:
        if type(self) is Sort:
            raise SpecError(here(), "a variable needs a sort: declare `class Thing(Sort)` first")
        given: object = name
        if not isinstance(given, str) or not given.isidentifier():
            one = "" if not isinstance(given, int) else (
                f"; to speak of element {given}, declare a relation that holds for it alone: "
                f"Rigid('chosen', p, given=lambda sizes: {{({given},)}})")
            raise SpecError(here(), f"variable {name!r}: want an identifier such as 'p'{one}")
        self.name: Final = name

    @classmethod
    def own_size(cls) -> int | None:
        """How many elements the sort has by itself: one of numbers has as many as its range."""
        return None

    @classmethod
    def element(cls, index: int) -> str:
        """How element `index` (from 0) reads in a trace."""
        return f"{cls.prefix}{index}"

    def same(self, other: Self) -> Formula:
        """Both variables stand for one element."""
        return Same(self, self._comparable("same", other))

    def differs(self, other: Self) -> Formula:
        """The variables stand for two elements."""
        return Not(Same(self, self._comparable("differs", other)))

    def before(self, other: Self) -> Formula:
        """This element comes earlier in the order of an ordered sort."""
        if not self.ordered:
            raise SpecError(here(), f"{type(self).__name__} has no order: declare it ordered=True")
        return Before(self, self._comparable("before", other))

    def _unordered(self, other: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} is no number: write {self!r}.before({shown(other)}), or "
                                f"{shown(other)}.before({self!r}), if {type(self).__name__} is "
                                "ordered")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def _comparable(self, word: str, other: Self) -> Self:
        own = type(self)
        require(type(other) is own, f"{self!r}.{word}({shown(other)}): {self!r} is of the sort "
                                    f"{own.__name__}: want another variable of it")
        return other

    @property
    def advice(self) -> str:
        return f"a variable is no formula: use a symbol, such as heard({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sort) and type(self) is type(other) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def require_sorts(name: str, given: tuple[object, ...]) -> None:
    """Raise SpecError unless each sort of a function or a relation is one."""
    for one in given:
        remedy = f"write {type(one).__name__}" if isinstance(one, Sort) else (
            "want a class such as `class Worker(Sort)`")
        require(isinstance(one, type) and issubclass(one, Sort),
                f"{name}: {shown(one)} is no sort: {remedy}")


def sorts_of(name: str, variables: tuple[object, ...]) -> tuple[type[Sort], ...]:
    """The sorts of the variables with which a message or a rigid relation is declared."""
    found: list[type[Sort]] = []
    for one in variables:
        if not isinstance(one, Sort):
            example = f"write {one.__name__}({one.__name__[0].lower()!r})" if (
                isinstance(one, type) and issubclass(one, Sort)) else "want one, as in Worker('w')"
            raise SpecError(here(), f"{name}: {shown(one)} is no variable: {example}")
        found.append(type(one))
    return tuple(found)


def wanted(sorts: tuple[type[Sort], ...]) -> str:
    """The arguments that a symbol takes, in the message about wrong ones."""
    names = ", ".join(sort.__name__ for sort in sorts)
    return f"{'variables' if sorts[1:] else 'a variable'} of {names}" if sorts else "no arguments"


def checked(
    told: str, domain: tuple[type[Sort], ...], given: tuple[Any, ...]
) -> tuple[Sort, ...]:
    """The arguments of a symbol, `told`. Raises SpecError unless they are of the right sorts."""
    if len(given) == len(domain) and all(
            one is ANY or type(one) is sort for one, sort in zip(given, domain, strict=True)):
        return given
    got = ", ".join(f"{a}: {type(a).__name__}" if isinstance(a, Sort) else shown(a) for a in given)
    number = next((f"; write {sort.__name__}({shown(one)}) for the number"
                   for one, sort in zip(given, domain, strict=False)
                   if sort.own_size() is not None and not isinstance(one, Sort)), "")
    raise SpecError(here(), f"{told} was given ({got}): want {wanted(domain)}{number}")


def majorities(size: int) -> Collection[tuple[int, ...]]:
    """The smallest majorities of so many elements, for `sets=`."""
    return list(combinations(range(size), size // 2 + 1))


class _Any:
    """Every element of a sort at once: only in the arguments of an update."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ANY"


# Typed Any, because it may stand in any argument position.
ANY: Final[Any] = _Any()
