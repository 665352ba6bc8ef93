"""Functions of the application that raise end nothing, and see a state that has been set."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster, idle
from tests.waiting import until


def bad(*_: object) -> Any:
    raise RuntimeError("a bug of the application")


def leaves(*_: object) -> Any:
    sys.exit("the application means its own thread")


def cancelled(*_: object) -> Any:
    raise asyncio.CancelledError


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


@pytest.mark.parametrize("function", [leaves, cancelled])
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


def test_a_turn_that_an_exit_ends_fails_alone() -> None:
    """Seen red as above: a request of the application is a part of the turn."""
    with cluster() as nodes:
        nodes.prefills[0]._core.ask(leaves)
        until(lambda: nodes.prefills[0]._loop.turn_errors == 1)
        hand_over(nodes, 1)


@pytest.mark.parametrize("function", [bad, leaves])
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


def test_a_defect_in_one_effect_of_a_step_leaves_the_others() -> None:
    with cluster() as nodes:
        node = nodes.decodes[0]
        metrics: Any = node.metrics
        add = metrics.add
        failed: list[str] = []

        def broken(name: str, amount: float = 1) -> None:
            if name == "handoffs_succeeded" and not failed:
                failed.append(name)
                raise RuntimeError("a defect of an effect")
            add(name, amount)

        metrics.add = broken
        hand_over(nodes, 1)
        hand_over(nodes, 2)
        assert len(failed) == node._loop.turn_errors == 1
        until(lambda: all(map(idle, nodes.nodes)))
