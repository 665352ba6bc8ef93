"""Finds the claims that are proved without those that are not.

A step may assume every claim, so where one claim fails, each other one is proved only if that one
holds. Most need it for nothing. They are asked once more without it, until those that are left
prove each other (as in the Houdini algorithm).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Claim, Obligation
from pdproto.check.prove.proving import Proof
from pdproto.check.prove.verdicts import UnitStatus, Verdicts


def independent(found: Verdicts, prove: Callable[[Sequence[Obligation]], Proof]) -> Verdicts:
    """The verdicts, where each claim that can do without the unmet ones is proved.

    prove: decides obligations. After an interrupt nothing more is asked.
    """
    unmet = {name for unit in found.units.values() for name in (*unit.unmet, unit.name)
             if name in found.units and found.units[name].open}
    left = {name for name, unit in found.units.items() if unit.standing is UnitStatus.CONDITIONAL}
    while left and not found.proof.interrupted:
        fewer = _Fewer(unmet)
        asked = {name: tuple(map(fewer.of, found.units[name].own)) for name in left}
        proof = prove([o for own in asked.values() for o in own])
        if proof.interrupted:
            return found
        lost = {name for name, own in asked.items() if any(
            {*o.beside} & unmet or proof.status(o) is not Status.PROVED for o in own)}
        if not lost:
            return replace(found, proof=replace(found.proof, independent=frozenset(left)))
        unmet |= lost
        left -= lost
    return found


class _Fewer:
    """Obligations that do not assume these claims. Those that shared assumptions share the rest."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._kept: dict[int, tuple[Claim, ...]] = {}

    def of(self, obligation: Obligation) -> Obligation:
        assumed = obligation.sequent.assumed
        if id(assumed) not in self._kept:
            self._kept[id(assumed)] = tuple(c for c in assumed if c.name not in self._names)
        sequent = replace(obligation.sequent, assumed=self._kept[id(assumed)])
        return replace(obligation, sequent=sequent)
