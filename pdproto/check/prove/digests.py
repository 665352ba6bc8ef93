"""Names of questions to the prover, by which answers are kept, shared and merged.

A name is a digest of the question's structure (check/identity.py), of the solver's version, and of
pdproto's code. Neither places nor the names and reasons of claims are in it: an answer stands where
only these change.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from pdproto.check.identity import code, content
from pdproto.check.prove.obligations import Claim, Obligation
from pdproto.check.prove.solver_version import solver_version
from pdproto.ground.structure import Structure
from pdproto.spec.language.system import System


class Digests:
    """The names of the obligations of one system."""

    def __init__(self, system: System) -> None:
        self._structure: Final = Structure()
        self._base: Final = blake2b(self._structure.of((
            code(), solver_version(), system.sorts, system.variables, system.rigids, system.axioms,
        )), digest_size=16)
        # Obligations share their assumptions: a tuple of claims is digested once.
        self._assumed: Final[dict[int, tuple[Sequence[Claim], bytes]]] = {}

    def of(self, obligation: Obligation, engine: str) -> str:
        """A digest of the question whether this engine proves the obligation, as hex."""
        claim, sequent, row = obligation.claim, obligation.sequent, obligation.row
        own = None if obligation.table is None else (
            obligation.table.machine, obligation.table.state)
        digest = self._base.copy()
        digest.update(self._structure.of((
            engine, claim.formula, claim.method, claim.by, sequent.facts, sequent.goal, own,
            row, obligation.layer,
        )))
        digest.update(self._of_assumed(sequent.assumed))
        return digest.hexdigest()

    def _of_assumed(self, claims: tuple[Claim, ...]) -> bytes:
        known = self._assumed.get(id(claims))
        if known is None:
            formulas = tuple(claim.formula for claim in claims)
            known = self._assumed[id(claims)] = claims, self._structure.of(formulas)
        return known[1]


def name_of_system(system: System) -> str:
    """A digest of the system, its faults, properties and axioms, by which its record is named."""
    structure = Structure()
    return structure.of((code(), solver_version(), content(system))).hex()
