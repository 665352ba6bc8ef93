"""The systems that have a name on the command line: those of spec/catalogue.py."""

from types import ModuleType
from typing import Final

from pdproto.check import load as checker
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.language.system import System

BUILT_IN: Final = {entry.name: entry.target for entry in CATALOGUE}


def load(name: str) -> System:
    """The system of that name, or at that `module:attribute`.

    Raises LoadError, or SpecError if the spec itself is malformed.
    """
    return checker.load(name, BUILT_IN)


def load_with_module(name: str) -> tuple[System, ModuleType]:
    """The system, and the module that it stands in. Raises as `load` does."""
    return checker.load_with_module(name, BUILT_IN)
