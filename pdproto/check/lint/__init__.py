"""Lint: finds errors in a spec without exploring its states.

Every rule is static: it examines the ground rows of a small instance, and the values that each cell
can have. An error is an unanswered event or an ambiguity, which a runtime would run into. A warning
is most likely a mistake. A note is worth knowing.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from pdproto.check.lint.bounds import ELEMENTS, require_small
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

INTERPRETATIONS_MAX: Final = 64


def small(system: System, elements: int = ELEMENTS) -> Configuration:
    """A small configuration: `elements` of each sort, or fewer if all configurations have fewer.

    If the rigid symbols have no interpretation at that size, it is the system's own smallest
    configuration with one. Raises TopologyError if there is none.
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
    next(interpretations(system, sizes, first))  # raises, with the reason
    return first


def lint(
    system: System, chosen: Configuration, lemmas: Sequence[Always] = ()
) -> tuple[Remark, ...]:
    """Every remark on the system with all its fault layers, errors first.

    lemmas: claims that hold in every state, proved elsewhere. A state in which one fails is
    unreachable, so errors there do not count. Raises SpecError or TooLargeError if the system has
    no ground form at these sizes.
    """
    require_small(system, chosen.sizes)
    found, complete = subjects(system, chosen, lemmas)
    return arranged(_remarks(system, found, complete=complete))


def subjects(
    system: System, chosen: Configuration, lemmas: Sequence[Always] = ()
) -> tuple[list[LintSubject], bool]:
    """The subjects of the rules, one for each interpretation of the rigid symbols, and whether
    these are all interpretations (there are at most INTERPRETATIONS_MAX).
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
        # Something is impossible only if it is impossible in every topology.
        yield from rows_that_never_fire(found)
        yield from vacuous_properties(found)
    else:
        problem = f"only {len(found)} interpretations of the rigid symbols were examined"
        yield Remark("incomplete", Severity.NOTE, problem, system.place)
