"""Each thing that a stranger on the network does to nodes without keys, and cannot do to others.

Each attempt is made twice: without keys it succeeds, so the test knows that it is a real one.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import pytest
import zmq

from pdproto.node.link import Curve, Link
from pdproto.runtime.batches import encode
from pdproto.runtime.wire import AnyFrame, Done, Introduce, Life, row_digest
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.keys import new_secret, of_secret
from tests.node.data_paths import Cluster, SinkDataPath, cluster, polls, published
from tests.waiting import until

KEYS: Final = of_secret(new_secret())
SOON_S: Final = 0.5  # an attempt that succeeds has succeeded long before
FORGED: Final = b"forged"


@dataclass(frozen=True)
class Stranger:
    """A process on the network. curve: the keys that it has, if any."""

    context: "zmq.Context[zmq.Socket[bytes]]"
    curve: Curve | None
    opened: ExitStack

    def say(
        self, name: str, to: str, *frames: AnyFrame, incarnation: int = 99, gone: str | None = None
    ) -> None:
        """Send a batch under that name."""
        speaking = self.opened.enter_context(self.context.socket(zmq.DEALER))
        speaking.setsockopt(zmq.LINGER, 0)
        speaking.setsockopt_string(zmq.IDENTITY, name)
        if self.curve is not None:
            speaking.curve_publickey, speaking.curve_secretkey = (
                self.curve.public, self.curve.secret)
            speaking.curve_serverkey = self.curve.server
        speaking.connect(to)
        speaking.send(encode(name, incarnation, 0, frames, gone))


Attempt: TypeAlias = Callable[[Cluster, Stranger, ExitStack], Callable[[], bool]]


def forge_a_farewell(nodes: Cluster, stranger: Stranger, _: ExitStack) -> Callable[[], bool]:
    prefill, decode = nodes.prefills[0], nodes.decodes[0]
    stranger.say("d0", prefill.endpoint, incarnation=decode.incarnation, gone="it has been closed")
    return lambda: prefill.lost_peers() == ("d0",)


def take_a_name(nodes: Cluster, stranger: Stranger, _: ExitStack) -> Callable[[], bool]:
    prefill = nodes.prefills[0]
    stranger.say("d0", prefill.endpoint, incarnation=(1 << 63) - 1)
    return lambda: prefill._core.peers["d0"].incarnation == (1 << 63) - 1


def have_a_node_remember(nodes: Cluster, stranger: Stranger, _: ExitStack) -> Callable[[], bool]:
    prefill = nodes.prefills[0]
    lives = [Life(room, 99, room) for room in range(1_000, 1_200)]
    stranger.say("s0", prefill.endpoint,
                 *(Introduce(life, ("s0",), "tcp://127.0.0.1:1") for life in lives))
    return lambda: prefill.metrics.read()["num_remembered_lives"] >= len(lives)


def have_a_node_dial(nodes: Cluster, stranger: Stranger, opened: ExitStack) -> Callable[[], bool]:
    victim = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    victim.setblocking(False)
    where = f"tcp://127.0.0.1:{victim.getsockname()[1]}"
    stranger.say("s0", nodes.prefills[0].endpoint, Introduce(Life(1_000, 99, 0), ("s0",), where))

    def is_dialled() -> bool:
        try:
            victim.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    return is_dialled


def receive_the_kv_of_a_guessed_room(
    nodes: Cluster, stranger: Stranger, opened: ExitStack
) -> Callable[[], bool]:
    sender = nodes.prefills[0].open(3)
    thief = type(nodes.decodes[0])("thief", SinkDataPath("thief", nodes.fabric),
                                   link=Link(curve=stranger.curve), incarnation=5)
    opened.callback(thief.close)
    receiver = thief.open(3, {"p0": nodes.prefills[0].endpoint}, pages=[1, 2, 3], slot=0)

    sent: list[bool] = []

    def is_stolen() -> bool:
        if sender.poll() is KVPoll.WAITING_FOR_INPUT and not sent:
            sent.append(True)
            sender.send([0, 1, 2])
        return receiver.poll() is KVPoll.SUCCESS

    return is_stolen


def replace_metadata(nodes: Cluster, stranger: Stranger, _: ExitStack) -> Callable[[], bool]:
    """By the last message of prefill, before prefill has sent it."""
    sender = nodes.prefills[0].open(4)
    (receiver,) = published([nodes.decodes[0].open(4, {"p0": nodes.prefills[0].endpoint})])
    # A last message for pages that have no memory yet is dropped, whoever sends it.
    until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
    life = receiver.life
    assert life is not None
    stranger.say("p0", nodes.decodes[0].endpoint,
                 Done(life, (3,), FORGED, row_digest(life, FORGED)),
                 incarnation=nodes.prefills[0].incarnation)
    return lambda: receiver.metadata.get("p0") == FORGED


ATTEMPTS: Final[list[Attempt]] = [
    forge_a_farewell, take_a_name, have_a_node_remember, have_a_node_dial,
    receive_the_kv_of_a_guessed_room, replace_metadata]


def without_keys() -> Curve | None:
    return None


def with_keys_of_its_own() -> Curve | None:
    """It knows the public key of the node."""
    public, secret = zmq.curve_keypair()
    return Curve(public, secret, KEYS.curve.public)


def with_the_secret_of_another_cluster() -> Curve | None:
    return of_secret(new_secret()).curve


STRANGERS: Final = [without_keys, with_keys_of_its_own, with_the_secret_of_another_cluster]


@contextmanager
def speaking(curve: Curve | None) -> Iterator[tuple[Cluster, ExitStack]]:
    """A prefill and a decode node that have handed over."""
    link = Link(sign_of_life_s=0.05, curve=curve)
    with cluster(link=link) as nodes, ExitStack() as opened:
        hand_over(nodes, 1)
        yield nodes, opened


def hand_over(nodes: Cluster, room: int) -> None:
    senders, receivers = nodes.senders(room), published(nodes.receivers(room))
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([0, 1, 2])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    for receiver in receivers:
        receiver.close()


@contextmanager
def stranger_with(curve: Curve | None) -> Iterator[Stranger]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, ExitStack() as opened:
        yield Stranger(context, curve, opened)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_without_keys_a_stranger_can(attempt: Attempt) -> None:
    with speaking(None) as (nodes, opened), stranger_with(None) as stranger:
        until(attempt(nodes, stranger, opened))


@pytest.mark.parametrize("whose", STRANGERS)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_with_keys_a_stranger_cannot(attempt: Attempt, whose: Callable[[], Curve | None]) -> None:
    with speaking(KEYS.curve) as (nodes, opened), stranger_with(whose()) as stranger:
        has_worked = attempt(nodes, stranger, opened)
        ends = time.monotonic() + SOON_S
        while time.monotonic() < ends:
            assert not has_worked()
            time.sleep(0.01)
        hand_over(nodes, 2)
