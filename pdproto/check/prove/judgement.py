"""The verdict of an engine on an obligation."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The kind of a verdict."""

    PROVED = "proved"
    FAILED = "failed"  # there is a counterexample to induction
    REFUSED = "refused"  # it is not of the form that the engine decides
    UNKNOWN = "unknown"  # the solver gave up or ran out of time


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict. note: the reason, if the obligation is neither proved nor failed."""

    status: Status
    note: str = ""
