"""Functions of the application that raise end nothing, and see a state that has been set."""

import ast
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pytest

import pdproto
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster, idle
from tests.waiting import PATIENCE_S, ended, until


def bad(*_: object) -> Any:
    raise RuntimeError("a bug of the application")


def leaves(*_: object) -> Any:
    sys.exit("the application means its own thread")


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def closed(*_: object) -> Any:
    raise GeneratorExit


def cancelled(*_: object) -> Any:
    raise asyncio.CancelledError


NO_ERRORS: Final = (leaves, interrupted, closed, cancelled)


def hand_over(
    nodes: Cluster, room: int, at: str = "", name: str = "", abort: str = "",
    function: Callable[..., Any] = bad,
) -> None:
    """A hand-over with a bad function of this name at one end."""
    def odd(end: str) -> dict[str, Any]:
        return {name: function} if at == end else {}

    prefill, decode = nodes.prefills[0], nodes.decodes[0]
    sender = prefill.open(room, **odd("sender"))
    receiver = decode.open(room, {"p0": prefill.endpoint}, pages=[1, 2],
                           **odd("receiver"))
    until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
    if abort:
        (sender if abort == "sender" else receiver).abort("so")
    else:
        sender.send([3, 4])
    until(lambda: sender.poll() in ENDED and receiver.poll() in ENDED)
    assert sender.poll() is receiver.poll() is (KVPoll.FAILED if abort else KVPoll.SUCCESS)
    receiver.close()
    until(lambda: sender.released and receiver.released)


