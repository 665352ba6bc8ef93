"""The verdict on every claim of a proof, and everything on which it rests.

Reports, exit statuses, records and marks of `pdproto check` are made from this alone.

A *unit* is a claim, or a group of obligations that is judged as a whole: a `leads_to` with its
ranking, the monotone predicates, the answers of a machine. It is *met* if all its own obligations
are proved. Each obligation says what its proof assumes (`Obligation.rests_on`). A unit is *proved*
if it is met, and all units are met on which it rests, directly or not.

**Theorem.** A claim that is proved holds in every reachable state, at every size from 1 on.

*Proof.* Take the claims on which it rests, and itself. Those that are proved by induction hold at
the start, and a row keeps each of them in a state in which all of them hold. So all of them hold in
every reachable state, by one induction over the steps of a run, in which they may assume each
other. A claim that follows from others (`by`) holds in each state in which they do, and those are
proved by induction, so a step may assume it too. A claim about a row, an edge or an answer is about
single steps from reachable states, and no induction assumes it. A ranking assumes claims, edges and
monotone predicates, and nothing assumes a ranking. So there is no other circle.

Nothing counts that was not asked. So of a part of a proof, such as a shard, it follows that a claim
is proved *if* the others hold, and not more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import MONOTONE, Claim, Obligation
from pdproto.check.prove.proving import Proof
from pdproto.check.prove.subject import ProofSubject

NOT_ASKED: Final = "it was not asked here"


class UnitStatus(StrEnum):
    """The verdict on a unit. CONDITIONAL: it is met, but it rests on one that is not."""

    PROVED = "proved"
    CONDITIONAL = "open"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class UnitVerdict:
    """The verdict on a unit.

    own: its obligations. open: those of them that are not proved. unmet: the other units on which
    it rests that are not met. doubt: why its assumptions might contradict each other.
    """

    name: str
    standing: UnitStatus
    own: tuple[Obligation, ...]
    open: tuple[Obligation, ...] = ()
    unmet: tuple[str, ...] = ()
    doubt: str = ""


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a proof. wanted: the units that were asked for; all if empty."""

    one: ProofSubject
    proof: Proof
    wanted: Sequence[str] = ()
    _asked: Collection[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        asked = frozenset(map(id, self.proof.obligations))
        object.__setattr__(self, "_asked", asked)

    @cached_property
    def units(self) -> Mapping[str, UnitVerdict]:
        """Every unit of the subject with its verdict, in the order of its obligations."""
        return {name: self._verdict(name) for name in self.one.units}

    def of(self, claim: Claim) -> UnitVerdict:
        """The verdict on the unit of a claim. A claim without obligations is met by itself."""
        name = claim.part_of or claim.name
        return self.units.get(name) or UnitVerdict(name, UnitStatus.PROVED, ())

    @cached_property
    def chosen(self) -> tuple[str, ...]:
        """The names of the units that were asked for."""
        ranked = {ranking.leads_to for ranking in self.one.every_ranking} & {*self.wanted}
        names = {*self.wanted, *((MONOTONE,) if ranked else ())}
        return tuple(name for name in self.one.units if not self.wanted or name in names)

    @property
    def proved(self) -> frozenset[str]:
        """The names of all units that are proved."""
        return frozenset(verdict.name for verdict in self.units.values()
                         if verdict.standing is UnitStatus.PROVED)

    @cached_property
    def told(self) -> frozenset[str]:
        """The units that were asked for, and those that are not met of which one is proved only if
        they hold.
        """
        unmet = (name for chosen in self.chosen for name in self.units[chosen].unmet)
        return frozenset(self.chosen) | frozenset(unmet)

    @property
    def failed(self) -> Iterator[Obligation]:
        """The obligations of told units that fail."""
        return (o for o in self.proof.obligations
                if o.unit in self.told and self.proof.status(o) is Status.FAILED)

    @property
    def verdict(self) -> UnitStatus:
        """The verdict on all that was asked for: FAILED also if it rests on something that fails;
        UNKNOWN also if there is nothing to prove.
        """
        if any(self.failed):
            return UnitStatus.FAILED
        if not self.chosen or not self.proof.from_possible_axioms:
            return UnitStatus.UNKNOWN
        found = {self.units[name].standing for name in self.chosen}
        worst = (UnitStatus.FAILED, UnitStatus.UNKNOWN, UnitStatus.CONDITIONAL, UnitStatus.PROVED)
        return next(standing for standing in worst if standing in found)

    @property
    def exit_status(self) -> int:
        """0 if all that was asked for is proved, 1 if it fails, and else 3."""
        return {UnitStatus.PROVED: 0, UnitStatus.FAILED: 1}.get(self.verdict, 3)

    def status(self, obligation: Obligation) -> Status:
        """The verdict on one obligation; UNKNOWN if it was not asked."""
        return self.proof.status(obligation) if id(obligation) in self._asked else Status.UNKNOWN

    def _verdict(self, name: str) -> UnitVerdict:
        own = self.one.units[name]
        left = self._open[name]
        rested = (self.one.meant(name) if name in self.proof.independent
                  else self.one.closure([name]))
        unmet = tuple(other for other in rested
                      if other != name and (self._open.get(other) or self._doubt(other)))
        doubt = self._doubt(name)
        if any(self.status(o) is Status.FAILED for o in left):
            standing = UnitStatus.FAILED
        elif left or doubt:
            standing = UnitStatus.UNKNOWN
        else:
            standing = UnitStatus.CONDITIONAL if unmet else UnitStatus.PROVED
        return UnitVerdict(name, standing, own, left, unmet, doubt)

    def _doubt(self, name: str) -> str:
        if not self.proof.from_possible_axioms:
            return self.proof.axioms.note
        return self.proof.doubts.get(name, "")

    @cached_property
    def _open(self) -> Mapping[str, tuple[Obligation, ...]]:
        """By unit, its obligations that are not proved."""
        return {name: tuple(o for o in own if self.status(o) is not Status.PROVED)
                for name, own in self.one.units.items()}

