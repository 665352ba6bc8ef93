"""The oracle shares no line with the checker, and lacks no word of the language; nor do the systems
that are drawn.
"""

import ast
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pdproto.spec import language
from pdproto.spec.language import Configuration, Machine, Sort, System
from pdproto.spec.language.edit import Edit
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.symbols import Symbol
from tests import tonight
from tests.layers import imports
from tests.oracle.systems import ABOVE, NUMBERS, STARTS, draw

HERE = Path(__file__).parent
ORACLE = ("interpreter", "ends", "search", "fair", "orbits", "answers", "witness", "above")
DRAWING = ("parts", "systems", "numbers", "lists", "refined")
RARE = ABOVE + 42  # has what few systems have
# Together these have every word: they are drawn first.
FIRST = (RARE, 0, 3, NUMBERS, NUMBERS + 1, NUMBERS + 2, NUMBERS + 6, ABOVE, ABOVE + 1, ABOVE + 4,
         ABOVE + 13, STARTS, STARTS + 1, STARTS + 2, STARTS + 6, STARTS + 16)
KINDS = 0, NUMBERS, ABOVE, STARTS
BY_DAY = *FIRST, *(kind + number for number in range(75) for kind in KINDS)
# Of three nights, the words took 200, 280 and 320 systems.
TONIGHT = tuple(seed for each in zip(*(tonight.seeds(kind, 160) for kind in KINDS), strict=True)
                for seed in each)

# Classes of the language that are no part of a system.
OUTSIDE = {
    "Bindable": "a base of variables", "NoFormula": "a base of what is no formula",
    "Channel": "how the checker names a channel", "Place": "a file and a line",
    "Postponed": "stands for a system that is refused", "SpecError": "what a refusal raises",
    "Term": "a base of numbers", "Chooser": "the same", "Number": "a base of enums",
    "Mapped": "how the checker reads a mapping", "Linear": "how a comparison of counts is written",
    "Symbol": "a base of symbols", "Variable": "a base of variables of machines",
    "State": "a base of enums", "Instance": "a machine at variables: in messages, by their ends",
    "InChannel": "a base of messages as formulas", "Formula": "a base of formulas",
    "Cell": "an application, of which a formula or an update is made",
    "ElementCell": "the same of a function into a sort",
    "Monotone": "advice for the prover", "Help": "the same", "Witness": "the same",
    "CopiedElement": "how the checker reads a copy", "Updates": "a row has the updates inside",
    "Numbers": "a base of sorts", "Numeric": "how a type checker knows these",
    "Use": "the same", "Ranking": "the same", "FaultFree": "the same",
    "Decisions": "how a comparison of numbers is written",
}
# Fields with one value in all systems that are drawn, with the reason. Texts change no answer.
TEXTS = {"place", "name", "about", "why"}
ONE_VALUE = {
    ("System", "base"): "the system before an edit",
    ("Configuration", "symmetry"): "each way to ask the checker has its own",
    ("Configuration", "dead_bits"): "the same",
    ("Table", "_guards"): "a memory of the checker",
    ("Table", "_assigned"): "a memory of the checker",
    ("ElementFunction", "edges"): "refused", ("ElementFunction", "engine"): "refused",
    ("ElementFunction", "engine_writes"): "refused", ("Relation", "edges"): "refused",
    ("ElementFunction", "values"): "truth values", ("Message", "values"): "the same",
    ("NumberFunction", "edges"): "refused", ("NumberFunction", "engine"): "refused",
    ("NumberFunction", "engine_writes"): "refused", ("InRange", "by"): "it is derived",
    ("Message", "starts_free"): "no variable", ("Rigid", "starts_free"): "the same",
    ("IsNumber", "starts_free"): "the same", ("IsNumber", "visible_to"): "visible to all",
    ("IsNumber", "values"): "truth values", ("IsNumber", "sorts"): "each sort has this name",
    ("Rigid", "values"): "truth values", ("Fact", "value"): "true", ("Sent", "value"): "true",
}
# Fields that change no answer of a search, so that the oracle need not read them.
NOT_READ = {
    "place", "path", "line", "about", "why", "text",  # texts
    "most",  # the number of a list's places
    "base", "_guards", "_assigned",  # memories
    "by",  # advice for the prover: the claim is judged as any other
    "symmetry", "dead_bits", "configurations",  # the way in which the checker is asked
    "any_time", "reliable",  # what lint asks for
    "host",  # it reads and writes all, as a world does
    "visible_to", "engine", "engine_writes", "owner",  # refused to all others
    "bound", "high",  # the form of a comparison for the checker; the last of a range's values
    "prefix", "of", "sets",  # an element's name; the size of a sort of sets
}


