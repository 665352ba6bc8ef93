"""Lint: what is wrong with a spec before a single state is explored.

Every rule is static: it looks at the ground rows of a small instance and at which values each cell
can take by itself. An error is a hole or an ambiguity that a runtime would run into; a warning is
most likely not what was meant; a note is worth knowing.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from pdproto.check.lint.determinism import determinism
from pdproto.check.lint.names import unused_names, unwitnessed
from pdproto.check.lint.promises import attachments, devices, edges
from pdproto.check.lint.remark import Remark, Severity, arranged
from pdproto.check.lint.resend import resends
from pdproto.check.lint.subject import LintSubject
from pdproto.check.lint.totality import totality
from pdproto.check.lint.vacuity import rows_that_never_fire, vacuous_properties
from pdproto.check.rigid import has_interpretation, interpretations, smallest_first
from pdproto.spec.language.properties import Always
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import DEFAULT, Configuration, System

__all__ = ["ELEMENTS", "Remark", "Severity", "lint", "small", "subjects"]

ELEMENTS: Final = 2  # of each sort: two of everything that can differ
INTERPRETATIONS_MAX: Final = 64


def small(system: System, elements: int = ELEMENTS) -> Configuration:
    """`elements` of each sort, or fewer where no configuration of the system has as many.

    Where its rigid symbols have no interpretation of that size, the system's own smallest
    configuration that has one. Raises TopologyError if there is none.
    """
    largest: dict[type[Sort], int] = {}
    for configuration in system.configurations.values():
        for sort, size in configuration.sizes.items():
            largest[sort] = max(size, largest.get(sort, 0))
    default = system.configurations.get(DEFAULT, Configuration({}))
    sizes = {sort: min(elements, largest.get(sort, elements)) for sort in system.sorts}
    first = Configuration(sizes, given=default.given)
    for chosen in (first, *smallest_first(system)):
        if has_interpretation(system, chosen):
            return chosen
    next(interpretations(system, sizes, first))  # which says why there is none
    return first


def lint(
    system: System, chosen: Configuration, lemmas: Sequence[Always] = ()
) -> tuple[Remark, ...]:
    """Every remark on the system with all its fault layers, errors first.

    lemmas: what holds in every state, as is proved elsewhere; it excuses holes and ambiguities in
    states in which it does not hold.
    Raises SpecError or TooLargeError where the system has no ground form at these sizes.
    """
    found, complete = subjects(system, chosen, lemmas)
    return arranged(_remarks(system, found, complete=complete))


def subjects(
    system: System, chosen: Configuration, lemmas: Sequence[Always] = ()
) -> tuple[list[LintSubject], bool]:
    """What the rules look at, one for each interpretation of the rigid symbols, up to a limit; and
    whether these are all.
    """
    worlds = interpretations(system, chosen.sizes, chosen)
    found = [LintSubject(system, chosen.sizes, given, lemmas)
             for given in islice(worlds, INTERPRETATIONS_MAX)]
    return found, next(worlds, None) is None


def _remarks(system: System, found: list[LintSubject], *, complete: bool) -> Iterator[Remark]:
    for subject in found:
        yield from totality(subject)
        yield from determinism(subject)
        yield from edges(subject)
        yield from attachments(subject)
        yield from resends(subject)
    yield from devices(system)
    yield from unused_names(system)
    yield from unwitnessed(system)
    if complete:
        # What is impossible is so only if every topology has been looked at.
        yield from rows_that_never_fire(found)
        yield from vacuous_properties(found)
    else:
        problem = f"only {len(found)} interpretations of the rigid symbols were looked at"
        yield Remark("incomplete", Severity.NOTE, problem, system.place)
