"""Two releases that follow each other understand each other's batches."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from pdproto.runtime import batches, versions
from pdproto.runtime.batches import Batch, VersionError, decode, encode
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import (
    OLDEST,
    VERSION,
    Versioned,
    fingerprint,
    in_version,
    refusal,
    since,
)
from pdproto.runtime.wire import Expecting, Life

NEXT = VERSION + 1
FORMAT = fingerprint(Batch, VERSION)


class Told(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A struct inside a frame, as the next release has it."""

    number: int
    unit: Annotated[str, since(NEXT)] = "s"


class LaterFields(Versioned, frozen=True, array_like=True, forbid_unknown_fields=True, tag="old"):
    """A frame of this release, to which the next one adds a field."""

    told: tuple[Told, ...]
    why: Annotated[str, since(NEXT)] = ""


class Later(Expecting, frozen=True, array_like=True, forbid_unknown_fields=True, tag="later"):
    """A kind of frame that the next release adds."""

    first: ClassVar[int] = NEXT


# The format of each version, once for all. If this fails, this build cannot read a batch of an
# earlier one: raise VERSION and mark the addition; before 0.1.0 is tagged, write the number here.
FORMATS = {1: 0x1923F061}


def test_the_format_of_a_version_does_not_change() -> None:
    formats = {version: fingerprint(Batch, version) for version in FORMATS}
    told = ", ".join(f"{version}: 0x{number:08X}" for version, number in formats.items())
    assert formats == FORMATS, f"see the comment at FORMATS; today's are {{{told}}}"
    assert VERSION in FORMATS


