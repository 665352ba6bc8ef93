"""An identity has every field of every class of the language in it, by construction."""

import copy
import enum
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from pdproto.check.identity import LEFT_OUT, content
from pdproto.check.prove.digests import Digests, name_of_system
from pdproto.check.prove.proving import CUTOFF
from pdproto.check.prove.subject import ProofSubject
from pdproto.cli.systems import load, subject
from pdproto.ground.structure import OF_OTHERS, Structure
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Machine,
    Message,
    Rigid,
    Row,
    Sort,
    State,
    System,
    Table,
    Timer,
    auto,
    exists,
    forall,
    formula,
    implies,
    machine,
    properties,
    ranking,
    row,
    symbols,
    system,
    triggers,
    updates,
)
from pdproto.spec.language.place import Place

MODULES: Final = (
    formula, machine, properties, ranking, row, symbols, system, triggers, updates)
ANYWHERE: Final = Place("there.py", 1)


def classes(*modules: ModuleType) -> Iterator[type[Any]]:
    """Every dataclass of these modules; without any, of those of the language."""
    for module in modules or MODULES:
        for found in vars(module).values():
            if inspect.isclass(found) and is_dataclass(found) and _is_of(found, module):
                yield found


def _is_of(found: type[Any], module: ModuleType) -> bool:
    return found.__module__ == module.__name__


def made(kind: type[Any], /, **changed: object) -> Any:
    """An object of the class with these values, and text in all other fields, unchecked."""
    one = object.__new__(kind)
    for field in fields(kind):
        value = changed.get(field.name, ANYWHERE if field.name == "place" else field.name)
        object.__setattr__(one, field.name, value)
    return one


@pytest.mark.parametrize("kind", [*classes()], ids=lambda kind: kind.__name__)
def test_each_field_of_each_class_counts(kind: type[Any]) -> None:
    """A place counts only where a result names it: at given sizes."""
    for field in fields(kind):
        if not field.init:
            continue
        value = Place("here.py", 2) if field.name == "place" else "another"
        other = made(kind, **{field.name: value})
        assert Structure({}).of(other) != Structure({}).of(made(kind)), field.name
        same = Structure().of(other) == Structure().of(made(kind))
        assert same == (field.name == "place"), field.name


@pytest.mark.parametrize("kind", [*classes()], ids=lambda kind: kind.__name__)
def test_a_field_that_is_added_counts(kind: type[Any]) -> None:
    more = make_dataclass(kind.__name__, [(f.name, f.type) for f in fields(kind) if f.init]
                          + [("new", int)], frozen=True, namespace={"__module__": kind.__module__})
    one, other = made(more, new=1), made(more, new=2)
    assert Structure({}).of(one) != Structure({}).of(other)
    assert Structure().of(one) != Structure().of(other)


def test_each_attribute_of_a_symbol_a_machine_and_a_sort_counts() -> None:
    """Also one that is set later, or added by another version."""

    class Thing(Sort, ordered=True):
        """Its class attributes count, also where only a variable of it is."""

    owner = Machine("owner", Thing("t"))
    held = owner.relation("held")
    says = Message("says", Thing("t"), sender=owner, receiver=owner)
    for one in (owner, held, says, Rigid("near", Thing("t"))):
        before = Structure().of(one)
        names = [name for name in vars(one) if name not in {"symbols", "given", "place"}]
        for name in (*names, "new"):
            other = copy.copy(one)
            vars(other)[name] = "another"
            assert Structure().of(other) != before, (one, name)
    for name in Sort.__annotations__:
        if name in OF_OTHERS or name == "of":
            continue
        before = Structure().of(Thing("t"))
        kept = vars(Thing)[name]
        setattr(Thing, name, "another")
        assert Structure().of(Thing("t")) != before, name
        setattr(Thing, name, kept)


def test_each_part_of_a_system_counts() -> None:
    one = load("two-phase-commit")
    before, kept = Structure().of(content(one)), name_of_system(one)
    for field in fields(System):
        if not field.init or field.name in (*LEFT_OUT, "place"):
            continue
        other = copy.copy(one)
        vars(other)[field.name] = "another"
        assert Structure().of(content(other)) != before, field.name
    assert name_of_system(copy.copy(one)) == kept


