"""Any bytes are a batch or a RemoteProtocolError, and every message of the tables has one frame."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pdproto.runtime import batches, limits, wire
from pdproto.runtime.batches import decode, encode
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import VERSION, fingerprint
from pdproto.runtime.wire import (
    Abort,
    AbortAck,
    AnyFrame,
    Done,
    Drained,
    Expecting,
    Failed,
    Introduce,
    Life,
    Publish,
)
from pdproto.spec.handoff import ends
from pdproto.spec.language.symbols import Message
from tests.tiers import examples

U63_MAX = (1 << 63) - 1

numbers = st.integers(0, U63_MAX)
names = st.text(min_size=1, max_size=limits.NAME_MAX)
reasons = st.text(max_size=64)
lives = st.builds(Life, numbers, numbers, numbers)
sinks = st.lists(names, min_size=1, max_size=4).map(tuple)
layouts = st.none() | st.builds(wire.PageLayout, st.binary(max_size=wire.DIGEST_BYTES),
                                st.text(max_size=64))
frames: st.SearchStrategy[AnyFrame] = st.one_of(
    st.builds(Introduce, lives, sinks, names, layouts),
    st.builds(Publish, lives, st.binary(max_size=64), st.integers(0, limits.PAGES_MAX), sinks,
              names, layouts),
    st.builds(Abort, lives, reasons, names),
    st.builds(Done, lives, st.lists(st.integers(0, limits.PAGES_MAX), max_size=4).map(tuple),
              st.binary(max_size=64), st.binary(max_size=wire.DIGEST_BYTES)),
    st.builds(Failed, lives, reasons),
    st.builds(AbortAck, lives),
    st.builds(Drained, lives),
    st.builds(Expecting, lives),
)
any_batch = st.tuples(names, numbers, numbers, st.lists(frames, max_size=5), st.none() | reasons)

AnyBatch = tuple[str, int, int, list[AnyFrame], str | None]

LIFE = Life(7, 8, 9)
FORMAT = fingerprint(batches.Batch, VERSION)
PLAIN = encode("d0", 8, 0, [Introduce(LIFE, ("d0",), "tcp://127.0.0.1:1")])


def outcome(data: bytes) -> batches.Batch | None:
    """The batch, or None for a RemoteProtocolError; anything else fails the test."""
    try:
        return decode(data)
    except RemoteProtocolError:
        return None


@given(any_batch)
def test_there_and_back(batch: AnyBatch) -> None:
    name, incarnation, floor, said, gone = batch
    heard = decode(encode(*batch))
    assert (heard.version, heard.node, heard.incarnation, heard.floor) == (
        VERSION, name, incarnation, floor)
    assert heard.frames == tuple(said)
    assert heard.gone == gone
    assert decode(memoryview(encode(*batch))) == heard


@given(st.binary(max_size=256))
def test_any_bytes(data: bytes) -> None:
    outcome(data)


@given(any_batch, st.data())
def test_a_truncated_batch_is_refused(batch: AnyBatch, data: st.DataObject) -> None:
    whole = encode(*batch)
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(whole[:data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(whole + data.draw(st.binary(min_size=1, max_size=8)))


@given(any_batch, st.data())
def test_flipped_bits(batch: AnyBatch, data: st.DataObject) -> None:
    spoilt = bytearray(encode(*batch))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(spoilt) - 1))
        spoilt[bit // 8] ^= 1 << bit % 8
    heard = outcome(bytes(spoilt))
    if heard is not None:  # then it is a message like any other, within all limits
        again = encode(heard.node, heard.incarnation, heard.floor, heard.frames, heard.gone,
                       unheard_ms=heard.unheard_ms)
        assert replace(decode(again), newest=heard.newest) == heard


def anything(depth: int = 3) -> st.SearchStrategy[Any]:
    """What msgpack can say."""
    simple = (st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats()
              | st.text(max_size=8) | st.binary(max_size=8))
    return st.recursive(
        simple, lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=8 * depth)


@given(anything(), st.lists(anything(), max_size=6))
def test_other_msgpack(value: Any, places: list[Any]) -> None:
    """Well-formed msgpack of another shape, and of almost our shape."""
    outcome(msgspec.msgpack.encode(value))
    fields = msgspec.msgpack.decode(PLAIN)
    for place, wrong in enumerate(places):
        fields[place % len(fields)] = wrong
    outcome(msgspec.msgpack.encode(fields))
    frame = msgspec.msgpack.decode(PLAIN)
    for place, wrong in enumerate(places):
        frame[6][0][place % len(frame[6][0])] = wrong
    outcome(msgspec.msgpack.encode(frame))


def changed(path: tuple[int, ...], value: object) -> bytes:
    """The plain batch with something else in one place."""
    fields = msgspec.msgpack.decode(PLAIN)
    inner = fields
    for place in path[:-1]:
        inner = inner[place]
    inner[path[-1]] = value
    return msgspec.msgpack.encode(fields)


def test_the_plain_batch_is_one() -> None:
    """What the cases below are changed from, field by field."""
    assert msgspec.msgpack.decode(PLAIN) == [
        VERSION, FORMAT, "d0", None, 8, 0,
        [["introduce", [7, 8, 9, None, None, None], ["d0"], "tcp://127.0.0.1:1", None, [], False]],
        None, 0, VERSION]
    assert decode(changed((2,), "d1")).node == "d1"


@pytest.mark.parametrize(("path", "value", "complaint"), [
    ((2,), "", r"length >= 1.*\[2\]"),
    ((2,), "n" * (limits.NAME_MAX + 1), rf"length <= {limits.NAME_MAX}.*\[2\]"),
    ((4,), -1, r">= 0.*\[4\]"),
    ((4,), U63_MAX + 1, r"<= 9223372036854775807|out of range.*"),
    ((5,), 1.5, r"Expected `int`, got `float`.*\[5\]"),
    ((6,), {}, r"Expected `array`, got `object`.*\[6\]"),
    ((6, 0, 0), "sing", r"Invalid value 'sing'.*\[6\]"),
    ((6, 0, 1), [1, 2], r"length (>= )?3.*\[6\]"),
    ((6, 0, 1), [1, 2, 3, 4, b"x", "d", 7], r"at most length 6|length 3 to 6"),
    ((6, 0, 1), [1, 2, 3, 4, b""], r"length >= 1"),
    ((6, 0, 1), [1, 2, 3, 4, b"x" * (limits.PROMPT_BYTES_MAX + 1)],
     rf"length <= {limits.PROMPT_BYTES_MAX}"),
    ((6, 0, 1, 0), "7", r"Expected `int`, got `str`.*\[6\]"),
    ((6, 0, 2), [], r"length >= 1.*\[6\]"),
    ((6, 0, 2), ["d"] * (limits.SINKS_MAX + 1), rf"length <= {limits.SINKS_MAX}.*\[6\]"),
    ((6, 0, 3), None, r"Expected `str`, got `None`.*\[6\]"),
    ((7,), False, r"Expected `str \| null`, got `bool`.*\[7\]"),
    ((7,), "r" * (limits.REASON_MAX + 1), rf"length <= {limits.REASON_MAX}.*\[7\]"),
])
def test_a_wrong_field_is_named(path: tuple[int, ...], value: object, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"not a batch: .*({complaint})"):
        decode(changed(path, value))


@pytest.mark.parametrize("frame", [
    ["publish", [1, 2, 3], b"a" * (limits.LEASE_ADDRESS_MAX + 1), 1, ["d"], "e"],
    ["publish", [1, 2, 3], b"a", limits.PAGES_MAX + 1, ["d"], "e"],
    ["abort", [1, 2, 3], "r" * (limits.REASON_MAX + 1), "e"],
    ["failed", [1, 2, 3], "r" * (limits.REASON_MAX + 1)],
    ["done", [1, 2, 3], [1] * (limits.CHUNKS_MAX + 1), b""],
    ["done", [1, 2, 3], [1], b"m" * (limits.METADATA_MAX + 1)],
    ["drained", [1, 2, 3], "and more"],
], ids=lambda frame: f"{frame[0]}-{len(frame)}")
def test_every_size_has_a_limit(frame: list[object]) -> None:
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(msgspec.msgpack.encode([VERSION, FORMAT, "d0", None, 8, 0, [frame]]))


def test_too_many_frames() -> None:
    bare = msgspec.msgpack.encode(["drained", [1, 2, 3]])
    head = msgspec.msgpack.encode([VERSION, FORMAT, "d0", None, 8, 0, []])[:-1]
    count = limits.FRAMES_MAX + 1
    many = head + b"\xdd" + count.to_bytes(4, "big") + bare * count
    with pytest.raises(RemoteProtocolError, match=f"length <= {limits.FRAMES_MAX}"):
        decode(many)
    claimed = head + b"\xdd\xff\xff\xff\xff" + bare  # four thousand million, it says
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(claimed)


@given(st.integers(1, 40), st.integers(0, limits.LEASE_ADDRESS_MAX))
@settings(max_examples=examples(12, 30), deadline=None)
def test_frames_that_do_not_fit_into_one_batch_go_into_the_next(count: int, size: int) -> None:
    """In their order, each once, and no batch is longer than a peer reads."""
    frames = [Publish(Life(1, 2, n), b"x" * size, 1, ("d0",), "tcp://d0:1") for n in range(count)]
    left: Sequence[AnyFrame] = frames
    heard: list[AnyFrame] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "FRAMES_SENT", 16)
        patch.setattr(batches, "BATCH_BYTES_MAX", 1 << 12)
        while left:
            data, sent = batches.encode_some("d0", 1, 0, left)
            left = left[sent:]
            assert len(data) <= 1 << 12
            heard += decode(data).frames
    assert heard == frames


def test_a_batch_is_no_long_step_of_the_loop_that_reads_it() -> None:
    data, sent = batches.encode_some("d0", 1, 0, [Drained(Life(1, 2, n)) for n in range(300)])
    assert (len(decode(data).frames), sent) == (64, 64)


def test_an_oversized_batch_is_not_even_read() -> None:
    with pytest.raises(RemoteProtocolError, match="4,194,305 bytes; 4,194,304 is the limit"):
        decode(b"\x00" * (limits.BATCH_BYTES_MAX + 1))


@pytest.mark.parametrize("data", [
    b"", b"\xc1", b"\x91" * 100_000, b"\x81\xa1a" * 50_000, b"\xdf\xff\xff\xff\xff",
    msgspec.msgpack.encode([VERSION, FORMAT, "d0", None, 8, 0, [["done", [1, 2, 3]] + [[]] * 40]]),
    bytes((0x95, VERSION)) + bytes.fromhex("a1ff000090"),  # a name that is no UTF-8
    bytes.fromhex("82a176 01 a176 02".replace(" ", "")),  # one key twice
])
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(data)


@pytest.mark.parametrize("theirs", [0, 3, 77])
@pytest.mark.parametrize("rest", [[], ["d0", 8, 0, []], ["d0", 8, 0, [["sing", 1]], None, "more"]])
def test_another_version_is_told_so(theirs: int, rest: list[object]) -> None:
    """Both versions are named, whatever else a batch of that version says."""
    with pytest.raises(RemoteProtocolError, match=f"version: .* speaks {theirs}, .* {VERSION}$"):
        decode(msgspec.msgpack.encode([theirs, *rest]))


def spoken() -> Iterator[Message[*tuple[Any, ...]]]:
    """What source and sink say to each other."""
    for symbol in vars(ends).values():
        if isinstance(symbol, Message):
            named = {symbol.sender.instance.machine.name, symbol.receiver.instance.machine.name}
            assert named == {"source", "sink"}
            yield symbol


def test_every_message_has_one_frame() -> None:
    """But for the two that a process says of many lives at once: they are words of the batch."""
    messages = {message.name: message for message in spoken()}
    said = {name for name, message in messages.items() if not message.reliable}
    assert said == wire.FRAMES.keys()
    assert messages.keys() - said == {ends.gone.name, ends.sink_over.name}
    assert {"gone", "floor"} < set(batches.Batch.__struct_fields__)
    assert all(messages[name] is kind.message for name, kind in wire.FRAMES.items())
    tags = [kind.__struct_config__.tag for kind in wire.FRAMES.values()]
    assert tags == list(wire.FRAMES)


@given(frames)
def test_a_frame_says_its_message(frame: AnyFrame) -> None:
    (heard,) = decode(encode("n", 1, 0, [frame])).frames
    assert type(heard) is wire.FRAMES[frame.message.name]
    assert heard.life == frame.life


def test_a_life_reads_as_a_room_and_its_incarnation() -> None:
    assert str(Life(7, 255, 3)) == "room 7 (ff.3)"
