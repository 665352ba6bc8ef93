"""A remark of lint: one line about one place of a spec."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pdproto.spec.language.place import Place


class Severity(StrEnum):
    """How much a remark matters."""

    ERROR = "error"  # the tables do not define something that a runtime must know
    WARNING = "warning"  # most likely a mistake
    NOTE = "note"  # worth knowing, and often correct


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding. witness: the cells of a state that shows it, `vote(p0) = committed`."""

    rule: str
    severity: Severity
    message: str
    place: Place
    witness: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The remark in the format of compilers, so that editors can jump to its place."""
        return f"{self.place}: {self.severity}: {self.rule}: {self.problem}"

    @property
    def problem(self) -> str:
        """The message, with the state that shows it."""
        example = f" (where {', '.join(self.witness)})" if self.witness else ""
        return f"{self.message}{example}"


_ORDER: Final = tuple(Severity)


def arranged(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks by severity, then by place. Of those that differ only in the witness, the first.
    """
    first: dict[tuple[str, str, Place], Remark] = {}
    for remark in remarks:
        first.setdefault((remark.rule, remark.message, remark.place), remark)
    return tuple(
        sorted(
            first.values(),
            key=lambda r: (_ORDER.index(r.severity), r.place.path, r.place.line, r.rule, r.message),
        )
    )