def test_parts_are_not_run_together() -> None:
    enums: list[Any] = [enum.Enum("Phase", {"A1": 2}), enum.Enum("Phase", {"A": 12})]
    members = [member for one in enums for member in one]
    values = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), "abc", *members]
    assert len({Structure().of(value) for value in values}) == len(values)


class Table1(Sort):
    """Its variable has the name of one of Token1."""


class Token1(Sort):
    """See Table1."""


class Phase(State):
    A = auto()
    B = auto()
    C = auto()


t, u = Table1("t"), Token1("t")


def of_sorts(*, swapped: bool) -> System:
    """A claim that reads alike for both, if the sorts of its variables are not told."""
    owner = Machine("owner")
    got, went = owner.relation("got", Table1), owner.relation("went")
    owner.relation("other", Token1)
    claim = forall(t, exists(u, got(t))) if swapped else forall(u, exists(t, got(t)))
    return System("sorts", "", (Table(owner, rows=(
        Row("go", on=Call("go", t), do=[got(t).to(True), went().to(True)]),)),),
        (Always("claim", implies(went(), claim)),), final=TRUE)


def of_steps(*, trigger: Any = None, fair: bool | None = None, world: bool = False,
             host: bool = False, edges: Any = None, under: Any = None) -> System:
    owner = Machine("owner", world=world, host=host)
    phase = owner.function("phase", Phase, edges=edges)
    row = Row("go", on=trigger, at=Phase.A, to=Phase.B, fair=fair)
    leads = properties.LeadsTo("ends", TRUE, phase() == Phase.B, under=under or (
        properties.Fairness.TIMERS,))
    return System("steps", "", (Table(owner, state=phase, rows=(row,)),), (leads,), final=TRUE)


LOOSE: Final = {Phase.A: (Phase.B,), Phase.B: (Phase.C,), Phase.C: ()}
ALIKE: Final = {
    "trigger": (of_steps(trigger=Timer("end")), of_steps(trigger=Call("end"))),
    "detector": (of_steps(trigger=Timer("end")), of_steps(trigger=Timer("end", detector=True))),
    "fair": (of_steps(trigger=Call("end")), of_steps(trigger=Call("end"), fair=True)),
    "world": (of_steps(), of_steps(world=True)),
    "host": (of_steps(world=True), of_steps(host=True)),
    "edges": (of_steps(edges=LOOSE), of_steps(edges={**LOOSE, Phase.B: ()})),
    "under": (of_steps(), of_steps(under=(properties.Fairness.NO_TIMERS,))),
    "bound sorts": (of_sorts(swapped=False), of_sorts(swapped=True)),
}


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_systems_whose_texts_are_alike_have_records_of_their_own(
    one: System, other: System
) -> None:
    assert name_of_system(one) != name_of_system(other)


def test_obligations_whose_texts_are_alike_have_digests_of_their_own() -> None:
    one, other = (subjects(of_sorts(swapped=swapped)) for swapped in (False, True))
    assert one.isdisjoint(other)


def subjects(one: System) -> set[str]:
    found = Digests(one)
    return {found.of(o, CUTOFF) for o in ProofSubject(one, (), {}).obligations()
            if o.claim.name == "claim"}


def test_a_file_that_is_loaded_twice_has_one_record(tmp_path: Path) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text("from pdproto.spec.language import *\n"
                    "class Mine(Sort): 'its own'\n"
                    "machine = Machine('machine', Mine('x'))\n"
                    "SYSTEM = System('s', '', (Table(machine),))\n", encoding="utf-8")
    names = {name_of_system(load(f"{spec}:SYSTEM")) for _ in range(3)}
    assert len(names) == 1


def test_a_moved_line_and_a_reason_change_no_proof() -> None:
    """Otherwise each edit of a comment would prove everything again."""
    one = subject("two-phase-commit").obligations()
    other = subject("two-phase-commit").obligations()
    system = load("two-phase-commit")
    names = [[Digests(system).of(o, CUTOFF) for o in found] for found in (one, other)]
    assert names[0] == names[1]
