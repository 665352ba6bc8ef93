"""The systems that have a name on the command line: those of spec/catalogue.py."""

from types import ModuleType
from typing import Final

from pdproto.check import load as checker
from pdproto.check.prove import subject as prover
from pdproto.check.prove.subject import ProofSubject
from pdproto.spec.catalogue import CATALOGUE, RENAMED, SYSTEMS
from pdproto.spec.language.system import System

BUILT_IN: Final = {entry.name: entry.target for entry in CATALOGUE}
LEMMAS: Final = {entry.name: entry.lemma_module for entry in CATALOGUE if entry.lemmas}


def load(name: str) -> System:
    """The system of that name, or at that `module:attribute`.

    Raises LoadError, or SpecError if the spec itself is malformed.
    """
    return load_with_module(name)[0]


def load_with_module(name: str) -> tuple[System, ModuleType]:
    """The system, and the module that it stands in. Raises as `load` does."""
    if name in RENAMED:
        raise checker.LoadError(f"the system {name!r} is now called {RENAMED[name]!r}")
    return checker.load_with_module(name, BUILT_IN)


def subject(name: str, lemmas: str | None = None) -> ProofSubject:
    """The system of that name with its lemmas and rankings. Raises as `with_proofs` does."""
    return with_proofs(name, *load_with_module(name), lemmas)


def with_proofs(name: str, system: System, home: ModuleType, lemmas: str | None) -> ProofSubject:
    """A loaded system with the lemmas and rankings of its entry in the catalogue, if it has one.

    home: the module that it stands in. lemmas: a module's name or a path, in place of these.
    Raises LoadError for lemmas that are not about the system.
    """
    entry = SYSTEMS.get(name)
    own = ("", "") if entry is None else (entry.lemma_module, entry.ranking_module)
    return prover.with_proofs(system, home, lemmas, own, LEMMAS)
