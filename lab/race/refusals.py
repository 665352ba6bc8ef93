"""Why no race of nodes shows a defect of the catalogue, and what it would take."""

from collections.abc import Iterator
from typing import Any, Final

from lab.sim.defects import base_of
from pdproto.spec.handoff.decode_memory import queue
from pdproto.spec.handoff.ended import rooms
from pdproto.spec.handoff.ends import source
from pdproto.spec.handoff.keep import keeper
from pdproto.spec.language.machine import Machine, Row
from pdproto.spec.language.system import System

_ALIKE: Final = ("the lives and requests of this race name no prompt; it takes a race whose "
                 "callers name them, as in tests/node/test_prompts.py")
_NUMBERED: Final = ("the lives of this race have no number of a request; it takes a race whose "
                    "callers number them, as in tests/node/test_named_requests.py")
_LISTED: Final = ("the registry of this race names every rank; it takes one of which a rank "
                  "drains, as in tests/node/test_routed.py")
_SILENT: Final = ("a node takes a peer for gone by what it knows of its process (presence.py), "
                  "before any row; it takes nodes that propose the loss of a silent peer")

# Of defects in tables that nodes run: what keeps nodes from the race, by the name of the system.
KEEPS: Final[dict[str, str]] = {
    "failed-lookup-lifted":
        "a sink ends its hand-over as soon as the look-up has failed, so none is left to go on; it "
        "takes a sink that proposes go_on",
    "concluded-room-recreated":
        "an answer of the registry names no hand-over, and a sink takes it for the one that it has "
        "now; it takes answers that name theirs",
    "half-cache-reused":
        "a sink looks all ranks up in one request, whose answer has all of them or none; it takes "
        "a look-up of single ranks",
    "half-cache-kept":
        "a sink looks all ranks up in one request, whose answer has all of them or none; it takes "
        "a look-up of single ranks",
    "address-without-incarnation":
        "a node compares the run that an introduction names before any row; it takes a prefill "
        "node that loads accept and decline",
    "goodbye-of-an-earlier-run":
        "a registry forgets a run when a later one has registered, so its goodbye comes to no row; "
        "it takes a registry that keeps earlier runs",
    "rank-without-address": _LISTED,
    "no-address-unsaid": _LISTED,
    "first-come-on-each-rank":
        "a rank hears of a life after those before it, and binds each at once; it takes a rank "
        "that hears of several before it binds one",
    "failed-by-its-predecessor":
        "a rank forgets a request that has ended when a later one is opened, and binds a life at "
        "once; it takes a rank that keeps both",
    "request-of-a-dead-life": _NUMBERED,
    "prompt-not-compared": _ALIKE,
    "prompt-of-a-number-not-compared": _ALIKE,
    "prompts-in-one-order": _ALIKE,
    "mix-up-told-to-decode-alone": _ALIKE,
    "B23-fan-out":
        "a source that writes nothing answers an abort in the same turn, so no other abort comes "
        "between; it takes a race with a write under way",
    "copy-runs-on":
        "pages are freed when their device has copied, and not by a row; it takes an engine whose "
        "copies are not awaited (tests/pages/test_device_copies.py)",
    "silence-as-death": _SILENT,
    "silence-of-a-sink-as-death": _SILENT,
    "B15":
        "a sink compares the digests of what has landed, which the system of this defect does not "
        "have; it takes a sink without digests",
    "B57-transfer": "a process that has ended would have to answer; it takes a proxy that does",
    "R19-restart": "a process that has ended would have to answer; it takes a proxy that does",
    "agreement-local-slot":
        "the entry takes slots from a list of free ones; it takes an entry that proposes any slot",
    "O2-slot":
        "a scheduler takes slots from a list of free ones; it takes one that proposes any slot",
    "O2":
        "a scheduler finalizes a request once, by its own note, and when no chunk of it is being "
        "computed; it takes one that asks the table alone",
    "B36-optimistic":
        "a scheduler releases the memory of a request when no chunk of it is being computed, by "
        "its own note; it takes one that asks the table alone",
    "B03":
        "a scheduler does not put requests aside that wait for a slot (optimistic-keeping); it "
        "takes one that proposes resume",
    "O5-endless":
        "a scheduler that may run a request only once runs none early, and with two attempts the "
        "promise is kept; it takes an early run without a second attempt",
    "report-once":
        "ranks repeat their messages by code (group/repeats.py); it takes nodes that load "
        "whole_again",
    "decision-once":
        "ranks repeat their messages by code (group/repeats.py); it takes nodes that load "
        "fail_again",
}


def edited_rows(system: System) -> Iterator[tuple[Machine[*tuple[Any, ...]], str]]:
    """The rows in which the system differs from the one that it is an edit of."""
    tables = system.every_table
    is_transfer = any(table.machine is source for table in tables)
    base = system.base or (base_of(system) if is_transfer else None)
    before = {} if base is None else {table.machine: table.rows for table in base.every_table}
    after = {table.machine: table.rows for table in tables}
    for machine in dict.fromkeys((*after, *before)):
        old, new = _by_name(before.get(machine, ())), _by_name(after.get(machine, ()))
        for name in dict.fromkeys((*new, *old)):
            if old.get(name) != new.get(name):
                yield machine, name


def _by_name(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.name: row for row in rows}


# Machines of a room that is asked for more than once, and the tests of nodes with their defects.
OF_A_ROOM: Final = {keeper: "tests/node/test_keeps.py", rooms: "tests/node/test_ended_rooms.py"}


def unloaded(system: System) -> str:
    """Why no node runs the edit of this system."""
    machine, name = next(edited_rows(system))
    row = f"{machine.name}.{name}"
    if machine.host:
        return (f"it edits {row}, which ties two machines of a process together, and nodes do that "
                f"by code; it takes nodes that load the rows of {machine.name}")
    if machine.world:
        return f"it edits {row}, of the engine or the network; it takes one with the defect"
    if machine in OF_A_ROOM:
        return (f"it edits {row}, and a request of a race has one decode request; it takes several "
                f"of one room ({OF_A_ROOM[machine]})")
    if machine is queue:
        return (f"it edits {row}, and no request of a race lacks memory or names pages of another; "
                f"it takes requests that do (tests/node/test_memory_refusals.py)")
    return (f"it edits {row}, and nodes load no table of {machine.name} from {_design(system)}; "
            f"it takes nodes of that design")


def _design(system: System) -> str:
    base = system.base
    return system.name if base is None else _design(base)
