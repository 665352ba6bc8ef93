"""A name that the system lacks is refused in a line, in every field that names something."""

import dataclasses
import types
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.lint import lint, small
from pdproto.check.load import LoadError
from pdproto.check.prove import cutoff
from pdproto.check.prove.digests import Digests
from pdproto.check.prove.subject import with_proofs
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language import SpecError, edit, edited
from tests.check.test_identity import classes
from tests.language.linked import EDITS, PROOFS, SYSTEM
from tests.language.strangers import TEXTS, Part, with_stranger

# Questions to the prover that have raised no error: most of a changed spec are those of the others.
ANSWERED: Final[set[str]] = set()

SPEC: Final[dict[str, Any]] = {"SYSTEM": SYSTEM, "EDITS": EDITS, **PROOFS}

# Where a stranger is right, and why. Everywhere else it is refused.
DEFINED: Final = "it is a name that is given here"
FREE: Final = "a free variable stands for all elements"
RIGHT: Final = {
    "AddFaults.layer": DEFINED, "Always.name": DEFINED, "Call.name": DEFINED,
    "Completion.name": DEFINED, "Monotone.name": DEFINED, "OnRow.name": DEFINED,
    "Ranking.assumed key": DEFINED, "Row.name": DEFINED, "Sometimes.name": DEFINED,
    "System.axioms key": DEFINED, "System.configurations key": DEFINED, "System.name": DEFINED,
    "Timer.name": DEFINED,
    "key": DEFINED,  # of ASSUMED
    "Atom.arguments": FREE, "Fact.arguments": FREE, "Forall.variable": FREE,
    "Exists.variable": FREE, "Same.left": FREE, "Same.right": FREE, "Sent.arguments": FREE,
    "Atom.symbol": "a rigid relation is part of a system as soon as a formula has it",
}


def ask(spec: dict[str, Any], changed: str) -> None:
    """Load, lint, check and prove. Raises an error for what is refused. changed: of the names."""
    system = spec["SYSTEM"] if changed != "EDITS" else edited(SYSTEM, "edited", *spec["EDITS"])
    if changed != "EDITS":
        home = types.ModuleType("linked")
        vars(home).update(spec)
        subject, digests = with_proofs(system, home), Digests(system)
        for _, group in groupby(subject.obligations(), lambda one: id(one.row)):
            asked = [*group]
            if not (names := {digests.of(one, "") for one in asked}) <= ANSWERED:
                for _ in cutoff.decide(system, asked, 1.0):
                    pass
                ANSWERED.update(names)
    if changed in ("SYSTEM", "EDITS"):
        lint(system, small(system))
        for configuration in system.configurations.values():
            check(system, configuration, CheckSettings())


def accepted() -> Iterator[tuple[str, str]]:
    """Where a stranger is accepted, or ends in another error than a line; and what happened."""
    for part in Part(SPEC).every():
        if len(part.path) < 3:
            continue
        at = part.at.strip()
        for stranger in part.unlike():
            told = f"{part.at}: {'.'.join(map(str, part.path))} = {stranger!r}"
            try:
                ask(with_stranger(SPEC, part.path, stranger), [*SPEC][part.path[0]])
            except (SpecError, LoadError, TooLargeError) as refused:
                if "\n" in str(refused):
                    yield at, f"{told}: {refused}"
            except Exception as error:
                yield f"{at}, {type(error).__name__}", f"{told}: {error}"
            else:
                yield at, told


@pytest.mark.nightly
@pytest.mark.slow
def test_strangers_are_refused_in_a_line() -> None:
    found = [*accepted()]
    assert [told for at, told in found if at not in RIGHT] == []
    assert {at for at, _ in found} == {*RIGHT}


def test_the_spec_is_right() -> None:
    for name in ("SYSTEM", "EDITS"):
        ask(SPEC, name)


# Truth values, and classes whose objects are in no spec.
NAMES_NOTHING: Final = {
    "Call.any_time", "Configuration.dead_bits", "Configuration.symmetry", "Fact.value", "Help.ends",
    "Row.fair", "Sent.value", "Timer.detector", "Update.value",
}
IN_NO_SPEC: Final = (
    "Cell", "Instance", "_Draft",
    # Numbers are refused where they are made: tests/check/test_numbers.py.
    "Arithmetic", "AtLeast", "Chosen", "Comparison", "Computed", "Constant", "Either", "Extreme",
    "InRange", "Int", "Linear", "NumberCell", "Summand", "Total",
)


def test_each_field_names_something_in_the_spec() -> None:
    """A new field, or a new class, is missing here until `linked` uses it."""
    used = {part.at.removesuffix(" key") for part in Part(SPEC).every()
            if not isinstance(part.value, bool) and part.value not in ((), {}, "", None)}
    fields = {f"{kind.__name__}.{field.name}" for kind in (*classes(), *classes(edit))
              if kind.__name__ not in IN_NO_SPEC for field in dataclasses.fields(kind)
              if field.init and field.name not in (*TEXTS, "place")}
    assert fields - used == NAMES_NOTHING
