"""Tables under other names: a part that is renamed is the same part."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.spec.handoff import (
    bootstrap,
    dp_rank,
    optimistic,
    optimistic_retracted,
    registry,
    registry_world,
    routing,
)
from pdproto.spec.handoff.attempts import PREFILL
from pdproto.spec.handoff.bootstrap import Phase, d, h, phase
from pdproto.spec.handoff.registry_claims import PROPERTIES
from pdproto.spec.handoff.renaming import Renamed
from pdproto.spec.language import Configuration, LeadsTo, OnRow, SpecError, System

TABLES = registry.SYSTEM.tables


def test_a_renamed_part_behaves_like_the_part() -> None:
    configuration = registry.NO_RETRY.configurations["default"]
    renamed = Renamed(
        (*TABLES, registry_world.CRASH), machines={"sink": "directory"},
        symbols={"phase": "moment"},
        rows={"locate": "tell", "call_on": "call"},
    )
    *tables, crash = renamed.tables
    final = registry.SYSTEM.final
    assert final is not None
    twin = System(
        "twin", "The registry under other names.", tuple(tables),
        tuple(renamed.claim(claim) for claim in PROPERTIES), renamed.formula(final),
        faults={"crash": (crash,)},
    )
    sizes = Configuration(configuration.sizes, faults=("crash",), dead_bits=True)
    one, other = (check(system, sizes, CheckSettings()) for system in (registry.SYSTEM, twin))
    assert (one.states, one.transitions) == (other.states, other.transitions)
    assert one.depth == other.depth
    assert [f.verdict for f in one.findings] == [f.verdict for f in other.findings]
    assert {"tell", "call"} <= set(other.rows_fired)


def test_a_row_is_still_known_by_its_place() -> None:
    renamed = Renamed(TABLES, machines={}, rows={"locate": "tell"})
    places = [[row.place for row in table.rows] for table in TABLES]
    assert [[row.place for row in table.rows] for table in renamed.tables] == places


def test_only_sorts_are_shared() -> None:
    renamed = Renamed(TABLES, machines={}, symbols={"phase": "moment"})
    moment = renamed.symbol(phase)
    assert (moment.name, moment.sorts, moment.edges) == ("moment", phase.sorts, phase.edges)
    assert moment.owner is renamed.machine(bootstrap.sink) is not bootstrap.sink
    waiting = renamed.formula(phase(d, h) == Phase.WAITING_FOR_INPUT)
    assert waiting == (moment(d, h) == Phase.WAITING_FOR_INPUT)
    assert renamed.update(phase(d, h).to(Phase.FAILED)).symbol is moment


def test_a_property_of_a_row_follows_it() -> None:
    renamed = Renamed(TABLES, machines={}, rows={"call_on": "call"})
    claims = {claim.name: renamed.claim(claim) for claim in PROPERTIES}
    followed = claims["S12_only_current_addresses"]
    assert isinstance(followed, OnRow)
    assert followed.row == "call"
    assert isinstance(claims["L1_bootstrap_ends"], LeadsTo)


def test_a_rigid_relation_that_not_all_may_read_is_read_by_the_same_machines() -> None:
    renamed = Renamed(dp_rank.SYSTEM.tables, machines={})
    publishes = renamed.symbol(routing.publishes)
    assert publishes is renamed.symbol(routing.publishes) is not routing.publishes
    assert publishes.visible_to == (
        renamed.machine(routing.rank), renamed.machine(routing.sender))
    assert renamed.symbol(routing.modulo) is routing.modulo


def test_no_row_may_name_a_message_without_a_receiver() -> None:
    with pytest.raises(SpecError, match="done: its machine, or its receiver, has no table here"):
        Renamed((PREFILL,), machines={})


@pytest.mark.parametrize("kind", ["machines", "symbols", "rows"])
def test_an_unknown_name_is_refused(kind: str) -> None:
    names: dict[str, dict[str, str]] = {"machines": {}, kind: {"nobody": "somebody"}}
    with pytest.raises(SpecError, match="no machine, symbol or row is called 'nobody'"):
        Renamed(TABLES, **names)


def test_a_defect_of_the_part_is_one_of_its_copy() -> None:
    """The claims of optimistic prefill speak of the copy, and not of the original."""
    renamed = Renamed(optimistic.SYSTEM.tables, machines={})
    claims = tuple(renamed.claim(claim) for claim in optimistic.SAFETY)
    with pytest.raises(SpecError, match="belongs to no machine of the system"):
        System("mixed", "The part with the claims of its copy.", optimistic.SYSTEM.tables, claims)


def test_a_variable_that_another_system_has_on_the_machine_is_left_out() -> None:
    """Whether such a system was imported before must not change the part."""
    assert optimistic_retracted.retracted in PREFILL.machine.symbols
    copy = Renamed(optimistic.SYSTEM.tables, machines={}).machine(PREFILL.machine)
    assert "retracted" not in {symbol.name for symbol in copy.symbols}
