"""The designs of other systems: the explorer refutes each in as many steps as the page says."""

from typing import Final

import pytest

from lab.designs import DESIGNS, Design
from pdproto.check.checking import CheckSettings, check
from pdproto.check.lint import Severity, lint, small
from pdproto.check.result import Finding, Verdict
from pdproto.spec.language import Configuration, System

SYSTEMS: Final = {system.name: system for design in DESIGNS
                  for system in (design.system, *design.repaired)}

each_design = pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.id)


def found(system: System, configuration: Configuration, name: str) -> Finding:
    (finding,) = (finding for finding in
                  check(system, configuration, CheckSettings(properties=(name,))).findings
                  if finding.name == name)
    return finding


@each_design
def test_the_shortest_run_shows_the_defect(design: Design) -> None:
    finding = found(design.system, design.configuration, design.violates)
    assert (finding.verdict, finding.trace_length) == (Verdict.VIOLATED, design.steps)


@pytest.mark.parametrize(("design", "system"), [
    pytest.param(design, system, id=system.name)
    for design in DESIGNS for system in design.repaired])
def test_the_design_holds_with_its_repair(design: Design, system: System) -> None:
    finding = found(system, design.configuration, design.violates)
    assert finding.verdict is Verdict.HOLDS


@pytest.mark.parametrize("system", [
    pytest.param(system, id=name) for name, system in SYSTEMS.items()
    if name not in {design.system.name for design in DESIGNS}])
def test_a_repair_breaks_nothing_else(system: System) -> None:
    findings = check(
        system, system.configurations["default"], CheckSettings(keep_going=True)
    ).findings
    assert {finding.name for finding in findings if finding.verdict is Verdict.VIOLATED} == set()


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_every_message_is_answered(system: System) -> None:
    errors = [remark for remark in lint(system, small(system)) if remark.severity is Severity.ERROR]
    assert errors == []


def test_each_design_names_its_missing_rule() -> None:
    assert [design.id for design in DESIGNS if not design.lacks or not design.repaired] == []
