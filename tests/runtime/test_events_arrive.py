"""A row runs only if a process delivers its event. Tables, proofs and counts do not show that."""

import re
from pathlib import Path
from typing import Final

import pytest

from pdproto.cli.systems import load
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Entry
from pdproto.spec.language.machine import Table
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.triggers import Call
from tests.handoff.exploring import name_of

ROOT: Final = Path(__file__).resolve().parents[2]
DELIVERED_IN: Final = ("group", "node", "pages", "registry", "runtime", "sglang", "transport",
                       "vllm")
# Machines of these systems that no process of ours runs, and the program that each of them is.
OUTSIDE: Final = {
    ("registry-replica", "store"): "etcd",
    ("registry-replica", "client"): "an HTTP client, which reads the status",
    ("dp-rank", "router"): "the router in front of both servers",
    ("optimistic", "decode"): "the sink of the transfer",
    ("optimistic-retracted", "decode"): "the sink of the transfer",
    ("drain", "client"): "an HTTP client, which reads the status",
}
BOUND: Final = {"abort_life"}  # a bound life is the transfer's, which has its own event for it
WORDS: Final = frozenset(
    word for folder in DELIVERED_IN for path in (ROOT / "pdproto" / folder).rglob("*.py")
    for word in re.findall(r"\w+", path.read_text()))


def undelivered(table: Table) -> set[str]:
    """The messages and calls of the table that no module of a process names."""
    events = {row.on for row in table.rows if isinstance(row.on, Sent | Call)}
    names = {event.message.name if isinstance(event, Sent) else event.name for event in events}
    return names - WORDS - BOUND


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE if entry.runs], ids=name_of)
def test_a_process_names_each_event_of_a_table_that_it_runs(entry: Entry) -> None:
    """Seen red with a message that a row of drain sends and another takes, and no caller for it."""
    machines = {table.machine.name: table for table in load(entry.target).tables
                if not table.machine.world}
    ours = {name for name in machines if (entry.name, name) not in OUTSIDE}
    assert {name: undelivered(machines[name]) for name in ours} == {key: set() for key in ours}
