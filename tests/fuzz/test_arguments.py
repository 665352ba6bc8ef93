"""Odd values for each argument of the public calls: the call raises, or that hand-over alone ends.

By day each argument gets each odd value once, the others being right. By night the arguments of a
call are drawn together (test_together.py).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import repeat
from threading import Thread
from typing import Any, Final

import numpy as np
import pytest

from pdproto import (
    DirectPages,
    Link,
    OperatorPort,
    RegistryClient,
    RegistryServer,
    SinkPages,
    SourcePages,
)
from pdproto import until as waiting
from pdproto.engine.engines import open_sink, open_source
from pdproto.kernels.layout import Order
from pdproto.node.decode.receiver import Addressed
from pdproto.node.faults import FaultsError
from pdproto.registry.client import UnreachableError
from pdproto.registry.wire import Registration, Run
from pdproto.runtime import checked
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.keys import new_secret, write_members
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.settings import Settings
from pdproto.vllm.offer import KEY, VERSION, Offer, offer_in, placed
from pdproto.vllm.seals import Seals
from tests.node.data_paths import ENDED, Cluster, SinkDataPath, SourceDataPath, cluster
from tests.waiting import PATIENCE_S, until

SHORT: Final = {"bootstrap_timeout": 2.0, "transfer_timeout": 2.0, "no_drain": 0.2}


class Mute:
    """A value whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NoNumber:
    """A value that is no number when it is asked for one."""

    def __index__(self) -> int:
        raise RuntimeError("no number")


def released() -> memoryview:
    view = memoryview(b"ab")
    view.release()
    return view


ODD: Final[Mapping[str, Any]] = {
    "none": None, "text": "text", "empty": "", "half": "cannot read \udc80.bin", "long": "é" * 128,
    "endless": "a" * 100_000, "bytes": b"ab", "true": True, "below": -1, "wide": 2**70,
    "fraction": 1.5, "nan": float("nan"), "list": ["one"], "numbers": [1, 1.5], "minus": [-1],
    "far": [2**40], "set": {1, 2}, "map": {"p0": 5}, "half map": {"\udc80": "tcp://127.0.0.1:9"},
    "error": ValueError("so"), "array": np.arange(4), "object": object(), "mute": Mute(),
    "nul": "a\0b", "pair": ("a", 1), "unwritten": 10**5_000, "below all": -(10**5_000),
    "unwritten numbers": [10**5_000], "long range": range(2**40), "longest range": range(2**70),
    "wide view": np.broadcast_to(np.int64(1), (2**33,)), "endless names": repeat("d0"),
    "long wait": 1e300, "released": released(), "every other": memoryview(b"abcd")[::2],
    "unwritten again": [10**5_000], "kind of text": np.str_("p0"), "kind of bytes": np.bytes_(b"a"),
    "no dimensions": np.array(5), "no number": NoNumber(), "long map": {"p0": range(2**40)},
}


@dataclass(slots=True)
class Case:
    """A public call. good: arguments with which it is right."""

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]

    def complaint(self, argument: str, odd: str) -> str | None:
        """Call it. It may raise an error that names the argument; any other is a complaint, and so
        is a call that does not return.
        """
        told: list[str | None] = []
        calling = Thread(target=lambda: told.append(self._called(argument, odd)), daemon=True)
        calling.start()
        calling.join(PATIENCE_S)
        return told[0] if told else f"{self.name}({argument}={odd}): it does not return"

    def _called(self, argument: str, odd: str) -> str | None:
        told = ""
        try:
            self.call(**{**self.good, argument: ODD[odd]})
        except FaultsError as error:
            str(error).encode()
        except (TypeError, ValueError) as error:
            told = repr(error) if argument not in str(error) else ""
            str(error).encode()
        except Exception as error:
            told = repr(error) if not isinstance(error, ProtocolError) else ""
            str(error).encode()
        return f"{self.name}({argument}={odd}): {told}" if told else None


