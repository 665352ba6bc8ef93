"""Hand-overs of one room whose callers name the prompt, on nodes: each gets its own, or both ends
are told both names. The rows are those of spec/handoff/binding_prompts.py.

Where no clock is given, none runs: what a test sees then has come by messages alone.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from pdproto.node.prefill import binding, binding_rooms
from pdproto.node.prefill.binding_room import COMPARED, Room
from pdproto.node.prefill.binding_rooms import BindingRooms
from pdproto.runtime import checked
from pdproto.runtime.role import RANK_ALONE, WINDOW, RankRole
from pdproto.spec.handoff.binding_prompts import (
    HERE,
    NAMED,
    NONE_ALIKE_OPEN,
    OLDEST_ALIKE,
    ORDERED,
    fits,
)
from pdproto.spec.handoff.binding_tables import (
    OLDEST,
    Meeting,
    ask,
    d,
    h,
    meeting,
    opening,
    p,
    u,
)
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language import (
    AddClause,
    DropClause,
    DropRow,
    Ignore,
    ReplaceProperties,
    ReplaceRow,
    all_of,
    edited,
    exists,
)
from pdproto.spec.language.machine import Call
from pdproto.spec.language.system import System
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.waiting import until

ROOM: Final = 7
A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
NO_CLOCK: Final = {"no_news": 600.0, "no_bytes": 600.0, "no_other_life": 600.0}
SOON: Final = dict.fromkeys(NO_CLOCK, 0.1)
BOTH_NAMES: Final = f"{A.hex()} at prefill and {B.hex()} at decode"


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster(2, waits=NO_CLOCK) as found:
        yield found


@pytest.fixture
def asking() -> Iterator[Cluster]:
    """A life asks again at once, and a request waits for another life for as long."""
    with cluster(waits=SOON) as found:
        yield found


def served(nodes: Cluster, requests: list[bytes], lives: list[bytes]) -> dict[bytes, set[bytes]]:
    """Hand requests of one room over, opened at both servers in these orders. Returns of each life
    the prompts of its parts.
    """
    senders = [sender for prompt in requests for sender in nodes.senders(ROOM, prompt=prompt)]
    receivers = [one for prompt in lives
                 for one in published(nodes.receivers(ROOM, prompt=prompt))]
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], *ENDED))
    assert {end.poll() for end in (*senders, *receivers)} == {KVPoll.SUCCESS}
    found = {one.life.prompt or b"": {sender.prompt or b"" for sender in senders
                                      if sender.endpoint.life == one.life} for one in receivers}
    for receiver in receivers:
        receiver.close()
    nodes.settled()
    return found


def mixed_up(nodes: Cluster, use: int | None = None) -> list[str]:
    """The failures of both ends, where prefill has one prompt and decode another."""
    senders = nodes.senders(ROOM, use, prompt=A)
    receivers = published(nodes.receivers(ROOM, use=use, prompt=B))
    until(polls([*senders, *receivers], KVPoll.FAILED))
    failures = [end.failure or "" for end in (*senders, *receivers)]
    for receiver in receivers:
        receiver.close()
    nodes.settled()
    return failures


@pytest.mark.parametrize("lives", ["abc", "bca", "cba"])
def test_each_life_gets_the_request_of_its_prompt_in_any_order(
    nodes: Cluster, lives: str
) -> None:
    """Three clients, three prompts, one room, at once. Seen red with `bind` blind to prompts."""
    found = served(nodes, [A, B, C], [letter.encode() * 16 for letter in lives])
    assert found == {A: {A}, B: {B}, C: {C}}


def test_a_life_waits_for_no_older_request_of_another_prompt(nodes: Cluster) -> None:
    older, asked = nodes.senders(ROOM, prompt=A), nodes.senders(ROOM, prompt=B)
    receivers = published(nodes.receivers(ROOM, prompt=B))
    until(polls(asked, KVPoll.WAITING_FOR_INPUT))
    for sender in asked:
        sender.send([1, 2, 3])
    until(polls([*asked, *receivers], KVPoll.SUCCESS))
    assert {sender.poll() for sender in older} == {KVPoll.BOOTSTRAPPING}
    for receiver in receivers:
        receiver.close()
    for sender in older:
        sender.abort("the test ends")
    until(polls(older, KVPoll.FAILED))


def test_more_prompts_than_are_compared_get_their_own(nodes: Cluster) -> None:
    prompts = [bytes([number]) * 16 for number in range(1, COMPARED + 4)]
    assert served(nodes, prompts, prompts[::-1]) == {prompt: {prompt} for prompt in prompts}


def test_samples_of_one_prompt_share_a_room_with_another_prompt(nodes: Cluster) -> None:
    assert served(nodes, [A, A, B, A], [B, A, A, A]) == {A: {A}, B: {B}}


@pytest.mark.parametrize("decode_first", [False, True])
def test_a_mix_up_of_one_number_is_told_to_both_ends_by_messages(
    nodes: Cluster, decode_first: bool
) -> None:
    """Seen red without the row `find_other_prompt`: both ends wait."""
    if decode_first:
        receivers = published(nodes.receivers(ROOM, use=3, prompt=B))
        until(lambda: all(len(node._node.lives) == 1 for node in nodes.prefills))
        senders = nodes.senders(ROOM, 3, prompt=A)
    else:
        senders = nodes.senders(ROOM, 3, prompt=A)
        receivers = published(nodes.receivers(ROOM, use=3, prompt=B))
    until(polls([*senders, *receivers], KVPoll.FAILED))
    assert all(BOTH_NAMES in (end.failure or "") for end in (*senders, *receivers))
    for receiver in receivers:
        receiver.close()
    nodes.settled()


def test_a_mix_up_of_a_room_is_told_to_both_ends_when_the_life_asks_again(
    asking: Cluster
) -> None:
    """Seen red without the rows `tell_other_prompt` and `end_other_prompt`."""
    assert all(BOTH_NAMES in failure for failure in mixed_up(asking))
    assert asking.prefills[0].metrics.read()["bootstrap_failed_reqs"] == 1


def test_a_mix_up_whose_life_has_ended_ends_its_request(asking: Cluster) -> None:
    (receiver,) = asking.receivers(ROOM, prompt=B)
    receiver.abort("the client has left")
    until(lambda: [early.poll() for early in asking.prefills[0]._node.binding.early]
          == [KVPoll.FAILED])
    (sender,) = asking.senders(ROOM, prompt=A)
    until(polls([sender], KVPoll.FAILED))
    assert BOTH_NAMES in (sender.failure or "")
    asking.settled()


def test_a_request_of_another_prompt_that_has_ended_is_told_with_its_reason(
    asking: Cluster
) -> None:
    """A server that refuses a request names the prompt as it has it."""
    (sender,) = asking.senders(ROOM, prompt=A)
    sender.abort("refused by the prefill scheduler")
    until(polls([sender], KVPoll.FAILED))
    (receiver,) = published(asking.receivers(ROOM, prompt=B))
    until(polls([receiver], KVPoll.FAILED))
    for told in (A.hex(), B.hex(), "refused by the prefill scheduler"):
        assert told in (receiver.failure or "")
    receiver.close()
    asking.settled()


@pytest.mark.parametrize(("here", "there"), [(None, B), (A, None)])
def test_a_prompt_that_one_end_does_not_name_is_another(
    asking: Cluster, here: bytes | None, there: bytes | None
) -> None:
    (sender,) = asking.senders(ROOM, prompt=here)
    (receiver,) = published(asking.receivers(ROOM, prompt=there))
    until(polls([sender, receiver], KVPoll.FAILED))
    for end in (sender, receiver):
        assert "one without a name" in (end.failure or "")
    receiver.close()
    asking.settled()


def test_a_mix_up_leaves_the_others_of_its_room_alone(asking: Cluster) -> None:
    (other,) = asking.senders(ROOM, prompt=A)
    (mine,) = published(asking.receivers(ROOM, prompt=B))
    until(polls([mine], KVPoll.FAILED))
    (late,) = published(asking.receivers(ROOM, prompt=A))
    until(lambda: other.poll() is not KVPoll.BOOTSTRAPPING)
    if other.poll() is KVPoll.WAITING_FOR_INPUT:  # else its own life came too late
        other.send([1, 2, 3])
        until(polls([other, late], KVPoll.SUCCESS))
    for receiver in (mine, late):
        receiver.close()
    asking.settled()


@pytest.mark.parametrize(("prompt", "why"), [
    (b"", "0 bytes; want 1 to 32"), (b"x" * 33, "33 bytes; want 1 to 32"),
    ("text", "want bytes, such as a digest, not str"), (7, "not int"),
    (bytearray(b"x"), "not bytearray"),
])
def test_a_prompt_that_is_no_digest_is_refused_at_the_call(
    nodes: Cluster, prompt: Any, why: str
) -> None:
    for opens in (nodes.senders, nodes.receivers):
        with pytest.raises((TypeError, ValueError), match=why):
            opens(ROOM, prompt=prompt)
    nodes.settled()


# Edits of the rows that nodes run, and what the tests above see then.
NOT_TOLD: Final = ReplaceRow("tell_other_prompt", Ignore(
    ask(d, h, p), name="tell_other_prompt", why="a defect", when=[
        meeting(p, h) == Meeting.UNBOUND, NONE_ALIKE_OPEN, exists(
            u, all_of(~fits(h, u), opening(p, u).among(*HERE)))]))


def given(monkeypatch: pytest.MonkeyPatch, system: System, *edits: Any) -> None:
    """Nodes run the rows of this system with these edits."""
    defect = edited(system, "defect", ReplaceProperties(()), *edits)
    role = RankRole(defect.table(RANK_ALONE.machine))
    if system is NAMED:
        monkeypatch.setattr(binding_rooms, "NAMED_ROLE", role)
    else:
        monkeypatch.setattr(binding, "BindingRooms", partial(BindingRooms, role=role))


def mistaken(nodes: Cluster, use: int | None = None) -> None:
    """A life of one prompt gets the KV of another, and both ends poll Success."""
    (sender,) = nodes.senders(ROOM, use, prompt=A)
    (receiver,) = published(nodes.receivers(ROOM, use=use, prompt=B))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(polls([sender, receiver], KVPoll.SUCCESS))
    receiver.close()


def test_with_names_that_no_node_takes_a_life_gets_the_kv_of_another(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "prompt", lambda _: None)
    with cluster(waits=NO_CLOCK) as nodes:
        requests = [one for prompt in (A, B) for one in nodes.senders(ROOM, prompt=prompt)]
        (life,) = published(nodes.receivers(ROOM, prompt=B))
        until(polls(requests[:1], KVPoll.WAITING_FOR_INPUT))
        requests[0].send([1, 2, 3])
        until(polls([requests[0], life], KVPoll.SUCCESS))
        life.close()
        requests[1].abort("the test ends")
        until(polls(requests[1:], KVPoll.FAILED))


def test_with_prompts_of_a_number_not_compared_a_life_gets_the_kv_of_another(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, NAMED, DropClause("bind_named", fits(h, u)), DropRow("find_other_prompt"))
    with cluster(waits=NO_CLOCK) as nodes:
        mistaken(nodes, 3)


@pytest.mark.parametrize(("system", "use", "edit"), [
    (NAMED, 3, DropRow("find_other_prompt")), (ORDERED, None, DropRow("end_other_prompt")),
    (ORDERED, None, NOT_TOLD),
], ids=["find", "end", "tell"])
def test_without_a_row_of_mix_ups_a_request_waits_for_its_clock(
    monkeypatch: pytest.MonkeyPatch, system: System, use: int | None, edit: Any
) -> None:
    given(monkeypatch, system, edit)
    with cluster(waits={**SOON, "bootstrap_timeout": 1.0}) as nodes:
        (sender,) = nodes.senders(ROOM, use, prompt=A)
        (receiver,) = published(nodes.receivers(ROOM, use=use, prompt=B))
        until(polls([sender], KVPoll.FAILED))
        assert (sender.failure or "").startswith("bootstrap_timeout")
        receiver.close()


def test_with_one_order_of_all_prompts_a_life_waits_for_an_older_request(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A room whose prompts have states of their own cannot do that: here they have one."""
    take = Room._take

    def in_one_state(room: Room, of: Any, event: Any) -> None:
        both = [one for one in room._prompts.values() if one is of or one.requests]
        if len(both) == 1:
            take(room, of, event)
            return
        key: Any = next(key for key, known in room._automaton._events.items() if known is event)
        (one, other), shift = both, WINDOW * both.index(of)
        if key[0] is Call:
            room._take_both(one, other, lambda all_: all_.call(key[1], (key[2][0] + shift,)))
        else:
            d, h, p = key[1]
            room._take_both(one, other, lambda all_: all_.message(key[0], (d, h + shift, p)))

    given(monkeypatch, ORDERED, DropClause("bind", OLDEST_ALIKE), AddClause("bind", OLDEST))
    monkeypatch.setattr(Room, "_take", in_one_state)
    with cluster(waits=NO_CLOCK) as nodes:
        senders = [*nodes.senders(ROOM, prompt=A), *nodes.senders(ROOM, prompt=B)]
        (life,) = published(nodes.receivers(ROOM, prompt=B))
        until(lambda: life.life in nodes.prefills[0]._node.binding.rooms)
        assert {sender.poll() for sender in senders} == {KVPoll.BOOTSTRAPPING}
        for sender in senders:
            sender.abort("the test ends")
        until(polls([*senders, life], KVPoll.FAILED))
        life.close()
