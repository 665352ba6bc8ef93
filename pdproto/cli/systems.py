"""The systems with a name on the command line: those of spec/catalogue.py."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from pdproto.check import counts
from pdproto.check import load as checker
from pdproto.check.prove import subject as prover
from pdproto.check.prove.subject import ProofSubject
from pdproto.spec import catalogue
from pdproto.spec.catalogue import CATALOGUE, HANDOFF, SYSTEMS
from pdproto.spec.entry import Purpose
from pdproto.spec.language.system import System

BUILT_IN: Final = {entry.name: entry.target for entry in CATALOGUE}
LEMMAS: Final = {entry.name: entry.lemma_module for entry in CATALOGUE if entry.lemmas}
COUNTS: Final = Path(catalogue.__file__).with_name("counts.json")
# Not mutated by themselves: systems with the rows of another one, and systems that only deep runs
# explore.
NOT_MUTATED: Final = frozenset({
    "optimistic-keeping", "transfer-two-sinks", "transfer-two-lives", "transfer-two-sources",
    "group-transfer-pair", "sink-group-pair", "end-to-end-restart",
})


@cache
def recorded() -> counts.Recorded:
    """The file of counts of the systems of the hand-over."""
    return counts.read(COUNTS)


@cache
def expected() -> Mapping[tuple[str, str], counts.Counts]:
    """The counts of each configuration of the systems of the hand-over, as they were recorded."""
    return {key: one.counts for key, one in recorded().items()}


def load(name: str) -> System:
    """The system of that name, or at that `module:attribute`.

    Raises LoadError, or SpecError if the spec itself is malformed.
    """
    return load_with_module(name)[0]


def load_with_module(name: str) -> tuple[System, ModuleType]:
    """The system, and its module. Raises the errors of `load`."""
    return checker.load_with_module(name, BUILT_IN)


def subject(name: str, lemmas: str | None = None) -> ProofSubject:
    """The system of that name as it is proved, with its lemmas and rankings.

    Raises the errors of `as_written`, and SpecError for a count of which no proof can speak.
    """
    return as_written(name, lemmas).without_counts()


def as_written(name: str, lemmas: str | None = None) -> ProofSubject:
    """The same with its counts as they are written. Raises the errors of `with_proofs`."""
    return with_proofs(name, *load_with_module(name), lemmas)


def with_proofs(name: str, system: System, home: ModuleType, lemmas: str | None) -> ProofSubject:
    """A loaded system with the lemmas and rankings of its entry in the catalogue, if it has one.

    home: the module of the system. lemmas: a module's name or a path, instead of the entry's.
    Raises LoadError for lemmas that are not about the system.
    """
    entry = SYSTEMS.get(name)
    own = ("", "") if entry is None else (entry.lemma_module, entry.ranking_module)
    return prover.with_proofs(system, home, lemmas, own, LEMMAS)


def files_of_a_run(folder: Path) -> Iterator[Path]:
    """What is in the folder of a result, and in those in it that have the name of a system: a run
    writes nowhere else, so what lies deeper is of others.
    """
    for place in (folder, *(folder / name for name in BUILT_IN)):
        if place.is_dir():
            yield from list(place.iterdir())


def families(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The systems to mutate, in groups that share tables. names: if empty, the whole hand-over."""
    parts = handover()
    if not names:
        return parts
    for part in parts:
        if set(names) <= set(part):
            return (part,)
    return (tuple(dict.fromkeys(names)),)


def handover() -> tuple[tuple[str, ...], ...]:
    """The systems of the hand-over, in groups: each part with its variants (`PART-...`)."""
    parts: dict[str, list[str]] = {}
    for name in (name for name in HANDOFF if name not in NOT_MUTATED):
        part = next((first for first in parts if name.startswith(f"{first}-")), name)
        parts.setdefault(part, []).append(name)
    return tuple(map(tuple, parts.values()))


def parts_of(names: Sequence[str]) -> tuple[System, ...]:
    """The systems in which the parts of composed systems are mutated; none for other systems.

    names: of systems that are mutated together.
    """
    if not all(name in SYSTEMS and SYSTEMS[name].purpose is Purpose.COMPOSED for name in names):
        return ()
    return tuple(load(name) for name in HANDOFF
                 if SYSTEMS[name].purpose is not Purpose.COMPOSED)
