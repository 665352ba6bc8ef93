"""The clock of a node: it stands still while the node does.

A process that is stopped, frozen or kept from running hears nobody and serves nobody. So that time
counts for none of its waits, of no part: not as silence of a peer, and not for a hand-over. Times
that are told (metrics, spans, ages) are those of the transport's clock, which goes on.
"""

from typing import Final


class OwnClock:
    """longest_s: the longest rest of the node's loop between two turns. More than that counts as
    standing still. steady: since when the node has not stood still for as long again, on this
    clock.
    """

    def __init__(self, longest_s: float) -> None:
        self.steady = 0.0
        self._longest_s: Final = longest_s
        # The time of the last turn on the transport's clock and on this one: one value, because
        # other threads read them.
        self._turned = (0.0, 0.0)

    def begin(self, outer: float) -> float:
        """Go from now on. outer: the time of the transport's clock, here and below."""
        self._turned, self.steady = (outer, outer), outer
        return outer

    def turn(self, outer: float) -> float:
        """A turn begins. Returns its time."""
        own = self.at(outer)
        if outer - self._turned[0] > 2 * self._longest_s:
            self.steady = own
        self._turned = outer, own
        return own

    @property
    def now(self) -> float:
        """The time of the last turn."""
        return self._turned[1]

    def at(self, outer: float) -> float:
        """The time. It never goes back. For any thread."""
        turned, own = self._turned
        return own + min(outer - turned, self._longest_s)
