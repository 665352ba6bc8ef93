"""No argument of a public call is left out of the odd values of test_arguments.py.

The calls are found by import: each class that `pdproto` exports, its constructor and its methods.
"""

import inspect
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import product
from typing import Any, Final

import numpy as np
import pytest
import zmq

import pdproto
from pdproto import Curve, DirectPages, Link, RegistryServer, TraceWriter
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import open_sink
from pdproto.node.decode.pool import Pool
from pdproto.node.link import tcp_at
from pdproto.node.prefill.keeps import NO_PLACES, Places
from pdproto.runtime.errors import ProtocolError
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from pdproto.transport.settings import NAMES as NAMED
from pdproto.transport.settings import SettingsError, load
from tests.fuzz import test_arguments
from tests.fuzz.test_arguments import ODD, SHORT, Case, World, every_odd, made, paths
from tests.node.data_paths import SinkDataPath, SourceDataPath, cluster

PUBLIC, SECRET = zmq.curve_keypair()


class Desk:
    """Answers no look-up."""

    def look_up(self, *_: object) -> None: ...

    def query(self, *_: object) -> None: ...

    def withdraw(self, *_: object) -> None: ...


def seeking(world: World) -> Iterator[Case]:
    """The calls of a node that looks for rooms by itself, and those of a handle."""
    node = DecodeNode("seeker", SinkDataPath("seeker", world.nodes.fabric), desk=Desk(),
                      waits=SHORT)
    world.nodes.decodes.append(node)  # which closes it

    def seek(**given: Any) -> None:
        world.kept(node.seek(**given))

    yield Case("DecodeNode.seek", seek, {
        "room": 10**6 + 4, "server": "127.0.0.1:9", "pages": [9], "slot": None, "named": None,
        "on_released": None, "watcher": None, "use": None, "prompt": None})
    sender, receiver = world.pair()
    yield Case("Sender.watch", sender.watch, {"on_released": None, "watcher": None})
    yield Case("Receiver.watch", receiver.watch, {"on_released": None, "watcher": None})
    yield Case("Sender.stood", sender.stood, {"seconds": 1.0})


def nodes(world: World) -> Iterator[Case]:
    """Nodes, each argument that has a type of ours."""
    fabric = world.nodes.fabric
    path = SourceDataPath("n", fabric)
    sink = {"data_path": SinkDataPath("n", fabric), "trace": None, "desk": None}
    yield Case("PrefillNode", made(PrefillNode, lambda: None), {
        "name": "n", "data_path": path, "trace": None, "role": SOURCE_ROLE, "dp": None,
        "places": NO_PLACES})
    yield Case("Places", lambda **given: PrefillNode("n", path, places=Places(
        **given)).close(), {"number": 1, "pages": 1})
    yield Case("DecodeNode", made(DecodeNode, lambda: None), {
        "name": "n", **sink, "role": SINK_ROLE, "pool": Pool()})
    yield Case("DirectDecodeNode", made(DirectDecodeNode, lambda: None), {
        "name": "n", **sink, "link": None, "incarnation": None, "waits": None})


def direct_pages(**given: Any) -> None:
    """Pages of a size that this engine would have to convert are refused, with the reason."""
    with suppress(EngineError):
        paths(DirectPages, lambda: open_sink("tcp"))(**given)


def values() -> Iterator[Case]:
    """Values and functions beside nodes."""
    curve = {"public": PUBLIC, "secret": SECRET, "server": PUBLIC, "member": "",
             "members": {"one": PUBLIC}}
    yield Case("Curve", Curve, curve)
    yield Case("Curve.key_of", Curve(**curve).key_of, {"node": "one/0"})  # type: ignore[arg-type]
    yield Case("Curve.named", Curve(**curve).named, {"node": "d0"})  # type: ignore[arg-type]
    yield Case("Link.member_of", Link().member_of, {"node": "one/0"})
    yield Case("Link.suspecting_within", Link().suspecting_within, {"waits": [60.0]})
    yield Case("TraceWriter", TraceWriter, {"node": "d0", "target": io.BytesIO()})
    yield Case("RegistryServer", RegistryServer, {"limits": None, "traces": None, "store": None})
    yield Case("DirectPages", direct_pages, {
        "pools": [np.zeros((4, 1, 1, 512), np.uint8)], "page_tokens": None})
    yield Case("tcp_at", tcp_at, {"host": "127.0.0.1", "port": 0})


def taken(case: Case) -> dict[str, set[str]]:
    """The odd values that each argument takes without an error."""
    found: dict[str, set[str]] = {}
    for argument in case.good:
        for odd in ODD:
            with suppress(TypeError, ValueError, ProtocolError, OSError):
                case.call(**{**case.good, argument: ODD[odd]})
                found.setdefault(argument, set()).add(odd)
    return found


