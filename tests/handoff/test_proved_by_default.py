"""`pdproto prove` without a name proves every table that a process runs, as the catalogue says."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from pdproto.cli.prove import RUN_BY_PROCESSES
from pdproto.cli.systems import load
from pdproto.runtime import role
from pdproto.runtime.role import Role
from pdproto.spec.language.machine import Table

# Rooms of the product that give tables to the runtime.
ROOMS: Final = ("group", "node", "registry", "runtime", "transport")
# Proved through `optimistic-group-history`, by its name: it takes over 100 s.
BY_NAME: Final = load("optimistic-group").tables


def loaded(module: object) -> Iterator[Table]:
    """The tables of the module's roles; of a module without a role, those that it imports."""
    roles = [value.table for value in vars(module).values() if isinstance(value, Role)]
    yield from roles or (value for value in vars(module).values() if isinstance(value, Table))


def is_proved(table: Table) -> bool:
    """Whether a system that is proved by default has this table, or all its rows in one of the same
    machine.
    """
    return any(
        other is table
        or (other.machine is table.machine and all(row in other.rows for row in table.rows))
        for name in RUN_BY_PROCESSES for other in load(name).tables)


def test_every_role_has_its_table_in_a_system_that_is_proved() -> None:
    tables = [*loaded(role)]
    assert len(tables) > 4
    assert [table for table in tables if not is_proved(table)] == []


def test_so_has_every_room_that_loads_a_table() -> None:
    found: dict[str, list[Table]] = {}
    for room in ROOMS:
        package = import_module(f"pdproto.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            left = [table for table in loaded(import_module(module.name))
                    if not is_proved(table) and not any(table is one for one in BY_NAME)]
            if left:
                found[module.name] = left
    assert found == {}