class World:
    """A cluster, and hand-overs that are in the state that a call wants."""

    def __init__(self, nodes: Cluster) -> None:
        self.nodes = nodes
        self.room = 1_000  # no odd value is a room behind it
        self.opened: list[Any] = []

    def pair(self, *, pages: bool = True) -> tuple[Any, Any]:
        """A new hand-over. pages: published, and the sender may send."""
        self.room += 1
        prefill, decode = self.nodes.prefills[0], self.nodes.decodes[0]
        sender = prefill.open(self.room)
        receiver = decode.open(self.room, {"p0": prefill.endpoint},
                               pages=[1000 + self.room] if pages else None)
        self.opened += [sender, receiver]
        if pages:
            until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
        return sender, receiver

    def of_sender(self, call: str) -> Callable[..., Any]:
        """This call of a new sender, each time."""
        def new(**given: Any) -> None:
            getattr(self.pair()[0], call)(**given)

        return new

    def of_receiver(self, call: str, *, pages: bool = True) -> Callable[..., Any]:
        """This call of a new receiver, each time."""
        def new(**given: Any) -> None:
            getattr(self.pair(pages=pages)[1], call)(**given)

        return new

    def kept(self, handle: Any) -> None:
        self.opened.append(handle)

    def open_sender(self, **given: Any) -> None:
        self.kept(self.nodes.prefills[0].open(**given))

    def open_receiver(self, **given: Any) -> None:
        self.kept(self.nodes.decodes[0].open(**given))

    def keep(self, **given: Any) -> None:
        self.kept(self.nodes.prefills[0].keep(**given))

    @staticmethod
    def awaited(handoff: Any, wanted: Any) -> None:
        asyncio.run(asyncio.wait_for(waiting(handoff, wanted), PATIENCE_S))

    def ends(self) -> None:
        """Each hand-over ends when it is aborted, and the next one succeeds."""
        for handle in self.opened:
            handle.abort("the end")
        until(lambda: all(handle.poll() in ENDED for handle in self.opened),
              lambda: str([handle for handle in self.opened if handle.poll() not in ENDED]))
        for handle in self.opened:
            handle.close()
        self.opened.clear()
        sender, receiver = self.pair()
        sender.send([7])
        until(lambda: receiver.poll() in ENDED)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        receiver.close()
        self.opened.clear()
        for node in self.nodes.nodes:
            assert node._loop.turn_errors == 0, node.name
            assert node.health() is None


def cases(world: World) -> Iterator[Case]:
    """Every public call about hand-overs."""
    prefill, decode = world.nodes.prefills[0], world.nodes.decodes[0]
    yield Case("PrefillNode.open", world.open_sender,
               {"room": 10**6, "on_released": None, "watcher": None, "named": None, "use": 10**6})
    yield Case("DecodeNode.open", world.open_receiver, {
        "room": 10**6, "sources": {"p0": prefill.endpoint}, "sinks": (), "generation": None,
        "on_released": None, "watcher": None, "pages": None, "slot": None, "addressed": None,
        "use": None, "soon": True})
    yield Case("PrefillNode.open", world.open_sender, {"room": 10**6 + 1, "prompt": b"one"})
    yield Case("PrefillNode.keep", world.keep, {
        "room": 10**6 + 2, "pages": 2, "watcher": lambda _: None, "on_over": lambda: None,
        "prompt": b"one"})
    yield Case("DecodeNode.open", world.open_receiver, {
        "room": 10**6 + 3, "sources": {"p0": prefill.endpoint}, "prompt": b"one", "once": False})
    yield Case("until", world.awaited, {"handoff": world.pair()[0],
                                        "wanted": KVPoll.WAITING_FOR_INPUT})
    yield Case("Sender.send", world.of_sender("send"),
               {"pages": [1], "last": True, "metadata": b""})
    yield Case("Sender.abort", world.of_sender("abort"), {"reason": "so"})
    yield Case("Sender.close", world.of_sender("close"), {"reason": "so"})
    yield Case("Receiver.publish", world.of_receiver("publish", pages=False),
               {"pages": [10**6], "slot": None})
    yield Case("Receiver.abort", world.of_receiver("abort"), {"reason": "so"})
    yield Case("Receiver.close", world.of_receiver("close"), {"reason": "so"})
    yield Case("declare_gone", decode.declare_gone, {"name": "p0"})
    yield Case("inject", decode.inject, {"faults": ""})
    yield Case("open_handoffs", decode.open_handoffs, {"most": 5, "room": None, "state": None})
    yield Case("on_leave", decode.on_leave, {"tell": lambda *_: None})


