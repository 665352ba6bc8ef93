"""Values that are no formulas, although they stand where one could be meant."""

from typing import NoReturn

from .place import SpecError, here


class NoFormula:
    """A value that is not a formula, with advice on what to write instead."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise SpecError(here(), f"{self!r} has no truth value here: {self.advice}")

    @property
    def advice(self) -> str:
        """What to write instead."""
        raise NotImplementedError

    def __invert__(self) -> NoReturn:
        raise SpecError(here(), f"~{self!r}: {self.advice}")

    def __and__(self, _: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} & ...: {self.advice}")

    def __or__(self, _: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} | ...: {self.advice}")


class Bindable(NoFormula):
    """A variable: a quantifier can bind it."""

    __slots__ = ()