def names_in(module: str) -> set[str]:
    """Every name, attribute and keyword in a module of this folder."""
    tree = ast.parse((HERE / f"{module}.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.keyword(arg=str() as name):
                found.add(name)
    return found


@cache
def classes() -> dict[str, type]:
    """Every public class of the language."""
    modules = [import_module(f"{language.__name__}.{one.name}")
               for one in pkgutil.iter_modules(language.__path__)]
    return {name: one for module in modules for name, one in vars(module).items()
            if inspect.isclass(one) and one.__module__ == module.__name__
            and not name.startswith("_")}


@cache
def census(seeds: Sequence[int] = BY_DAY) -> Mapping[tuple[str, str], set[str]]:
    """For each class and field of the drawn systems, two values that occur, as text, or all: of as
    many systems as it takes until nothing is lacking.
    """
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for seed in seeds:
        system, configuration = draw(seed)
        known: set[int] = set()
        for one in walked((system, configuration), known):
            for name, value in parts_of(one):
                values = seen[kind_of(one), name]
                if len(values) < 2:
                    values.add(repr(value)[:200])
        if not (without_a_system(seen) or with_one_value(seen)):
            break
    return seen


def without_a_system(seen: Mapping[tuple[str, str], set[str]]) -> set[str]:
    """Classes of the language that have not been drawn, and should be."""
    kinds = {kind for kind, _ in seen} | {edit.__name__ for edit in Edit.__args__} | {"Fairness"}
    return classes().keys() - kinds - OUTSIDE.keys()


def with_one_value(seen: Mapping[tuple[str, str], set[str]]) -> set[tuple[str, str]]:
    """Fields of which a second value should have been drawn."""
    return {(kind, name) for (kind, name), values in seen.items()
            if len(values) < 2 and name not in TEXTS and (kind, name) not in ONE_VALUE}


def kind_of(one: object) -> str:
    return "Sort" if isinstance(one, type) else type(one).__name__


def parts_of(one: object) -> Iterator[tuple[str, Any]]:
    if isinstance(one, type):
        yield from ((name, getattr(one, name)) for name in ("ordered", "prefix", "of", "sets"))
    elif is_dataclass(one):
        yield from ((field.name, getattr(one, field.name)) for field in fields(one)
                    if hasattr(one, field.name))
    elif isinstance(one, Machine | Symbol):
        yield from vars(one).items()


def walked(one: Any, known: set[int]) -> Iterator[object]:
    """Every object of the language inside."""
    if id(one) in known:
        return
    if isinstance(one, Mapping):
        for item in one.items():
            yield from walked(item, known)
    elif isinstance(one, tuple | list | set | frozenset):
        for part in one:
            yield from walked(part, known)
    elif isinstance(one, type) and issubclass(one, Sort):
        known.add(id(one))
        yield one
    elif isinstance(one, Enum):
        yield one
    elif isinstance(one, Sort):
        yield from walked(type(one), known)
    elif type(one).__module__.startswith(language.__name__):
        known.add(id(one))
        yield one
        for _, value in parts_of(one):
            yield from walked(value, known)


@pytest.mark.parametrize("module", ORACLE)
def test_the_oracle_shares_no_line_with_the_checker(module: str) -> None:
    """It imports the values that a spec module builds, and nothing that reads them."""
    may = ("pdproto.spec.language", *(f"tests.oracle.{one}" for one in ORACLE))
    of_ours = [name for name in imports(HERE / f"{module}.py")
               if name.split(".")[0] in ("pdproto", "tests")]
    assert of_ours
    assert [name for name in of_ours if not name.startswith(may)] == []
    # Nor one of the readings that the language itself offers to the checker.
    helpers = {"guard", "condition", "assignments", "updates", "formulas", "plain", "reading",
               "conditions", "negated", "normal", "free_variables", "channel_of", "queue_at",
               "ends_of", "overriding", "tables_under", "one_value"}
    assert names_in(module) & helpers == set()


def test_each_public_word_is_drawn() -> None:
    drawn = set.union(*map(names_in, DRAWING))
    assert set(language.__all__) - drawn == set()
    assert {edit.__name__ for edit in Edit.__args__} - drawn == set()


def test_each_way_to_write_a_formula_or_an_effect_is_drawn() -> None:
    """Every public method of variables, cells, facts and messages."""
    drawn = set.union(*map(names_in, DRAWING))
    every = classes()
    for name in ("Sort", "Cell", "ElementCell", "Fact", "Sent", "InChannel", "Machine",
                 "SequenceCell", "Item"):
        methods = {word for word, one in vars(every[name]).items()
                   if not word.startswith("_") and (callable(one) or isinstance(one, property))}
        unused = {"advice", "declare", "sorts", "instance", "message", "addressed", "element",
                  "subsets", "sets", "reading", "told", "cells", "sides", "about", "needs",
                  "holds"}  # for the readers of a spec
        assert methods - drawn - unused == set(), name


def test_each_class_of_the_language_occurs_in_a_drawn_system() -> None:
    """A class that the language gets later fails here until it is drawn, or has its reason."""
    assert without_a_system(census()) == set()
    assert OUTSIDE.keys() <= classes().keys()


def test_each_field_of_the_language_has_more_than_one_value() -> None:
    """A field that is always as at its default would say nothing."""
    assert with_one_value(census()) == set()


@pytest.mark.nightly
def test_the_systems_of_tonight_lack_no_word_either() -> None:
    found = census(TONIGHT)
    assert (without_a_system(found), with_one_value(found)) == (set(), set())


def test_the_oracle_reads_each_class_and_field() -> None:
    read = set.union(*map(names_in, ORACLE))
    fields_of = {name for kind, name in census()}
    assert fields_of - read - NOT_READ == set()
    formulas = {one.__name__ for one in classes().values()
                if issubclass(one, Formula) and one not in (Formula, classes()["InChannel"])}
    # A fact is an atom, and the axiom of a sort of numbers a conjunction.
    assert formulas - {"Fact", "NumberAxiom"} - read == set()
    assert {"Call", "Timer", "Completion", "Sent", "Each", "LeadsTo", "OnRow", "Always",
            "Sometimes", *language.Fairness.__members__} - {"NO_TIMERS"} - read == set()


def test_a_seed_draws_the_same_system_again() -> None:
    assert [_text(*draw(seed)) for seed in range(20)] == [_text(*draw(seed)) for seed in range(20)]


def _text(system: System, configuration: Configuration) -> str:
    rows = [(table.machine.name, row.name, row.on, row.at, row.to, row.when, row.do, row.send)
            for table, row in system.rows()]
    sizes = sorted((sort.__name__, size) for sort, size in configuration.sizes.items())
    return repr((rows, system.properties, system.final, sizes, configuration.faults))