@pytest.mark.parametrize("abort", ["", "sender", "receiver"])
@pytest.mark.parametrize("name", ["on_released", "watcher"])
@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_a_function_that_raises_ends_nothing(
    at: str, name: str, abort: str, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster() as nodes:
        hand_over(nodes, 1, at, name, abort)
        for room in range(2, 6):
            hand_over(nodes, room)
        nodes.settled()  # nothing is remembered, and no turn has failed
        node = nodes.prefills[0] if at == "sender" else nodes.decodes[0]
        assert node.metrics.read()["callback_errors"] >= 1
        assert node.health() is None
    told = [line for line in caplog.messages if f"{name} has failed (1 so far)" in line]
    assert len(told) == 1


@pytest.mark.parametrize("function", NO_ERRORS)
@pytest.mark.parametrize("name", ["on_released", "watcher"])
@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_what_is_no_error_ends_no_loop(
    at: str, name: str, function: Callable[..., Any]
) -> None:
    """Seen red: the loop's thread ended without a word, and `health` named no problem."""
    with cluster() as nodes:
        hand_over(nodes, 1, at, name, function=function)
        hand_over(nodes, 2)
        nodes.settled()


@pytest.mark.parametrize("function", NO_ERRORS)
def test_a_turn_that_an_exit_ends_fails_alone(function: Callable[..., Any]) -> None:
    """Seen red as above: a request of the application is a part of the turn."""
    with cluster() as nodes:
        nodes.prefills[0]._core.ask(function)
        until(lambda: nodes.prefills[0]._loop.turn_errors == 1)
        hand_over(nodes, 1)


@pytest.mark.parametrize("function", NO_ERRORS)
def test_the_last_turn_may_be_ended_so_and_peers_hear_of_it(function: Callable[..., Any]) -> None:
    """Seen red: the node said no farewell, and decode waited until it was suspected."""
    with cluster() as nodes:
        prefill = nodes.prefills[0]
        (receiver,) = nodes.receivers(1)
        until(lambda: receiver.poll() is not KVPoll.BOOTSTRAPPING or prefill._core.peers)
        stopped, go_on = Event(), Event()

        def stand_still() -> None:
            stopped.set()
            go_on.wait(PATIENCE_S)

        prefill._core.ask(stand_still)
        assert stopped.wait(PATIENCE_S)
        prefill._core.ask(function)  # it is served in the last turn
        closing = Thread(target=prefill.close)
        closing.start()
        until(lambda: prefill._loop._closing)
        go_on.set()
        ended(closing)
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert "it has been closed" in str(receiver.failure)


# Where our threads catch only errors, because they call no function of the application there.
LIBRARY: Final = "an engine's library"
DEVICE: Final = "a device of ours, in a worker whose futures hold whatever it raises"
OURS: Final[Mapping[str, str]] = {
    **{f"engine/nixl.py:{name}": LIBRARY for name in (
        "__init__", "_move_on", "begin", "ended", "meet", "register", "unregister")},
    "engine/engines.py:_load": "a package that is imported, in the thread that opens",
    "node/connections.py:_batch_for": "the encoder",
    "pages/sink_pages.py:_has_ended": DEVICE, "pages/sink_pages.py:_verify": DEVICE,
    "pages/source_pages.py:_end_pack": DEVICE, "pages/source_pages.py:_put": DEVICE,
    "registry/lookups.py:_look": "the registry's client",
    "registry/replica.py:_answers": "a change of the registry",
    "registry/replica.py:_for_ever": "the store",
    "transport/http_server.py:_tick_until": "the tick of a registry or a port",
}


def narrow() -> Iterator[str]:
    """The functions in the threads of nodes, engines and registries that catch `Exception`."""
    for folder in ("engine", "group", "items", "net", "node", "pages", "registry", "transport"):
        for path in sorted(Path(pdproto.__path__[0], folder).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                        isinstance(one, ast.ExceptHandler) and isinstance(one.type, ast.Name)
                        and one.type.id == "Exception" for one in ast.walk(function)):
                    yield f"{folder}/{path.name}:{function.name}"


def test_each_place_that_catches_only_errors_calls_nobody_elses_functions() -> None:
    """Seen red with the effects of a step, the last turn and the jobs of a desk among them."""
    assert {*narrow()} == OURS.keys()


@pytest.mark.parametrize("function", [bad, *NO_ERRORS])
def test_a_function_that_refuses_rooms_may_raise(function: Callable[..., Any]) -> None:
    with cluster(refuses=function) as nodes:
        (receiver,) = nodes.receivers(1)  # before the sender: prefill is asked
        receiver.publish([1])
        until(lambda: nodes.prefills[0].metrics.read()["callback_errors"])
        (sender,) = nodes.senders(1)
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        sender.send([1])
        until(lambda: receiver.poll() is KVPoll.SUCCESS)
        receiver.close()
        nodes.settled()


def test_a_function_that_hears_of_a_drain_may_raise() -> None:
    with cluster() as nodes:
        node = nodes.prefills[0]
        node.on_leave(bad)
        node.drain().result(timeout=30)
        assert node.metrics.read()["callback_errors"] == 1
        assert node._loop.turn_errors == 0


def test_the_status_is_that_of_the_step_when_the_application_is_told() -> None:
    seen: list[tuple[str, KVPoll, KVPoll, bool]] = []

    def note(name: str, handle: Callable[[], Any]) -> Callable[..., None]:
        return lambda *_: seen.append(
            (name, handle().poll(), handle().settled, handle().released))

    with cluster() as nodes:
        prefill, decode = nodes.prefills[0], nodes.decodes[0]
        sender = prefill.open(1, on_released=note("sender", lambda: sender))
        receiver = decode.open(1, {"p0": prefill.endpoint}, pages=[1],
                               on_released=note("receiver", lambda: receiver))
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        sender.send([1])
        until(lambda: receiver.poll() is KVPoll.SUCCESS)
        receiver.close()
        until(lambda: len(seen) == 2)
        assert seen == [("sender", KVPoll.SUCCESS, KVPoll.SUCCESS, True),
                        ("receiver", KVPoll.SUCCESS, KVPoll.SUCCESS, True)]
        until(lambda: idle(prefill) and idle(decode))


@pytest.mark.parametrize("function", [bad, *NO_ERRORS])
def test_a_defect_in_one_effect_of_a_step_leaves_the_others(function: Callable[..., Any]) -> None:
    """An engine of the application is called in effects. Seen red where only errors are caught."""
    with cluster() as nodes:
        node = nodes.decodes[0]
        metrics: Any = node.metrics
        add = metrics.add
        failed: list[str] = []

        def broken(name: str, amount: float = 1) -> None:
            if name == "handoffs_succeeded" and not failed:
                failed.append(name)
                function()
            add(name, amount)

        metrics.add = broken
        hand_over(nodes, 1)
        hand_over(nodes, 2)
        assert len(failed) == node._loop.turn_errors == 1
        until(lambda: all(map(idle, nodes.nodes)))