WHOLE: Final = frozenset({"staging_bytes", "copy_threads", "page_tokens", "keep_pages", "port"})
# Text is a name, and a sequence of numbers is one of seconds.
NAMES: Final = {"text", "nul", "kind of text"}
TAKES: Final[Mapping[str, set[str]]] = {
    "name": NAMES, "node": {*NAMES, "long"}, "trace": {"none"}, "dp": {"none"}, "desk": {"none"},
    "pool": {"none"}, "link": {"none"}, "waits": {"none", "numbers", "far", "every other"},
    "incarnation": {"none", "no dimensions"}, "number": {"no dimensions"},
    "pages": {"no dimensions"}, "member": {*NAMES, "empty", "long", "endless"},
    "limits": {"none"}, "traces": {"none"}, "store": {"none"}, "host": {*NAMES, "long", "half"},
    "port": {"no dimensions"}, "page_tokens": {"none", "no dimensions"}, "pools": set()}


def test_seek_and_the_calls_of_handles_refuse_odd_values_by_name() -> None:
    with cluster(waits=SHORT) as found:
        world = World(found)
        for case in seeking(world):
            every_odd(case)


def test_nodes_refuse_odd_parts_by_name() -> None:
    """Before: a trace, a desk or a data path of another kind was first looked at in the loop."""
    with cluster() as found:
        for case in nodes(World(found)):
            every_odd(case)
            for argument, odd in taken(case).items():
                assert odd <= TAKES[argument], case.name


def test_values_beside_nodes_are_refused_by_name() -> None:
    for case in values():
        every_odd(case)
        for argument, odd in taken(case).items():
            assert odd <= TAKES[argument], (case.name, argument)


def test_each_odd_value_of_a_setting_is_refused_by_name_and_source() -> None:
    """As in vLLM's `kv_connector_extra_config`, which is JSON. Seen red: OverflowError for inf,
    RuntimeError for a value without a repr, and 1.5 tokens of a part were taken for 1.
    """
    source = "kv_connector_extra_config"
    for name, odd in product(NAMED, (
            *ODD.values(), float("inf"), "1e999", "1.5", 0, "a" * 4_000, "host:99999")):
        wait = name.removeprefix("waits.")
        table = {name: odd} if wait == name else {"waits": {wait: odd}}
        try:
            load({}, tables={source: table})
        except SettingsError as error:
            told = str(error)
            assert len(told.encode()) < 600, "a line names the value once"
            assert source in told or "sign_of_life_s" in told, "two settings do not agree"
            assert wait in told or "sign_of_life_s" in told
        else:
            assert not (odd == "1.5" or odd is ODD["fraction"]) or name not in WHOLE, name


def test_settings_are_read_from_what_has_settings() -> None:
    """A SettingsError names the setting and its source, which is no argument."""

    def settings(**given: Any) -> None:
        with suppress(SettingsError):
            load(**given)

    every_odd(Case("load", settings, {"environment": {}, "sets": (), "file": None,
                                      "defaults": None, "tables": None}))
    for odd in ODD.values():
        for table in (odd, {"waits": odd}):
            with suppress(SettingsError):
                load({}, tables={"extra": table})


def test_a_path_that_is_none_is_not_called_toml() -> None:
    with pytest.raises(SettingsError, match="no path of a file"):
        load({}, file="a\0b")


# A node makes these, and calls them in its loop.
MADE_BY_NODES: Final = frozenset({"Receiver", "Sender"})
DATA_PATHS: Final = frozenset({"DirectPages", "SinkPages", "SourcePages", "TraceWriter"})
OF_NODES: Final = frozenset({
    "Receiver.aim", "Receiver.hold", "Receiver.marked", "Receiver.note", "Receiver.pages_of",
    "Sender.adopt", "Sender.done", "Sender.lane", "Sender.note", "Sender.posted",
    "Sender.published", "OperatorPort.run", "RegistryServer.run"})
PUBLIC_CLASSES: Final = tuple(
    kind for name in pdproto.__all__ if inspect.isclass(kind := getattr(pdproto, name))
    and not issubclass(kind, Exception | Enum))


def arguments_of(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """The calls of this class, each with the name of an argument."""
    title = kind.__name__
    for call, function in [(title, kind), *(
            (f"{title}.{name}", one) for name, one in inspect.getmembers(kind, callable)
            if not name.startswith("_") and title not in DATA_PATHS)]:
        is_ours = call in OF_NODES or (call == title and title in MADE_BY_NODES)
        if callable(function) and not is_ours:
            for name in inspect.signature(function).parameters:
                if name != "self":
                    yield call, name


def test_no_argument_of_a_public_call_is_left_out() -> None:
    """Seen red without the cases of `seek`, and with a new argument of `DecodeNode`."""
    with cluster(waits=SHORT) as found:
        world = World(found)
        every = [*test_arguments.cases(world), *test_arguments.constructors(world),
                 *test_arguments.path_constructors(), *test_arguments.registry_cases(),
                 *seeking(world), *nodes(world), *values()]
    tried = {(case.name, argument) for case in every for argument in case.good}
    tried |= {(f"{kind}.{case}", argument) for case, argument in tried
              for kind in ("DecodeNode", "PrefillNode", "DirectDecodeNode", "RegistryClient")}
    tried |= {(f"DirectDecodeNode.{call}", argument) for of, argument in tried
              for call in ("open", "seek") if of == f"DecodeNode.{call}"}
    there = {pair for kind in PUBLIC_CLASSES for pair in arguments_of(kind)}
    assert there - tried == set()
