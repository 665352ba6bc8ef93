"""The clock of a process that waits for others: it stands still while the process does.

A process that is stopped, frozen or kept from running hears nobody and serves nobody. So that time
counts for none of its waits, of no part: not as silence of a peer, and not for a hand-over. Times
that are told (metrics, spans, ages) are those of the transport's clock, which goes on.

Nodes have one, and so have registries, threads that look up addresses, and drivers.
"""

from typing import Final

# The longest rest of a loop that has no other bound; twice as long is standing still.
REST_S: Final = 1.0
LEAST_REST_S: Final = 1e-6  # of a loop that rests: what rounding leaves of one moves no clock


class OwnClock:
    """longest_s: the longest rest of a loop between two turns. More than that counts as
    standing still. steady: since when the process has not stood still for as long again, on
    this clock.
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
        turned, own = self._turned
        rest = outer - turned
        own += min(rest, self._longest_s)
        if rest > 2 * self._longest_s:
            self.steady = own
        self._turned = outer, own
        return own

    def outer(self, own: float) -> float:
        """The time of the transport's clock at which this one, if it goes on, has this time."""
        turned, now = self._turned
        return turned + (max(own, now + LEAST_REST_S) if own > now else own) - now

    @property
    def now(self) -> float:
        """The time of the last turn."""
        return self._turned[1]

    def at(self, outer: float) -> float:
        """The time. It never goes back. For any thread."""
        turned, own = self._turned
        return own + min(outer - turned, self._longest_s)
