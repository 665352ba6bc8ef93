"""The versions of the wire format that this release reads and writes.

A batch says the version that it is written in, and the newest version that its sender reads. It
also has the fingerprint of the format of its version, so that two builds which call different
formats by one number do not misread each other.

Rule 1: a node writes the newest version that both ends read; the oldest it has, until the peer's
        first batch has come.
Rule 2: a release reads and writes the version of the release before it. So servers are upgraded one
        after the other.
Rule 3: an addition of a later version is marked. A field is the last of its struct, has a default,
        and has `since` in its type. A kind of frame has that version as `first`, and is not sent to
        an older peer. For the tables such a frame is lost, as every frame may be.
"""

from enum import Enum
from functools import cache
from hashlib import blake2b
from types import UnionType
from typing import Any, ClassVar, Final, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

VERSION: Final = 1
OLDEST: Final = 1
LIMITS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length",
                 "tz")


class Versioned(Struct, frozen=True):
    """A kind of frame. first: the version that has added it."""

    first: ClassVar[int] = OLDEST


def since(version: int) -> Meta:
    """Mark the type of a field that this version has added."""
    return Meta(extra={"since": version})


def in_version(value: Any, version: int) -> Any:
    """The plain form of a struct as this version has it: lists, without later fields and frames."""
    if isinstance(value, Struct):
        names = value.__struct_fields__[:_width(type(value), version)]
        told = [in_version(getattr(value, name), version) for name in names]
        tag = value.__struct_config__.tag
        return told if tag is None else [tag, *told]
    if isinstance(value, tuple):
        known = (each for each in value
                 if not isinstance(each, Versioned) or each.first <= version)
        return [in_version(each, version) for each in known]
    return value


@cache
def fingerprint(kind: Any, version: int) -> int:
    """A number of 32 bits for the form of this type in this version: it changes with each field,
    default, kind of frame, type, limit and way to write a struct.
    """
    told = repr(_form(kind, version)).encode()
    return int.from_bytes(blake2b(told, digest_size=4).digest())


def _form(annotation: Any, version: int) -> Any:
    """What two ends must have in common to read a value of this type, as nested lists."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        how = annotation.__struct_config__
        inside = [(field.encode_name, _form(field.type, version), _default(field))
                  for field in fields(annotation) if _first(field.type) <= version]
        return [how.tag, how.tag_field, how.array_like, how.forbid_unknown_fields,
                how.omit_defaults, inside]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [member.value for member in annotation]
    if marks := getattr(annotation, "__metadata__", ()):
        bounds = [(name, getattr(mark, name)) for mark in marks if isinstance(mark, Meta)
                  for name in LIMITS if getattr(mark, name) is not None]
        inner = _form(annotation.__origin__, version)
        return [inner, bounds] if bounds else inner
    parts = [part for part in get_args(annotation)
             if not (isinstance(part, type) and issubclass(part, Versioned)
                     and part.first > version)]
    if not parts:
        return getattr(annotation, "__name__", repr(annotation))
    forms, origin = [_form(part, version) for part in parts], get_origin(annotation)
    if origin in (Union, UnionType):
        return sorted(forms, key=repr)
    return [_form(origin, version), *forms]


def _default(field: FieldInfo) -> str:
    """What a missing field stands for; "" if it may not be missing."""
    if field.default_factory is not NODEFAULT:
        return repr(field.default_factory())
    return "" if field.required else repr(field.default)


def refusal(
    them: object, newest: int, oldest: int | None, us: str, ours: tuple[int, int] | None = None
) -> str | None:
    """The error of two ends that have no version in common; None if they have one.

    oldest: None if the other end speaks one version only. us: this end, for people. ours: the
    newest and the oldest version that this end reads, if not those of the wire format.
    """
    our_newest, our_oldest = ours or (VERSION, OLDEST)
    if newest >= our_oldest and (newest if oldest is None else oldest) <= our_newest:
        return None
    return (f"version: {them} speaks {_spoken(newest, oldest)}, and {us} "
            f"{_spoken(our_newest, our_oldest)}")


def _spoken(newest: int, oldest: int | None) -> str:
    return str(newest) if oldest in (None, newest) else f"{oldest} to {newest}"


@cache
def _width(kind: type[Struct], version: int) -> int:
    """The number of fields that a struct has in this version."""
    return sum(_first(field.type) <= version for field in fields(kind))


def _first(annotation: Any) -> int:
    """The version that has added a field of this type."""
    marks = (mark.extra or {} for mark in getattr(annotation, "__metadata__", ())
             if isinstance(mark, Meta))
    return max((mark.get("since", OLDEST) for mark in marks), default=OLDEST)
