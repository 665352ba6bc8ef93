"""Edits of properties and fault layers, and parts of systems that are put together."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.language import (
    AddFaults,
    AddProperty,
    AddRow,
    Always,
    Call,
    Configuration,
    DropProperty,
    DropRow,
    Machine,
    OnRow,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    edited,
)
from pdproto.spec.language.edit import Postponed, postponed_errors


class Lamp(Sort):
    """It is switched on."""


class Light(State):
    """Of a lamp."""

    OFF = auto()
    ON = auto()
    BROKEN = auto()


x = Lamp("x")


def lamps(name: str) -> tuple[Machine[Lamp], System]:
    """A system of one machine and a world, each with names of its own but the world's."""
    lamp, world = Machine(name, x), Machine("world", world=True)
    light = lamp.function(f"{name}_light", Light)
    table = Table(lamp, state=light, rows=(
        Row(f"{name}_on", on=Call(f"{name}_on"), at=Light.OFF, to=Light.ON),))
    breaking = Table(world, rows=(
        Row(f"{name}_breaks", choose=(x,), when=light(x) == Light.ON, fair=False,
            do=[light(x).to(Light.BROKEN)]),))
    return lamp, System(
        name, "Lamps.", tables=(table,), faults={f"{name}-breaks": (breaking,)},
        properties=(OnRow("switched_off", f"{name}_on", light(x) == Light.OFF),
                    Always("whole", light(x) != Light.BROKEN)),
        configurations={"default": Configuration({Lamp: 1})},
    )


LAMP, SYSTEM = lamps("lamp")
LIGHT: Final = SYSTEM.variables[0]


def names(system: System) -> list[str]:
    return [claim.name for claim in system.properties]


def verdicts(system: System, *faults: str) -> dict[str, Verdict]:
    found = check(system, Configuration({Lamp: 1}, faults=faults), CheckSettings(keep_going=True))
    return {finding.name: finding.verdict for finding in found.findings}


def test_a_property_is_added_and_judged() -> None:
    dark = Always("dark", LIGHT(x) == Light.OFF)  # type: ignore[operator]
    changed = edited(SYSTEM, "changed", AddProperty(dark))
    assert names(changed) == [*names(SYSTEM), "dark"]
    assert verdicts(changed)["dark"] is Verdict.VIOLATED


def test_a_row_goes_with_the_property_about_it() -> None:
    gone = DropRow("lamp_on")
    for edits in ((gone, DropProperty("switched_off")), (DropProperty("switched_off"), gone)):
        assert names(edited(SYSTEM, "changed", *edits)) == ["whole"]


def test_a_row_of_the_same_name_keeps_the_property() -> None:
    again = AddRow(LAMP, Row("lamp_on", on=Call("again"), at=Light.OFF, to=Light.ON))
    assert names(edited(SYSTEM, "changed", DropRow("lamp_on"), again)) == names(SYSTEM)


def test_a_fault_layer_is_added_and_switched_on() -> None:
    flash = Row("flash", choose=(x,), when=LIGHT(x) == Light.OFF,  # type: ignore[operator]
                do=[LIGHT(x).to(Light.BROKEN)])  # type: ignore[operator]
    layer = AddFaults("flash", Table(Machine("sky", world=True), rows=(flash,)))
    changed = edited(SYSTEM, "changed", layer)
    assert [*changed.faults] == ["lamp-breaks", "flash"]
    assert verdicts(changed)["whole"] is Verdict.HOLDS
    assert verdicts(changed, "flash")["whole"] is Verdict.VIOLATED


def test_two_systems_with_worlds_of_one_name_are_put_together() -> None:
    _, other = lamps("torch")
    both = System(
        "both", "Lamps and torches.", tables=(*SYSTEM.tables, *other.tables),
        faults={**SYSTEM.faults, **other.faults}, properties=SYSTEM.properties,
    )
    assert verdicts(both, "torch-breaks")["whole"] is Verdict.HOLDS
    assert verdicts(both, "torch-breaks", "lamp-breaks")["whole"] is Verdict.VIOLATED


def test_two_other_machines_of_one_name_are_refused() -> None:
    _, other = lamps("lamp")
    with pytest.raises(SpecError, match="machine 'lamp' is declared twice"):
        System("both", "Lamps twice.", tables=(*SYSTEM.tables, *other.tables))


def test_a_postponed_error_is_raised_where_the_system_is_used() -> None:
    with postponed_errors():
        bad = edited(SYSTEM, "bad", DropRow("none"))
        worse = edited(bad, "worse", DropRow("lamp_on"))
    for system in (bad, worse):
        assert isinstance(system, Postponed)
        with pytest.raises(SpecError, match="lamp has no row 'none' to edit"):
            system.rows()
    with pytest.raises(SpecError):
        edited(SYSTEM, "bad", DropRow("none"))
