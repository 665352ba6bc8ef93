"""Odd values for each argument of public calls that run a protocol: the call raises, and names it.

The calls are found by import: those of docs/reference/python-api.md, in its section of the name
below. Seen red before the calls checked their arguments.
"""

import asyncio
import io
from collections.abc import Callable, Iterator
from inspect import isfunction, signature
from typing import Any, Final

import pytest

from examples.lease_lock import CLIENT, SERVER, STORE, SYSTEM, Client, Token, has, last
from pdproto.drivers.addresses import on_loopback
from pdproto.drivers.aio import Asyncio
from pdproto.drivers.zeromq import ZeroMQ
from pdproto.runtime.process import Name, Process
from pdproto.runtime.store import Shared, SharedStep
from pdproto.runtime.trace_shared import End, SharedTrace, shared
from pdproto.spec.language import Table
from pdproto.spec.language.place import SpecError
from pdproto.testing.simulated import SimulatedSystem
from tests.docs.api_reference import public
from tests.fuzz.test_arguments import ODD, Case
from tests.runtime import desk

SECTION: Final = "Run a protocol of your own"
NAMES: Final[tuple[Name, ...]] = (("server",), ("store",), ("client", "ann"))
AMONG: Final[dict[str, Any]] = {"among": NAMES, "waits": {"lease_over": 60.0}}
MADE: Final[dict[str, Any]] = {"system": SYSTEM, "machine": "client", "choose": {}, **AMONG}
FRAME: Final = b'["grant",["ann",1]]'
ELEMENTS: Final[dict[Any, Any]] = {Client: ("ann",), Token: range(4)}
TRAYS: Final[dict[Any, Any]] = {desk.Tray: range(2)}
MACHINE: Final[dict[str, Any]] = {"table": CLIENT, "own": ("ann",), "bounded": ELEMENTS}


def client() -> Process:
    return Process(SYSTEM, "client", "ann", among=NAMES, waits={"lease_over": 60.0})