class Wider(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`Told`, which another build calls the same version."""

    number: int
    unit: str = "s"


class Longer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Of this version, with a larger limit."""

    number: Annotated[int, msgspec.Meta(le=9)]


class Shorter(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The same with a smaller one."""

    number: Annotated[int, msgspec.Meta(le=8)]


def test_a_fingerprint_is_of_one_format() -> None:
    """An addition that is marked changes only later versions; everything else changes this one."""
    assert fingerprint(Wider, VERSION) != fingerprint(Told, VERSION)
    assert fingerprint(Told, VERSION) != fingerprint(Told, NEXT)
    assert fingerprint(Wider, VERSION) == fingerprint(Told, NEXT)
    assert fingerprint(Longer, VERSION) != fingerprint(Shorter, VERSION)
    assert fingerprint(Expecting | Later, VERSION) != fingerprint(Expecting | Later, NEXT)


def _told(**how: Any) -> type[Struct]:
    fields = how.pop("fields", [("number", int, 0), ("unit", str, "s")])
    return msgspec.defstruct("Told", fields, frozen=True, **{
        "array_like": True, "forbid_unknown_fields": True, "tag": "told", **how})


@pytest.mark.parametrize(("one", "other"), [
    (_told(), _told(array_like=False)),
    (_told(), _told(forbid_unknown_fields=False)),
    (_told(), _told(omit_defaults=True)),
    (_told(), _told(tag="said")),
    (_told(array_like=False), _told(array_like=False, tag_field="kind")),
    (_told(array_like=False), _told(array_like=False, rename="upper")),
    (_told(), _told(fields=[("number", int, 1), ("unit", str, "s")])),
    (_told(), _told(fields=[("number", int), ("unit", str, "s")])),
    (_told(), _told(fields=[("unit", str, "s"), ("number", int, 0)])),
    (_told(fields=[("number", list[int], [])]), _told(fields=[("number", list[int])])),
    (Annotated[str, msgspec.Meta(pattern="a")], Annotated[str, msgspec.Meta(pattern="b")]),
    (Annotated[int, msgspec.Meta(multiple_of=2)], int),
    (dict[str, int], tuple[str, int]),
    (frozenset[int], list[int]),
    (Literal["a", "b"], Literal["a", "c"]),
    (Enum("Kind", ["a", "b"]), Enum("Kind", ["a", "c", "b"])),
    (int | None, int),
])
def test_what_is_read_otherwise_has_another_fingerprint(one: Any, other: Any) -> None:
    assert fingerprint(one, VERSION) != fingerprint(other, VERSION)


def of_another_build(data: bytes, **changes: Any) -> bytes:
    """These bytes as a build of another version, or with another format, would write them."""
    fields_of = msgspec.msgpack.decode(data)
    for place, name in enumerate(("version", "format")):
        fields_of[place] = changes.get(name, fields_of[place])
    return msgspec.msgpack.encode([*fields_of[:4], "and", ["more"]])


@pytest.mark.parametrize(("changes", "told"), [
    ({"version": NEXT}, f"version: the peer speaks {NEXT}, and this node {VERSION}"),
    ({"format": 0xabc}, f"version: the peer writes version {VERSION} in the format 00000abc, and "
                        f"this node in the format {FORMAT:08x}"),
])
def test_a_batch_of_another_build_names_both_and_the_place_to_answer(
    changes: dict[str, int], told: str
) -> None:
    data = of_another_build(encode("d", 1, 0, (), call="tcp://127.0.0.1:1"), **changes)
    with pytest.raises(VersionError, match=re.escape(told)) as raised:
        decode(data)
    assert raised.value.call == "tcp://127.0.0.1:1"


def test_a_batch_from_before_the_first_release_names_its_version() -> None:
    with pytest.raises(VersionError, match="the peer speaks 3, and this node 1"):
        decode(msgspec.msgpack.encode([3, "d", 1, 0, []]))


def test_later_fields_are_missing_from_an_older_batch() -> None:
    frame = LaterFields((Told(1, "ms"), Told(2)), "it is late")
    assert in_version(frame, VERSION) == ["old", [[1], [2]]]
    assert in_version(frame, NEXT) == ["old", [[1, "ms"], [2, "s"]], "it is late"]
    older = msgspec.msgpack.encode(in_version(frame, VERSION))
    assert msgspec.msgpack.decode(older, type=LaterFields) == LaterFields((Told(1), Told(2)))


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of the next release, and the batches of this one are still read."""
    for module in (versions, batches):
        monkeypatch.setattr(module, "VERSION", NEXT)


@pytest.mark.usefixtures("next_release")
def test_a_later_kind_of_frame_is_not_sent_to_an_older_peer() -> None:
    life = Life(1, 2, 3)
    told = encode("d", 1, 0, (Later(life), Expecting(life)), version=VERSION)
    assert decode(told).frames == (Expecting(life),)


@pytest.mark.usefixtures("next_release")
def test_the_next_release_reads_a_batch_of_this_one() -> None:
    heard = decode(msgspec.msgpack.encode([VERSION, FORMAT, "d", None, 1, 0, []]))
    assert (heard.version, heard.newest) == (VERSION, OLDEST)


@pytest.mark.usefixtures("next_release")
def test_the_next_release_says_in_an_older_batch_what_it_reads() -> None:
    heard = decode(encode("d", 1, 0, (), version=VERSION))
    assert (heard.version, heard.newest) == (VERSION, NEXT)


@given(st.integers(0, 9), st.integers(0, 9))
def test_releases_without_a_common_version_are_refused(newest: int, width: int) -> None:
    oldest = max(newest - width, 0)
    apart = not set(range(oldest, newest + 1)) & set(range(OLDEST, VERSION + 1))
    assert (refusal("it", newest, oldest, "we") is not None) == apart
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        decode(msgspec.msgpack.encode([VERSION, FORMAT, "d", None, 1, 0, [], None, 0, OLDEST - 1]))


def structs(annotation: Any = Batch) -> Iterator[type[Struct]]:
    """Every struct in a batch."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
        for field in fields(annotation):
            yield from structs(field.type)
    else:
        for part in get_args(annotation):
            yield from structs(part)


def test_fields_of_later_versions_are_last_and_have_defaults() -> None:
    """Otherwise an older batch could not be written, or not be read."""
    found: set[type[Struct]] = {*structs(), LaterFields, Told}
    assert {Batch, Life, Expecting} <= found
    for kind in found:
        first = [versions._first(field.type) for field in fields(kind)]
        assert first == sorted(first), f"{kind.__name__}: later fields come last"
        for version, field in zip(first, fields(kind), strict=True):
            has_default = field.default is not NODEFAULT
            assert version == OLDEST or has_default, f"{kind.__name__}.{field.name}: no default"
