"""Members of a cluster: each has keys of its own, and no other's name."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import zmq
from msgspec import structs
from msgspec.structs import fields

from pdproto.cli.main import main
from pdproto.node.link import Link
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import RefusedError, Run
from pdproto.runtime.batches import encode
from pdproto.runtime.limits import ROOM_MAX
from pdproto.runtime.wire import AnyFrame, Introduce, Life, Meet, row_digest
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.keys import AUTHORITY, Keys, KeysError, new_secret, of_member, read
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.settings import load
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls, published
from tests.registry.served import group, prefill
from tests.waiting import until

SECRET: Final = new_secret()
NAMES: Final = ("a", "b", "c")
A, B, C = (of_member(SECRET, name, NAMES) for name in NAMES)
ALONE: Final = Run(0, 0, 0, 0, 1)


class Nodes:
    """A prefill node of member a and a decode node of member b, which have handed over."""

    def __init__(self, opened: ExitStack, fabric: Fabric | None = None,
                 prefill: PrefillNode | None = None, decode: DecodeNode | None = None) -> None:
        fabric = fabric or Fabric()
        self.prefill = prefill or PrefillNode("a/p0", SourceDataPath("a/p0", fabric),
                                              link=link_of(A))
        opened.callback(self.prefill.close)
        self.decode = decode or DecodeNode("b", SinkDataPath("b", fabric), link=link_of(B),
                                           incarnation=17)
        opened.callback(self.decode.close)
        self.hand_over(1)

    def hand_over(self, room: int) -> None:
        sender = self.prefill.open(room)
        receivers = published([self.decode.open(room, {"a/p0": self.prefill.endpoint})])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([0, 1, 2])
        until(polls([sender, *receivers], KVPoll.SUCCESS))
        receivers[0].close()


def link_of(keys: Keys) -> Link:
    return Link(sign_of_life_s=0.05, curve=keys.curve)


def say(opened: ExitStack, keys: Keys, name: str, to: str, server: bytes, *,
        named: bool = True) -> None:
    """A farewell under this name. named: the connection has the name, too."""
    context: zmq.Context[zmq.Socket[bytes]] = opened.enter_context(zmq.Context())
    speaking = opened.enter_context(context.socket(zmq.DEALER))
    speaking.setsockopt(zmq.LINGER, 0)
    if named:
        speaking.setsockopt_string(zmq.IDENTITY, name)
    speaking.curve_publickey, speaking.curve_secretkey = keys.curve.public, keys.curve.secret
    speaking.curve_serverkey = server
    speaking.connect(to)
    speaking.send(encode(name, 17, 0, (), "it has been closed"))


@pytest.mark.parametrize("named", [True, False])
def test_members_hand_over_and_none_takes_the_name_of_another(named: bool) -> None:
    with ExitStack() as opened:
        nodes = Nodes(opened)
        say(opened, C, "b", nodes.prefill.endpoint, A.curve.public, named=named)
        until(lambda: nodes.prefill.metrics.read()["impostors"] == 1)
        assert nodes.prefill.lost_peers() == ()
        nodes.hand_over(2)


LIFE: Final = Life(5, 17, 1, member="b")
MINE: Final = "tcp://127.0.0.1:9"
# By the name of a field: a frame is made of these, so one with another field has to be added here.
SAID: Final[Mapping[str, Any]] = {
    "life": LIFE, "sinks": ("b", "c"), "endpoint": MINE, "reason": "so", "address": b"address",
    "pages": 3, "chunks": (3,), "metadata": b"", "digest": row_digest(LIFE, b""), "by": 0,
    "rank": 0, "payload": b"", "number": 0, "slot": 0}


def frame_of(kind: type[AnyFrame], life: Life = LIFE) -> AnyFrame:
    """A frame of this kind about this life."""
    given = {**SAID, "life": life, "digest": row_digest(life, b"")}
    return kind(**{field.name: given[field.name] if field.name in given else get_args(field.type)[0]
                   for field in fields(kind) if field.required})


KINDS: Final[Mapping[str, type[AnyFrame] | None]] = {
    **{kind.__name__: kind for kind in get_args(AnyFrame)}, "farewell": None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_member_cannot_speak_for_the_lives_of_another_by_its_incarnation(
    kind: str, is_known: bool
) -> None:
    """Member c, under its own name and with its own keys, says the incarnation of member b.

    Seen red without the check of members and incarnations: with "Abort", "Introduce", "Publish"
    and "farewell" the hand-over of b ends, or waits for a second sink.
    """
    with ExitStack() as opened:
        nodes = Nodes(opened)
        speaking = member_c(opened, nodes.prefill.endpoint, A)
        if is_known:
            own = Life(10**6, 4242, 0, member="c")
            speaking.send(encode("c", 4242, 0, [Introduce(own, ("c",), MINE)]))
            until(lambda: "c" in nodes.prefill.living_peers())
        sender = nodes.prefill.open(5)
        receiver = nodes.decode.open(5, {"a/p0": nodes.prefill.endpoint}, pages=[1, 2, 3])
        assert receiver.life == LIFE
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        speaking.send(said(KINDS[kind], 17))
        heard(nodes.prefill, speaking)
        sender.send([0, 1, 2])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        nodes.hand_over(6)


# What member c says of numbers that are member b's: whose life it says it is, and in which room.
FIRST: Final = {"the life of b": LIFE, "a life of its own": structs.replace(LIFE, member="c"),
                "a life of its own in another room": structs.replace(LIFE, member="c", room=77),
                "a life of nobody": structs.replace(LIFE, member=None)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", FIRST)
def test_who_says_the_incarnation_of_another_member_first_does_not_own_it(
    kind: str, of: str
) -> None:
    """Member c says to prefill the incarnation of member b, before b calls there.

    Seen red where the first to say it owned it (batches of b were dropped: "it speaks as a run of
    c"), and where lives have no member: c's "Abort" of b's later life ends it.
    """
    with ExitStack() as opened:
        fabric = Fabric()
        prefill = PrefillNode("a/p0", SourceDataPath("a/p0", fabric), link=link_of(A))
        opened.callback(prefill.close)
        speaking = member_c(opened, prefill.endpoint, A)
        lived = Introduce(Life(10**6, 17, 0, member="c"), ("c",), MINE)
        speaking.send(encode("c", 17, 0, [lived]))
        speaking.send(said(KINDS[kind], 17, FIRST[of]))
        speaking.send(encode("c", 17, 10**6, [lived]))  # and that all below its floor are over
        heard(prefill, speaking)
        nodes = Nodes(opened, fabric, prefill)
        for room in (5, *range(100, 110)):  # the first one is LIFE
            nodes.hand_over(room)
        speaking.send(encode("c", 17, 10**9, [], "bye"))
        heard(prefill, speaking)
        nodes.hand_over(110)
        assert nodes.prefill.lost_peers() == ("c",)


@pytest.mark.parametrize("kind", KINDS)
def test_who_says_the_incarnation_of_a_source_first_does_not_own_it(kind: str) -> None:
    """Member c says to decode the incarnation of prefill's run, before prefill calls there.

    Seen red where the first to say it owned it: decode drops each batch of prefill.
    """
    with ExitStack() as opened:
        fabric = Fabric()
        prefill = PrefillNode("a/p0", SourceDataPath("a/p0", fabric), link=link_of(A))
        opened.callback(prefill.close)
        decode = DecodeNode("b", SinkDataPath("b", fabric), link=link_of(B), incarnation=17)
        opened.callback(decode.close)
        run = prefill._node.core.incarnation
        speaking = member_c(opened, decode.endpoint, B)
        speaking.send(encode("c", run, 0, [Meet(Life(10**6, run, 0, member="c"), 0, MINE)]))
        speaking.send(said(KINDS[kind], run))
        heard(decode, speaking)
        nodes = Nodes(opened, fabric, prefill, decode)
        for room in (5, *range(100, 105)):
            nodes.hand_over(room)


def test_a_member_of_many_names_and_runs_leaves_places_to_others(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Member c says ten names of its own, each with a run and lives in other rooms.

    Seen red where a name, or an incarnation, has as many places as are left: b is refused.
    """
    monkeypatch.setattr("pdproto.node.peer.PEERS_MAX", 8)
    monkeypatch.setattr("pdproto.node.prefill.waiting_senders.EARLY_LIVES_MAX", 6)
    with ExitStack() as opened:
        fabric = Fabric()
        prefill = PrefillNode("a/p0", SourceDataPath("a/p0", fabric), link=link_of(A))
        opened.callback(prefill.close)

        def heard_of(count: int) -> bool:
            refused = prefill.metrics.read()["malformed_frames"]
            return len(prefill._node.core.peers) + refused == count

        for run in range(10):
            name, lives = f"c/{run}", [
                Life(1_000 + run, 90 + run, one, member="c") for one in range(2)]
            speaking = member_c(opened, prefill.endpoint, A, name)
            speaking.send(encode(name, 90 + run, 0, [
                Introduce(life, (name,), f"tcp://127.0.0.1:{1 + run}") for life in lives]))
            until(partial(heard_of, run + 1))
        assert len(prefill._node.core.peers) == 4
        assert len(prefill._node.binding.early) == 3
        Nodes(opened, fabric, prefill)


def heard(node: PrefillNode | DecodeNode, speaking: zmq.Socket[bytes]) -> None:
    """Wait until the node has heard all that has been said to it over this connection."""
    told, wrong = node._core.repeats._counts, "c connection 'c' says it is node 'd'"
    before = told.get(wrong, 0)
    speaking.send(encode("d", 1, 0, ()))
    until(lambda: told.get(wrong, 0) > before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_cannot_speak_for_a_source_of_the_lives_of_another(kind: str) -> None:
    """Member c says to decode what only prefill's member may say of its hand-over.

    Seen red without the look at the sources of a life (`Sources._counted`): "Failed" is not
    refused.
    """
    with ExitStack() as opened:
        nodes = Nodes(opened)
        speaking = member_c(opened, nodes.decode.endpoint, B)
        sender = nodes.prefill.open(5)
        receiver = nodes.decode.open(5, {"a/p0": nodes.prefill.endpoint}, pages=[1, 2, 3])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        counted = ("malformed_frames",  # `heard` sends one
                   "stale_frames" if kind in ("Met", "Refuse") else "refused_frames")
        refusals: Callable[[], float] = lambda: sum(  # noqa: E731
            nodes.decode.metrics.read()[name] for name in counted)
        speaking.send(encode("c", 4242, 0, [Meet(Life(10**6, 4242, 0), 0, MINE)]))
        heard(nodes.decode, speaking)
        before = refusals()
        speaking.send(said(KINDS[kind], 4242 if KINDS[kind] is not None
                           else nodes.decode._core.peers["a/p0"].incarnation))
        heard(nodes.decode, speaking)
        assert refusals() - before == (2 if KINDS[kind] is not None else 1)
        sender.send([0, 1, 2])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        nodes.hand_over(6)


def member_c(opened: ExitStack, to: str, of: Keys, name: str = "c") -> zmq.Socket[bytes]:
    """A connection of member c to a node of another one."""
    context: zmq.Context[zmq.Socket[bytes]] = opened.enter_context(zmq.Context())
    speaking = opened.enter_context(context.socket(zmq.DEALER))
    speaking.setsockopt(zmq.LINGER, 0)
    speaking.setsockopt_string(zmq.IDENTITY, name)
    speaking.curve_publickey, speaking.curve_secretkey = C.curve.public, C.curve.secret
    speaking.curve_serverkey = of.curve.public
    speaking.connect(to)
    return speaking


def said(kind: type[AnyFrame] | None, incarnation: int, life: Life = LIFE) -> bytes:
    """A batch of member c with a frame of this kind, or its farewell, for another incarnation."""
    return encode("c", incarnation, 10, [] if kind is None else [frame_of(kind, life)],
                  "bye" if kind is None else None)


def test_a_member_may_speak_under_its_own_name() -> None:
    """The farewell of the test above ends a hand-over if it is of the member itself."""
    with ExitStack() as opened:
        nodes = Nodes(opened)
        say(opened, B, "b", nodes.prefill.endpoint, A.curve.public)
        until(lambda: nodes.prefill.lost_peers() == ("b",))


@pytest.mark.parametrize("name", ["b", "b/x", "", "ab", "A", "a-p0", "/a"])
def test_a_node_has_the_name_of_its_member(name: str) -> None:
    with pytest.raises((PermissionError, ValueError), match="name"):
        PrefillNode(name, SourceDataPath(name, Fabric()), link=link_of(A))
    assert A.curve.named("p0") == "a/p0"


def test_a_name_without_keys_is_called_by_nobody() -> None:
    with closing(DecodeNode("b", SinkDataPath("b", Fabric()), link=link_of(B))) as node:
        receiver = node.open(1, {"stranger": "tcp://127.0.0.1:1"}, pages=[1], slot=0)
        until(polls([receiver], KVPoll.FAILED))
        assert "no key of 'stranger' is known" in str(receiver.failure)


def test_a_member_keeps_its_keys_when_others_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "keys"
    assert main(["node", "keys", str(folder), "--member", "a"]) == 0
    before = read(str(folder / "a.keys"))
    assert main(["node", "keys", str(folder), "--member", "b", "c"]) == 0
    assert f"keep {folder}/{AUTHORITY} to yourself" in capsys.readouterr().out
    after = read(str(folder / "a.keys"))
    assert replace(after.curve, members={}) == replace(before.curve, members={})
    assert (after.certificate, after.trusted) == (before.certificate, before.trusted)
    assert after.curve.members.keys() == {"a", "b", "c"}
    secret = (folder / AUTHORITY).read_text().strip()
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.name == AUTHORITY or secret not in file.read_text()
    others = {read(str(folder / f"{name}.keys")).curve.secret for name in NAMES}
    assert len(others) == 3
    settings = load({"PDPROTO_KEYS": str(folder / "b.keys")})
    assert settings.named("decode-1") == "b/decode-1"


@pytest.mark.parametrize("name", ["", "a/b", "../a", "a b", "é", "pdproto cluster", "x" * 65])
def test_a_bad_name_of_a_member_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeysError, match="want 1 to 64 letters"):
        of_member(SECRET, name, [name])
    assert main(["node", "keys", str(tmp_path / "keys"), "--member", name]) == 2
    assert ("want 1 to 64 letters" if name else "--member: want a value") in (
        capsys.readouterr().err)


@pytest.mark.parametrize("text", ["{}", "{", '{"curve": 1}'])
def test_a_malformed_file_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.keys"
    file.write_text(text)
    with pytest.raises(KeysError, match="not as `pdproto node keys` writes it"):
        read(str(file))


ATTEMPTS: Final[dict[str, Callable[[RegistryClient], Any]]] = {
    "replace": lambda client: client.register(prefill(of=1, run=2, name="b/p0")),
    "replace in its name": lambda client: client.register(prefill(of=1, run=2, name="a/p0")),
    "drain": lambda client: client.register(prefill(of=1, name="b/p0", leaving=())),
    "drain in its name": lambda client: client.register(prefill(of=1, name="a/p0", leaving=())),
    "take a name": lambda client: client.register(group(1, name="a/p1")),
    "deregister": lambda client: client.deregister(ALONE),
    "answer for": lambda client: client.keep_alive(ALONE),
    "list a room of": lambda client: client.register_room(7, 0),
    "strike out a room of": lambda client: client.retire_room(7, 0),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_member_cannot_do_this_to_a_rank_of_another(attempt: str) -> None:
    with (RegistryServer(keys=C) as server,
          closing(RegistryClient(server.address, keys=A)) as ours,
          closing(RegistryClient(server.address, keys=B)) as theirs):
        ours.register(prefill(of=1, name="a/p0"))
        with pytest.raises(RefusedError, match=r"of the member|by the member"):
            ATTEMPTS[attempt](theirs)
        (rank,) = theirs.look_up_all().ranks
        assert (rank.address.name, rank.address.incarnation) == ("a/p0", 1)
        ours.register_room(7, 0)
        ours.keep_alive(ALONE)
        ours.deregister(ALONE)
        theirs.register(prefill(of=1, run=2, name="b/p0"))  # nobody's any more
        assert not ours.look_up_all().ranks[0].address.name.startswith("a")


@pytest.mark.parametrize("say", [
    lambda client: client.register(prefill(of=1, run=ROOM_MAX, name="b/p0")),
    lambda client: client.deregister(Run(0, 0, 0, 0, ROOM_MAX))], ids=["register", "deregister"])
def test_no_member_says_the_last_number_of_a_rank_that_nobody_has(
    say: Callable[[RegistryClient], Any]
) -> None:
    """Seen red without the check: the rank can never register, because no number exceeds it."""
    with (RegistryServer(keys=C) as server,
          closing(RegistryClient(server.address, keys=A)) as ours,
          closing(RegistryClient(server.address, keys=B)) as theirs):
        with pytest.raises(RefusedError, match="more than a year ahead of the registry's clock"):
            say(theirs)
        ours.register(prefill(of=1, run=new_incarnation(), name="a/p0"))
        assert ours.look_up_all().ranks[0].address.name == "a/p0"