def told(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, where a mistake in a system is one in an argument."""
    def made(**given: Any) -> None:
        try:
            call(**given)
        except SpecError as error:
            raise ValueError(str(error)) from None

    return made


@told
def make(own: Any = "ann", **given: Any) -> None:
    Process(given.pop("system"), given.pop("machine"), own, **given)


def over_zeromq(**given: Any) -> None:
    ZeroMQ(**{"process": client(), **given}).close()


def over_asyncio(**given: Any) -> None:
    async def run() -> None:
        async with Asyncio(**{"process": client(), **given}):
            pass

    asyncio.run(run())


def serve(**given: Any) -> None:
    with ZeroMQ(client(), on_loopback(NAMES)) as driver:
        driver.serve(**{"until": lambda: True, **given})


def until(**given: Any) -> None:
    async def run() -> None:
        async with Asyncio(client(), on_loopback(NAMES)) as driver:
            await driver.until(**{"condition": lambda: True, **given})

    asyncio.run(run())


def call(**given: Any) -> None:
    with ZeroMQ(client(), on_loopback(NAMES)) as driver:
        driver.call(given.pop("name"), *given.pop("arguments", ()), **given)


def call_in_loop(**given: Any) -> None:
    async def run() -> None:
        async with Asyncio(client(), on_loopback(NAMES)) as driver:
            driver.call(given.pop("name"), *given.pop("arguments", ()), **given)

    asyncio.run(run())


def driver_cases() -> Iterator[Case]:
    for name, function in (("ZeroMQ", over_zeromq), ("Asyncio", over_asyncio)):
        yield Case(name, function, {"process": client(), "addresses": on_loopback(NAMES),
                                    "trusted_network": False})
    yield Case("ZeroMQ", over_zeromq, {"addresses": on_loopback(NAMES), "linger_s": 0.0})
    yield Case("ZeroMQ.serve", serve, {"until": lambda: True, "seconds": 0.0})
    yield Case("Asyncio.until", until, {"condition": lambda: True, "seconds": 0.1})
    yield Case("ZeroMQ.call", call, {"name": "lock", "choose": {}})
    yield Case("Asyncio.call", call_in_loop, {"name": "lock", "choose": {}})
    for title, function in (("ZeroMQ.call", call), ("Asyncio.call", call_in_loop)):
        yield Case(title, lambda arguments, function=function: function(
            name="lock", arguments=(arguments,)), {"arguments": 1})
    yield Case("on_loopback", on_loopback, {"names": NAMES})


def process_cases() -> Iterator[Case]:
    yield Case("Process", make, MADE)
    yield Case("Process", lambda **given: make(**MADE, **given), {
        "own": "ann", "bounded": {}, "rigid": {}, "trace": None, "watch": lambda _: None})
    yield Case("Process.call", lambda name, **given: client().call(name, **given), {
        "name": "lock", "now": 1.0, "choose": {}})
    yield Case("Process.call", lambda arguments: Process(
        desk.SYSTEM, "desk", among=[("desk",)], bounded=TRAYS).call(
            "take", arguments, now=1.0), {"arguments": 1})
    yield Case("Process.take", lambda **given: client().take(**given), {"frame": FRAME, "now": 1.0})
    yield Case("Process.turn", lambda **given: client().turn(**given), {"now": 1.0})


FIRST: Final = ("message", "name", "row_name", "symbol", "function", "table")  # without a name


def of(table: Table, name: str, *own: str, **usual: Any) -> Callable[..., Any]:
    """This call of a new machine. arguments: those without a name."""
    def ask(**given: Any) -> Any:
        machine = Shared(table, own, ELEMENTS, scans=True)
        all_given = {**usual, **given}
        arguments = all_given.pop("arguments", ())
        first = [all_given.pop(one) for one in [*all_given] if one in FIRST]
        return getattr(machine, name)(*first, *arguments, **all_given)

    return ask


def machine_cases() -> Iterator[Case]:
    yield Case("Shared", told(Shared), {**MACHINE, "rigid": {}, "scans": True, "witness": None})
    yield Case("shared", told(shared), {**MACHINE, "rigid": {}, "scans": True, "trace": None})
    yield Case("SharedTrace", SharedTrace, {"node": "n", "target": io.BytesIO(), "ran": True})
    yield Case("SharedTrace.begin", told(SharedTrace("n", io.BytesIO()).begin), MACHINE)
    yield Case("Shared.receive", of(CLIENT, "receive", "ann", arguments=("ann", 1)), {
        "message": "grant", "choose": {}})
    yield Case("Shared.call", of(CLIENT, "call", "ann"), {"name": "lock", "choose": {}})
    for name, first in (("receive", {"message": "grant"}), ("value", {"symbol": has})):
        yield Case(f"Shared.{name}", lambda arguments, name=name, first=first: of(
            CLIENT, name, "ann")(arguments=("ann", arguments), **first), {"arguments": 1})
    yield Case("Shared.call", lambda arguments: Shared(
        desk.TABLE, (), TRAYS, scans=True).call("take", arguments), {"arguments": 1})
    for name in ("fire", "found", "enabled"):
        yield Case(f"Shared.{name}", of(SERVER, name, c="ann", t=1), {"row_name": "lend"})
        yield Case(f"Shared.{name}", lambda parameters, n=name: of(SERVER, n)(
            row_name="lend", c="ann", t=parameters), {"parameters": 1})
    for name in ("value", "stored"):
        yield Case(f"Shared.{name}", of(STORE, name), {"symbol": last})
    yield Case("Shared.element", of(STORE, "element"), {"function": last})
    yield Case("Shared.element", lambda arguments: of(STORE, "element")(
        function=last, arguments=(arguments,)), {"arguments": 1})
    yield Case("Shared.set", lambda **given: Shared(STORE, (), ELEMENTS, scans=True).set(**given), {
        "symbol": last, "arguments": (1,), "value": True})
    yield Case("Shared.apply_fault", of(STORE, "apply_fault"), {
        "table": STORE, "row_name": "start", "elements": 1})
    yield Case("Shared.forget", of(STORE, "forget"), {"sort": Token, "element": 1})


def cases() -> Iterator[Case]:
    yield from driver_cases()
    yield from process_cases()
    yield from machine_cases()


@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_are_refused(odd: str) -> None:
    complaints = [told for case in cases() for argument in case.good
                  if (told := case.complaint(argument, odd)) is not None]
    assert not complaints, "\n".join(complaints)


# A result, a witness that only a trace makes, and a tool of tests.
NOT_CALLED: Final = (SharedStep, End, SimulatedSystem)


def arguments_of(thing: Any) -> Iterator[tuple[str, str]]:
    title = thing.__name__
    calls = [(title, thing)]
    if isinstance(thing, type):
        calls += [(f"{title}.{name}", one) for name, one in vars(thing).items()
                  if isfunction(one) and not name.startswith("_")]
    for call, function in calls:
        for name in signature(function).parameters:
            if name != "self":
                yield call, name


def test_no_argument_of_a_public_call_is_left_out() -> None:
    """Seen red without the case of `Process.take`, and with a new argument of `Shared.forget`."""
    (listed,) = (things for part, things in public() if part == SECTION)
    there = {pair for _, thing in listed if thing not in NOT_CALLED
             for pair in arguments_of(thing)}
    tried = {(case.name, argument) for case in cases() for argument in case.good}
    assert there - tried == set()
