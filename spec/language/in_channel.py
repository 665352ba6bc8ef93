"""Formulas about a message that waits in a channel: `data(i).queued`, `data(i).at(s)`."""

from dataclasses import dataclass
from typing import Any, cast

from .formula import And, Atom, Before, Exists, Forall, Formula, Not
from .kinds import require, shown
from .sorts import Sort


@dataclass(frozen=True, slots=True, repr=False)
class InChannel(Atom):
    """A message instance. The formulas here are for a message with `fifo=` (channels.py)."""

    def at(self, place: Sort) -> Formula:
        """The message waits in this place of its channel."""
        fifo = self._places
        require(fifo is not None, f"{self!r} has no place: declare {self.symbol} with fifo=, an "
                                  "ordered sort")
        require(type(place) is fifo,
                f"{self!r}.at({shown(place)}): want a variable of {shown(fifo)}")
        return Atom(self.symbol, (*self.arguments, place), True)

    @property
    def queued(self) -> Formula:
        """The message waits in its channel."""
        place = self._place()
        return Exists(place, self.at(place))

    @property
    def arrived(self) -> Formula:
        """The message can be delivered: in a channel, it is the first one."""
        if self._places is None:
            return self
        place = self._place()
        earlier = self._places(f"before_{place!r}")
        return Exists(place, And((self.at(place), Forall(earlier, Not(Before(earlier, place))))))

    def _place(self) -> Sort:
        """A variable for a place, which is none of the arguments."""
        fifo = self._places
        require(fifo is not None, f"{self!r}.queued: {self.symbol} waits in no channel: write "
                                  f"{self!r}, or declare it with fifo=, an ordered sort")
        place = cast("type[Sort]", fifo)(f"{self.symbol.name}_place")
        while place in self.arguments:
            place = type(place)(f"{place.name}_")
        return place

    @property
    def _places(self) -> type[Sort] | None:
        return cast("Any", self.symbol).fifo  # type: ignore[no-any-return]  # a message's
