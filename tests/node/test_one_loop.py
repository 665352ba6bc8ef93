"""There is one loop: the event loop and the simulator take the same turn, and it does no I/O."""

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.sim import host
from pdproto import DecodeNode, DirectDecodeNode, PrefillNode
from pdproto.group.group import Group
from pdproto.node.connections import Connections
from pdproto.node.core import Core, run_turn
from pdproto.node.link import Link
from pdproto.node.ports import Arrived
from pdproto.transport import event_loop

ROOT = Path(__file__).resolve().parents[2]
WORLD = {"asyncio", "os", "queue", "select", "selectors", "socket", "subprocess", "threading",
         "time", "zmq"}
# The parts of a turn. Only the turn itself says in which order they come.
PARTS = {"_serve_parts", "flush", "check_peers", "note_changes", "note_heard",
         "_take_batch", "farewells", "due"}

# Not of a node: a rank's part in a group has waits of its own, which its phases serve.
OTHER = {("group", name) for name in ("rank.py", "entry.py", "pass_entry.py", "repeats.py")}


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
            if (path.parent.name, path.name) not in OTHER]


def called(path: Path) -> Iterator[str]:
    """The names of the methods and functions that a module calls, but not those of a base class:
    a method that adds to one of the same name orders nothing.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "super()":
                continue
            yield function.attr if isinstance(function, ast.Attribute) else getattr(
                function, "id", "")


@pytest.mark.parametrize("path", modules("pdproto/node"), ids=lambda path: path.stem)
def test_a_node_does_no_io(path: Path) -> None:
    """No socket, no thread and no clock: they are on the other side of node/ports.py."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [
            alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        outside = {name.split(".")[0] for name in names} & WORLD
        assert not outside, f"{path.name} imports {outside}"


def test_the_loop_and_the_simulator_run_the_same_function() -> None:
    assert vars(event_loop)["run_turn"] is run_turn
    assert vars(host)["run_turn"] is run_turn


@pytest.mark.parametrize(
    "path", modules("lab/sim", "pdproto/transport", "pdproto/group"), ids=lambda path: path.stem)
def test_no_other_module_orders_the_parts_of_a_turn(path: Path) -> None:
    """The loop's end is an exception: it says farewell, which is no turn."""
    allowed = {"event_loop.py": {"farewells"}}
    assert PARTS & set(called(path)) <= allowed.get(path.name, set())


def test_nobody_replaces_the_turn() -> None:
    """A core has no subclass, in any module that is imported here."""
    assert Core.__subclasses__() == []
    assert Connections.__subclasses__() == []


class Order:
    """Notes in which order the parts of a turn are called."""

    def __init__(self, node: Core, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        connections = node.connections
        for owner, name in ((node, "_serve"), (node, "_receive"),
                            (connections, "note_changes"), (node, "_serve_parts"),
                            (connections, "check_peers"), (connections, "flush")):
            monkeypatch.setattr(owner, name, self._noting(name, getattr(owner, name)))

    def _noting(self, name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            self.seen.append(name)
            return whole(*arguments, **options)
        return noting


class NoTransport:
    """The part of a transport that a node without peers needs."""

    pace = host.UnlimitedPace()

    def ask(self, request: Callable[[], None]) -> None:
        raise NotImplementedError

    def clock(self) -> float:
        return 100.0


def test_the_order_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come first, then messages. Peers are checked before batches go to them."""
    node = Core("p0", Link(), 1)
    node.begin(NoTransport())  # type: ignore[arg-type]  # it needs no more
    order = Order(node, monkeypatch)
    assert run_turn(node, Arrived(), 100.0) > 100.0
    assert order.seen == ["_serve", "_receive", "note_changes", "_serve_parts",
                          "check_peers", "flush"]


@pytest.mark.parametrize(("kind", "names"), [
    (PrefillNode, {"in_doubt", "keep"}), (DecodeNode, {"seek"}), (DirectDecodeNode, {"seek"})])
def test_a_node_has_only_the_methods_that_users_need(kind: type, names: set[str]) -> None:
    """The public names of a node. One more needs a reason, and a line in the documents."""
    both = {"close", "declare_gone", "drain", "faults", "health", "inject", "living_peers",
            "lost_peers", "on_leave", "open", "open_handoffs", "stalled", "unready"}
    public = {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}
    assert public == both | names


def test_a_group_has_only_the_methods_that_users_need() -> None:
    public = {name for name, _ in inspect.getmembers(Group) if not name.startswith("_")}
    assert public == {"abort", "answer", "answers", "arrivals", "bootstrapped", "close",
                      "decisions", "ended", "failed", "health", "prepared", "submit",
                      "transfer_failed", "transferred"}