def made(kind: Any, path: Any) -> Callable[..., None]:
    """Open a node of this kind and close it."""
    def make(**given: Any) -> None:
        if "data_path" not in given:
            given["data_path"] = path()
        kind(**given).close()

    return make


def paths(kind: Any, engine: Callable[[], Any]) -> Callable[..., None]:
    """Make a data path of this kind, and close it."""
    def make(**given: Any) -> None:
        with closing(engine()) as used:
            kind(**{"engine": used, **given}).close()

    return make


def constructors(world: World) -> Iterator[Case]:
    fabric = world.nodes.fabric
    shared = {"name": "n", "link": None, "waits": None}
    yield Case("PrefillNode", made(PrefillNode, lambda: SourceDataPath("n", fabric)),
               {**shared, "refuses": lambda _: None})
    yield Case("DecodeNode", made(DecodeNode, lambda: SinkDataPath("n", fabric)),
               {**shared, "incarnation": None})
    yield Case("Link", Link, {
        "bind": "tcp://127.0.0.1:0", "high_water": 10, "sign_of_life_s": 1.0, "silent_s": 5.0,
        "absent_s": 60.0, "grace_s": 0.5, "returns_s": 60.0, "curve": None, "advertise": None,
        "insecure": False})
    yield Case("OperatorPort", OperatorPort, {
        "node": world.nodes.decodes[0], "host": "127.0.0.1", "port": 0,
        "faults_token": ""})
    yield Case("RegistryServer", RegistryServer, {"host": "127.0.0.1", "port": 0, "keys": None,
                                                  "insecure": True})
    yield Case("Settings", lambda **given: Settings(**given).link(), {
        **{one.name: one.default for one in fields(Settings)
           if one.metadata and one.name != "keys"},  # an error names the file
        "waits": {"no_news": 1.0}})
    yield Case("Addressed", Addressed, {"server": "127.0.0.1:9", "ranks": 2, "rank": 0})


def path_constructors() -> Iterator[Case]:
    pools = [np.zeros((4, 1, 1, 512), np.uint8)]
    copied = {"pools": pools, "order": Order.NHD, "device": None, "page_tokens": None, "threads": 1}
    yield Case("SourcePages", paths(SourcePages, lambda: open_source("shm")), copied)
    yield Case("SinkPages", paths(SinkPages, lambda: open_sink("shm")), copied)
    yield Case("DirectPages", paths(DirectPages, lambda: open_sink("tcp")),
               {"pools": pools, "order": Order.NHD})
    for kind in (SourcePages, SinkPages, DirectPages):
        yield Case(kind.__name__, partial(kind, pools), {"engine": None})


def registry_cases() -> Iterator[Case]:
    """The calls of the registry's client. Nobody listens, so a call that is made is not answered.
    """
    yield Case("RegistryClient", lambda **given: RegistryClient(**given).close(),
               {"address": "127.0.0.1:9", "timeout_s": 0.1, "keys": None})
    client = RegistryClient("127.0.0.1:9", timeout_s=0.1)

    def asked(call: Callable[..., Any]) -> Callable[..., None]:
        def ask(**given: Any) -> None:
            with suppress(UnreachableError):
                call(**given)

        return ask

    room, rooms = {"room": 1, "dp_rank": 0, "generation": None}, {"rooms": [1], "generations": ()}
    yield Case("register_room", asked(client.register_room), room)
    yield Case("retire_room", asked(client.retire_room), room)
    yield Case("query_rooms", asked(client.query_rooms), rooms)
    yield Case("withdraw_rooms", asked(client.withdraw_rooms), rooms)
    yield Case("look_up_all", asked(client.look_up_all), {"room": None})
    yield Case("look_up", asked(client.look_up), {"question": None})
    yield Case("keep_alive", asked(client.keep_alive), {"run": None})
    yield Case("deregister", asked(client.deregister), {"run": None})
    yield Case("register", asked(client.register), {"registration": None})
    rank = {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": "127.0.0.1", "rank_port": 9,
            "name": "p0", "incarnation": 5, "page_size": 16, "load_balance_method": "so",
            "capabilities": (), "leaving": None}
    yield Case("Registration", lambda **given: asked(client.register)(
        registration=Registration(**given)), rank)
    run = {"dp": 0, "cp": 0, "tp": 0, "pp": 0, "incarnation": 5}
    yield Case("Run", lambda **given: asked(client.keep_alive)(run=Run(**given)), run)


