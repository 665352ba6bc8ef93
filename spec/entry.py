"""The entry of a system in the catalogue: name, module, purpose, proofs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SPEC: Final = "pdproto.spec."


class Purpose(StrEnum):
    """The purpose of a system."""

    EXAMPLE = "an example of the language"
    HANDOFF = "a part of the hand-over, which `pdproto check` explores"
    COMPOSED = "a composition of parts of the hand-over, which `pdproto check` explores too"
    COMPARED = "another way to do a part of the hand-over, or a smaller model of it"


@dataclass(frozen=True, slots=True)
class Entry:
    """One system.

    at: its module below pdproto/spec, and the attribute. lemmas, ranking: the modules of
    spec/lemmas that prove its safety and its liveness; empty if nothing is proved. runs: processes
    run its tables, so `pdproto prove` without a name proves it
    (tests/handoff/test_proved_by_default.py). Raises ValueError for an entry that is wrong for any
    system.
    """

    name: str
    at: str
    purpose: Purpose = Purpose.HANDOFF
    lemmas: str = ""
    ranking: str = ""
    runs: bool = False

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum() or self.name != self.name.lower():
            raise ValueError(f"{self.name!r}: a name is small letters and digits, with hyphens")
        module, _, attribute = self.at.partition(":")
        if not module or not attribute.isidentifier():
            raise ValueError(f"{self.name}: at={self.at!r} is not of the form module:ATTRIBUTE")
        if self.ranking and not self.lemmas:
            raise ValueError(f"{self.name}: the ranking {self.ranking!r} needs lemmas to rest on")
        if self.runs and not self.lemmas:
            raise ValueError(f"{self.name}: processes run it, so it needs lemmas")

    @property
    def of_the_handoff(self) -> bool:
        """Whether `pdproto check` explores it, so the promises count it."""
        return self.purpose in (Purpose.HANDOFF, Purpose.COMPOSED)

    @property
    def target(self) -> str:
        """`module:attribute`, as Python imports it."""
        return f"{_SPEC}{self.at}"

    @property
    def lemma_module(self) -> str:
        """The module with its LEMMAS; empty if there is none."""
        return self.lemmas and f"{_SPEC}lemmas.{self.lemmas}"

    @property
    def ranking_module(self) -> str:
        """The module with its RANKINGS; empty if there is none."""
        return self.ranking and f"{_SPEC}lemmas.{self.ranking}"
