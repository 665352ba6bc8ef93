"""The answer of one checker to the questions of a system."""

from collections.abc import Collection
from dataclasses import dataclass


class NotInstalledError(Exception):
    """The other checker is not on this machine; the message says how to get it."""


class FailedError(Exception):
    """The other checker ended without an answer; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The states that a checker found, and the names of the properties that it refuted.

    violated: None where the checker tells only whether there are any (`holds`). seconds: by the
    clock, with the start of the checker. transitions: steps that it took. depth: steps from an
    initial state to the last level; both are 0 where the checker is not asked for them.
    """

    checker: str
    states: int
    holds: bool
    violated: Collection[str] | None
    seconds: float
    transitions: int = 0
    depth: int = 0