def page_cases() -> Iterator[Case]:
    """The calls of nodes with pages, where a number may be of no page."""
    pools = [np.zeros((32, 1, 1, 512), np.uint8)]
    prefill = PrefillNode("p0", SourcePages(pools, open_source("shm")))
    decode = DecodeNode("d0", SinkPages(pools, open_sink("shm")))
    try:
        source: Any = prefill._node.data_path
        sink: Any = decode._node.data_path
        yield Case("SourcePages.mark", lambda pages: source.mark(checked.numbers("pages", pages)),
                   {"pages": [31]})
        yield Case("SinkPages.mark", lambda pages: sink.mark(checked.numbers("pages", pages)),
                   {"pages": [31]})
    finally:
        prefill.close()
        decode.close()


def every_odd(case: Case) -> None:
    told = [case.complaint(argument, odd) for argument in case.good for odd in ODD]
    assert not any(told), "\n".join(filter(None, told))


def test_each_odd_value_of_an_argument_is_refused_or_ends_that_hand_over_alone() -> None:
    with cluster(waits=SHORT) as nodes:
        world = World(nodes)
        for case in cases(world):
            every_odd(case)
            world.ends()
        nodes.settled()


def test_constructors_refuse_odd_values_by_name() -> None:
    with cluster() as nodes:
        for case in (*constructors(World(nodes)), *path_constructors()):
            every_odd(case)


def test_the_client_of_the_registry_refuses_odd_values_by_name() -> None:
    for case in registry_cases():
        every_odd(case)


def test_pages_that_do_not_exist_are_refused_at_the_call() -> None:
    for case in page_cases():
        every_odd(case)
        with pytest.raises(ValueError, match=r"pages: 32: want 0 to 31"):
            case.call(pages=[1, 32])


OFFER: Final[dict[str, Any]] = {
    "version": VERSION, "room": "5", "tokens": 3, "firsts": [0], "carried": 3, "layout": {"a": "b"},
    "ranks": [[0, 0, "prefill", "tcp://127.0.0.1:9"]], "prompt": {"tokens": "ab"}, "loopback": "",
    "seal": "ab"}


def odd_offers() -> Iterator[dict[str, Any]]:
    """Parameters of a client of decode's HTTP port: each field of an offer, with each odd value."""
    right: dict[str, Any] = {**OFFER}
    assert right.keys() == set(Offer.__struct_fields__)
    json = type(None), str, bool, int, float, list, dict
    for value in (value for value in ODD.values() if type(value) in json):
        yield {KEY: value}
        yield {KEY: right, str(type(value)): value}
        for name in right:
            yield {KEY: {**right, name: value}}
        for place in range(4):
            rank: list[Any] = [0, 0, "prefill", "tcp://127.0.0.1:9"]
            rank[place] = value
            yield {KEY: {**right, "ranks": [rank]}}
        yield {KEY: {**right, "layout": {"a": value}}}
        yield {KEY: {**right, value if isinstance(value, str) else "y": 1}}
        yield {value if isinstance(value, str) else "z": right}


@pytest.fixture(scope="module")
def seals(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Seals]:
    """Those of servers without keys, with the secret, and with the keys of a member."""
    (member,) = write_members(str(tmp_path_factory.mktemp("keys")), ["one"])
    return [*map(Seals, (Settings(), Settings(secret=new_secret()), Settings(keys=member)))]


def require_offer_or_reason(params: Mapping[str, Any], seals: Iterable[Seals]) -> None:
    """Each server takes the parameters for an offer, or has a reason that can be sent."""
    for each in seals:
        try:
            offer = offer_in(params)
            checked.endpoints("ranks", dict(placed(offer.ranks).values()))
            told = each.doubt(offer) or ""
        except ValueError as error:
            told = str(error)
        assert len(told.encode()) < 8_000


def test_an_odd_offer_is_an_offer_or_refused_with_a_reason_that_can_be_sent(
    seals: Sequence[Seals]
) -> None:
    """Seen red with seals compared as text: TypeError."""
    for params in odd_offers():
        require_offer_or_reason(params, seals)
