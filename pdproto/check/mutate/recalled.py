"""Results of earlier campaigns: an unchanged mutant is not tried again.

A result is kept under a digest of the unchanged systems at every size that is searched, of their
lemmas, of the checker's code, and of the edit. A mutant that a limit left undecided is not kept.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from pdproto.check.identity import name_of
from pdproto.check.mutate.trials import Judged, MutantOutcome, Search, Trials
from pdproto.check.store import Store
from pdproto.spec.language.system import System


@dataclass(frozen=True)
class Recalled:
    """The kept results of the mutants of these trials."""

    store: Store
    trials: Trials

    def read(self, number: int) -> Judged | None:
        """The result of the mutant with this number; None if it is not kept."""
        return self.store.read(self._name(number), Judged)

    def keep(self, end: Judged) -> None:
        """Keep a result, unless a limit was reached."""
        if end.outcome is not MutantOutcome.UNDECIDED:
            self.store.keep(self._name(end.number), end)

    def _name(self, number: int) -> str | None:
        if self.unchanged is None:
            return None
        edit = f"{number} {self.trials.mutants[number]}"
        return blake2b(f"{self.unchanged} {edit}".encode(), digest_size=16).hexdigest()

    @cached_property
    def unchanged(self) -> str | None:
        """A digest of everything but the edit; None if a system has no identity."""
        found = [
            search_name(search, self.trials.originals[search.system],
                        self.trials.lemmas.get(search.system, ()))
            for search in self.trials.searches
        ]
        known = [name for name in found if name is not None]
        return " ".join(known) if len(known) == len(found) else None


def search_name(search: Search, system: System, *rest: object) -> str | None:
    """The name of a search in an unchanged system, by which its result is kept."""
    return name_of(system, system.configurations[search.configuration], search, *rest)
