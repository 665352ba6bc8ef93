"""Lint: finds errors in a spec without exploring its states.

Every rule is static: it examines the ground rows of a small instance, and the values that each cell
can have. An error is an unanswered event or an ambiguity, which a runtime would run into. A warning
is most likely a mistake. A note is worth knowing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from pdproto.check.lint.bounds import ELEMENTS, INTERPRETATIONS_MAX, require_small
from pdproto.check.lint.determinism import determinism
from pdproto.check.lint.names import shared_prefixes, unused_names, unwitnessed
from pdproto.check.lint.promises import attachments, devices, edges
from pdproto.check.lint.remark import Remark, Severity, arranged
from pdproto.check.lint.resend import resends
from pdproto.check.lint.subject import LintSubject
from pdproto.check.lint.totality import totality
from pdproto.check.lint.vacuity import no_start, rows_that_never_fire, vacuous_properties
from pdproto.check.rigid import has_interpretation, interpretations, smallest_first
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.formula import bound_variables, free_variables
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Always
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import DEFAULT, Configuration, System

__all__ = ["ELEMENTS", "Remark", "Severity", "lint", "small", "subjects"]


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
    sizes = system.sized({
        sort: min(elements, largest.get(sort, elements)) for sort in system.sorts})
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
    return arranged((*no_start(system, chosen), *_remarks(system, found, complete=complete),
                     *_impossible(system, chosen, lemmas, found, complete=complete)))


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
    yield from shared_prefixes(system)
    if not complete:
        problem = f"only {len(found)} interpretations of the rigid symbols were examined"
        yield Remark("incomplete", Severity.NOTE, problem, system.place)


def _impossible(
    system: System, chosen: Configuration, lemmas: Sequence[Always], found: list[LintSubject],
    *, complete: bool,
) -> Iterator[Remark]:
    """What never happens, in no topology, and not among as many elements as variables can name."""
    if not complete:
        return
    remarks = [*rows_that_never_fire(found), *vacuous_properties(found)]
    sizes = _nameable(system, chosen.sizes)
    if remarks and sizes != chosen.sizes:
        wider = replace(chosen, sizes=sizes)
        with suppress(SpecError, TooLargeError):  # then all is as it was found
            require_small(system, sizes)
            more, complete = subjects(system, wider, lemmas)
            known = {*rows_that_never_fire(more), *vacuous_properties(more)}
            remarks = [remark for remark in remarks if complete and remark in known]
    yield from remarks


def _nameable(system: System, sizes: Sizes) -> Sizes:
    """The sizes, or more: as many elements of each sort as one row or property has variables."""
    named = [(*table.parameters(row), *bound_variables(table.guard(row)))
             for table, _ in system.tables_under(tuple(system.faults)) for row in table.rows]
    named += [(*free_variables(one), *bound_variables(one)) for one in system.formulas()]
    most = Counter[type[Sort]]()
    for variables in named:
        most |= Counter(type(variable) for variable in dict.fromkeys(variables))
    return system.sized({sort: max(size, most[sort]) for sort, size in sizes.items()})
