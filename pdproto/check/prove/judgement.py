"""What an engine says of an obligation."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    PROVED = "proved"
    FAILED = "failed"  # there is a counterexample to induction
    REFUSED = "refused"  # it is not of the form that the engine decides
    UNKNOWN = "unknown"  # the solver gave up or ran out of time


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, with the reason where it is none."""

    status: Status
    note: str = ""
