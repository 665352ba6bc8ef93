"""In the tables of the hand-over one letter means one sort, as the glossary says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.cli.systems import load, subject
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Purpose
from pdproto.spec.language import Sort, System
from pdproto.spec.language.formula import Formula, bound_variables, free_variables

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "reference" / "glossary.md"
OURS = [entry.name for entry in CATALOGUE if entry.purpose is not Purpose.EXAMPLE]


def letters() -> dict[str, str]:
    """The sort of each letter in the glossary."""
    (part,) = re.findall(r"## Letters of the tables\n(.*?)\n## ", GLOSSARY.read_text(), re.DOTALL)
    rows = re.findall(r"^\| (`.*`) \| `(\w+)` \|$", part, re.MULTILINE)
    found = [(letter, sort) for names, sort in rows for letter in re.findall(r"`(\w)`", names)]
    assert len(dict(found)) == len(found), "a letter has two rows"
    return dict(found)


def formulas(name: str) -> Iterator[Formula]:
    """The formulas of the system, of its lemmas and of its rankings."""
    one = subject(name)
    yield from one.system.formulas()
    for claim in (*one.lemmas, *one.helping, *one.fault_free.lemmas):
        yield claim.claim
    yield from (predicate.claim for predicate in one.monotone)
    for ranking in one.every_ranking:
        yield from (helper.when for helper in ranking.helpers)
        yield from (witness.claim for witness in ranking.witnesses)
        if ranking.pending is not None:
            yield ranking.pending


def parameters(system: System) -> Iterator[Sort]:
    for table, row in system.rows():
        yield from table.parameters(row)


def used(name: str) -> set[tuple[str, str]]:
    """Each letter of the system with its sort."""
    found = set(parameters(load(name)))
    for formula in formulas(name):
        found |= {*free_variables(formula), *bound_variables(formula)}
    return {(variable.name, type(variable).__name__) for variable in found
            if len(variable.name) == 1}


@pytest.mark.parametrize("name", OURS)
def test_a_letter_means_one_sort(name: str) -> None:
    assert used(name) <= letters().items()


def test_the_glossary_has_no_letter_that_is_unused() -> None:
    assert {letter for name in OURS for letter, _ in used(name)} == letters().keys()
