"""Odd values for each argument of the public calls of drivers: the call raises, and names it.

Seen red before the calls checked their arguments.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from examples.lease_lock import SYSTEM
from pdproto.drivers.addresses import on_loopback
from pdproto.drivers.aio import Asyncio
from pdproto.drivers.zeromq import ZeroMQ
from pdproto.runtime.process import Name, Process
from pdproto.spec.language.place import SpecError
from tests.fuzz.test_arguments import ODD, Case

NAMES: Final[tuple[Name, ...]] = (("server",), ("store",), ("client", "ann"))
MADE: Final[dict[str, Any]] = {"system": SYSTEM, "machine": "client", "among": NAMES,
                               "waits": {"lease_over": 60.0}, "choose": {}}


def client() -> Process:
    return Process(SYSTEM, "client", "ann", among=NAMES, waits={"lease_over": 60.0})


def make(**given: Any) -> None:
    try:
        Process(given.pop("system"), given.pop("machine"), "ann", **given)
    except SpecError as error:  # as for any mistake in a system
        raise ValueError(str(error)) from None


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
        driver.call(**given)


def cases() -> Iterator[Case]:
    yield Case("Process", make, MADE)
    for name, function in (("ZeroMQ", over_zeromq), ("Asyncio", over_asyncio)):
        yield Case(name, function, {"process": client(), "addresses": on_loopback(NAMES),
                                    "trusted_network": False})
    yield Case("ZeroMQ", over_zeromq, {"addresses": on_loopback(NAMES), "linger_s": 0.0})
    yield Case("ZeroMQ.serve", serve, {"until": lambda: True, "seconds": 0.0})
    yield Case("Asyncio.until", until, {"condition": lambda: True, "seconds": 0.1})
    yield Case("ZeroMQ.call", call, {"name": "lock", "choose": {}})


@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_of_drivers_are_refused(odd: str) -> None:
    complaints = [told for case in cases() for argument in case.good
                  if (told := case.complaint(argument, odd)) is not None]
    assert not complaints, "\n".join(complaints)
