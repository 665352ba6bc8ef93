"""Two releases that follow each other understand each other's batches."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from pdproto.runtime import versions, wire
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import OLDEST, VERSION, Versioned, in_version, refusal, since
from pdproto.runtime.wire import Batch, Expecting, Life, decode, encode

NEXT = VERSION + 1


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


def test_later_fields_are_missing_from_an_older_batch() -> None:
    frame = LaterFields((Told(1, "ms"), Told(2)), "it is late")
    assert in_version(frame, VERSION) == ["old", [[1], [2]]]
    assert in_version(frame, NEXT) == ["old", [[1, "ms"], [2, "s"]], "it is late"]
    older = msgspec.msgpack.encode(in_version(frame, VERSION))
    assert msgspec.msgpack.decode(older, type=LaterFields) == LaterFields((Told(1), Told(2)))


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of the next release, and the batches of this one are still read."""
    for module in (versions, wire):
        monkeypatch.setattr(module, "VERSION", NEXT)


@pytest.mark.usefixtures("next_release")
def test_a_later_kind_of_frame_is_not_sent_to_an_older_peer() -> None:
    life = Life(1, 2, 3)
    told = encode("d", 1, 0, (Later(life), Expecting(life)), version=VERSION)
    assert decode(told).frames == (Expecting(life),)


@pytest.mark.usefixtures("next_release")
def test_the_next_release_reads_a_batch_of_this_one() -> None:
    heard = decode(msgspec.msgpack.encode([VERSION, "d", 1, 0, []]))
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
        decode(msgspec.msgpack.encode([VERSION, "d", 1, 0, [], None, 0, OLDEST - 1]))


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
