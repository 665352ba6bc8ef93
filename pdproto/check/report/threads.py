"""Connects each receipt with its sending, and places the line between them.

A message may be on its way for many steps. Its line leaves the lane of the sender when it is sent,
goes down between two lanes, and crosses to a receiver when it is received or lost. Several lines
between the same two lanes are parallel tracks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pdproto.check.result import Arrow, Trace

# More tracks than this between two lanes are drawn over one another.
TRACKS: Final = 3


@dataclass(frozen=True, slots=True)
class Thread:
    """One message on its way: sent at step `sent`, arriving at steps `ends` (both from 0).

    ends: empty if the message is still on its way when the trace ends. gutter: the space between
    lanes for its line; gutter g lies left of lane g. track: its place there, from 0.
    """

    message: str
    sender: str
    sent: int
    ends: tuple[int, ...]
    gutter: int
    track: int = 0

    def passes(self, step: int) -> bool:
        """Whether the line only passes the step, without beginning or ending there."""
        return bool(self.ends) and self.sent < step < self.ends[-1]


def threads(trace: Trace, columns: Mapping[str, int]) -> tuple[Thread, ...]:
    """Return the messages sent along the trace whose sender has a column, in order of sending.

    A message to both sides of its sender is two threads.
    """
    routed: list[Thread] = []
    for sent, step in enumerate(trace.steps):
        for arrow in step.sent:
            if arrow.sender in columns:
                routed += _routes(trace, arrow, sent, columns)
    laid: list[Thread] = []
    for thread in routed:
        taken = {other.track for other in laid if _overlap(other, thread)}
        free = next((track for track in range(TRACKS) if track not in taken), TRACKS - 1)
        laid.append(
            Thread(thread.message, thread.sender, thread.sent, thread.ends, thread.gutter, free)
        )
    return tuple(laid)


def _routes(trace: Trace, arrow: Arrow, sent: int, columns: Mapping[str, int]) -> list[Thread]:
    """Return the one or two threads of a message, by the side on which it arrives."""
    source = columns[arrow.sender]
    ends: dict[int, list[int]] = {}
    for index in range(sent + 1, len(trace.steps)):
        step = trace.steps[index]
        for target in _targets(trace, index, arrow, columns):
            gutter = source if target < source else source + 1
            ends.setdefault(gutter, []).append(index)
        if any(_same(arrow, again) for again in step.sent):
            break
    if not ends:
        known = [columns[name] for name in arrow.receivers if name in columns]
        leftward = bool(known) and max(known) < source
        return [Thread(arrow.message, arrow.sender, sent, (), source if leftward else source + 1)]
    return [
        Thread(arrow.message, arrow.sender, sent, tuple(dict.fromkeys(steps)), gutter)
        for gutter, steps in sorted(ends.items())
    ]


def _targets(trace: Trace, index: int, arrow: Arrow, columns: Mapping[str, int]) -> list[int]:
    """Return the columns where step `index` receives the message, or takes it off the network."""
    step = trace.steps[index]
    found = []
    if step.received is not None and _same(arrow, step.received):
        found.append(columns[step.lane])
    for lost in step.lost:
        if _same(arrow, lost):
            found.append(lost_at(lost, columns))
    return found


def lost_at(arrow: Arrow, columns: Mapping[str, int]) -> int:
    """Return the column towards which a lost message was going: its first receiver's."""
    known = [columns[name] for name in arrow.receivers if name in columns]
    return known[0] if known else columns.get(arrow.sender, 0)


def _same(one: Arrow, other: Arrow) -> bool:
    return one.message == other.message and one.sender == other.sender


def _overlap(one: Thread, other: Thread) -> bool:
    """Whether both lines are in the same gutter at some step."""
    return (
        one.gutter == other.gutter
        and one.sent <= (other.ends or (other.sent,))[-1]
        and other.sent <= (one.ends or (one.sent,))[-1]
    )
