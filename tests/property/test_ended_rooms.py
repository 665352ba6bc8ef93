"""Legs and requests of one room in any order on real nodes: a leg that is asked for once waits for
nothing that cannot come, and no other leg is refused (spec/handoff/ended.py).

No clock of the tables runs: a leg that has an end has it by messages.
"""

from collections import Counter
from dataclasses import dataclass, field
from time import sleep
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.ended_rooms import OVER
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import ENDED, Cluster, cluster
from tests.node.test_ended_rooms import A, B, leg, put_into, request
from tests.node.test_keeps import NO_CLOCK, others
from tests.property.profiles import runs
from tests.waiting import until

REST_S: Final = 0.005  # after each step: a while for the nodes
PROMPTS: Final = st.sampled_from([A, B])
STEP: Final = st.one_of(
    st.tuples(st.just("request"), PROMPTS),
    st.tuples(st.just("leg"), PROMPTS, st.integers(0, 1), st.booleans()),
    st.tuples(st.sampled_from(["send", "abort request", "abort leg"]), st.integers(0, 255)))
STEPS: Final = st.lists(STEP, min_size=2, max_size=12)


@dataclass(slots=True)
class Room:
    """legs: each with its prompt, and whether it is asked for once. requests: with their prompt."""

    nodes: Cluster
    legs: list[tuple[bytes, bool, Receiver]] = field(default_factory=list)
    requests: list[tuple[bytes, list[Sender]]] = field(default_factory=list)
    sent: set[Sender] = field(default_factory=set)

    def take(self, kind: str, *of: object) -> None:
        match kind, of:
            case "request", (bytes() as prompt,):
                self.requests.append((prompt, request(self.nodes, prompt)))
            case "leg", (bytes() as prompt, int() as server, bool() as once):
                self.legs.append((prompt, once, leg(self.nodes, server, prompt, once=once)))
            case "abort request", (int() as pick,) if self.requests:
                for sender in self.requests[pick % len(self.requests)][1]:
                    sender.abort("the client has left")
            case "abort leg", (int() as pick,) if self.legs:
                self.legs[pick % len(self.legs)][2].abort("the client has left")
            case "send", _:
                self.send()

    def send(self) -> None:
        for _, senders in self.requests:
            for one in senders:
                if one not in self.sent and one.poll() is KVPoll.WAITING_FOR_INPUT:
                    self.sent.add(one)
                    one.send([1, 2, 3])

    def waiting(self) -> list[tuple[bytes, bool]]:
        self.send()
        return [(prompt, once) for prompt, once, receiver in self.legs
                if receiver.poll() not in ENDED]

    def ended(self) -> list[bytes]:
        """The prompts of the requests that have ended."""
        return [prompt for prompt, senders in self.requests
                if all(one.poll() in ENDED for one in senders)]

    def is_told(self) -> bool:
        """No leg that is asked for once waits for a request that was before it."""
        over = self.ended()
        return not any(once and prompt in over for prompt, once in self.waiting())

    def is_served(self) -> bool:
        """Each other leg gets a request, and has an end."""
        runs = Counter(prompt for prompt, _ in self.requests) - Counter(self.ended())
        for prompt, _ in (waiting := self.waiting()):
            if not runs[prompt]:
                self.take("request", prompt)
                return False
        return not waiting

    def end(self) -> None:
        until(self.is_told, lambda: f"a leg waits: {self.legs}")
        until(self.is_served, lambda: f"a leg is not served: {self.legs}")
        for _, once, receiver in self.legs:
            assert once or OVER not in (receiver.failure or ""), f"refused: {receiver}"
            receiver.close()
        for _, senders in self.requests:
            for one in senders:
                one.abort("the test ends")


def fuzz() -> None:
    """Raises AssertionError."""
    @runs(25, nightly=400)
    @given(sources=st.integers(1, 2), steps=STEPS)
    def run(sources: int, steps: list[tuple[str, *tuple[object, ...]]]) -> None:
        with cluster(sources, waits=NO_CLOCK) as nodes:
            others(nodes)
            room = Room(nodes)
            for step in steps:
                room.take(*step)
                sleep(REST_S)
            room.end()

    try:
        run()
    except FlakyFailure as error:  # nodes have threads, so the same steps may go well
        raise AssertionError(str(error.exceptions)) from error


def test_a_leg_of_an_ended_room_is_told_and_no_other_one() -> None:
    fuzz()


@pytest.mark.parametrize(("defect", "told"), [
    ("ended-refuses-what-is-computed-again", "refused: "),
    ("ended-waits-for-a-clock", "a leg waits: ")])
def test_a_node_with_another_table_is_found_out(
    monkeypatch: pytest.MonkeyPatch, defect: str, told: str
) -> None:
    put_into(monkeypatch, defect)
    monkeypatch.setattr("tests.waiting.PATIENCE_S", 1.0, raising=False)
    with pytest.raises(AssertionError, match=told):
        fuzz()
