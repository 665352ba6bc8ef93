"""Frames for the fuzzers: random, mutated and made by the grammar, each from a number.

The frame of a number is always the same, so a failure names all that it takes to see it again.
"""

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, get_args

import msgspec
from msgspec import inspect

from pdproto.runtime import batches, limits
from pdproto.runtime.wire import AnyFrame, Life

STRANGER: Final = "stranger"
HERE: Final = "tcp://127.0.0.1:1"  # where nobody listens
ROOMS: Final = 4  # different ones, in lives
GENERATIONS: Final = 4
USES: Final = (None, 0, 1)
PROMPTS: Final = (None, b"a" * 16, b"b" * 16)
U63_MAX: Final = (1 << 63) - 1
EDGES: Final[Sequence[Any]] = (
    0, 1, -1, U63_MAX, U63_MAX + 1, 1 << 64, 0.5, float("inf"), None, True, "", "\0", "d0",
    STRANGER, "x" * limits.NAME_MAX, "x" * (limits.NAME_MAX + 1), b"", b"\xff" * 32, [], [[]], {},
    {"a": 1}, [0] * 17, msgspec.msgpack.Ext(5, b"ext"),
)  # fmt: skip


def chance(number: int) -> random.Random:
    """The same chances for the same number."""
    return random.Random(number)  # noqa: S311 - nothing secret


def frame_of(some: random.Random, incarnation: int = 99) -> AnyFrame:
    """A frame that is well-formed, of any kind."""
    kind = inspect.type_info(some.choice(get_args(AnyFrame)))
    assert isinstance(kind, inspect.StructType)
    made: AnyFrame = _struct(some, kind, incarnation)
    return made


def life_of(some: random.Random, incarnation: int) -> Life:
    """One of few, so that many frames are about one."""
    return Life(some.randrange(ROOMS), some.choice((incarnation, incarnation, 1)),
                some.randrange(GENERATIONS), some.choice(USES), some.choice(PROMPTS),
                some.choice((None, None, None, STRANGER)))


def _struct(some: random.Random, kind: inspect.StructType, incarnation: int) -> Any:
    if kind.cls is Life:
        return life_of(some, incarnation)
    return kind.cls(*(HERE if field.name == "endpoint" else _value(some, field.type, incarnation)
                      for field in kind.fields))


def _value(some: random.Random, kind: inspect.Type, incarnation: int) -> Any:
    """A value of the field's type."""
    match kind:
        case inspect.StructType():
            return _struct(some, kind, incarnation)
        case inspect.UnionType(types=types):
            return _value(some, some.choice(types), incarnation)
        case inspect.VarTupleType(item_type=of, min_length=least):
            return tuple(_value(some, of, incarnation)
                         for _ in range(some.randint(least or 0, 2 + (least or 0))))
        case inspect.LiteralType(values=values):
            return some.choice(values)
        case inspect.StrType():
            return some.choice((STRANGER, STRANGER, "d1", "why not"))
        case inspect.BytesType():
            return some.randbytes(some.choice((1, 8)))
        case inspect.BoolType():
            return some.random() < 0.5
        case inspect.IntType():
            return some.randrange(4)
        case inspect.NoneType():
            return None
    raise TypeError(f"no value of {kind}: tell `_value` how one is made")


def batch_of(some: random.Random) -> bytes:
    frames = [frame_of(some) for _ in range(some.randrange(4))]
    return batches.encode(some.choice((STRANGER, "p0", "d0")), 99, some.randrange(3), frames)


def _random(some: random.Random) -> bytes:
    return some.randbytes(some.choice((0, 1, 2, 8, 64, 4_096)))


def _mutated(some: random.Random) -> bytes:
    """A batch with a few bytes changed, left out, put in, or said twice."""
    data = bytearray(batch_of(some))
    for _ in range(some.randint(1, 4)):
        at = some.randrange(len(data) + 1)
        match some.randrange(5):
            case 0 if data:
                data[at % len(data)] = some.randrange(256)
            case 1:
                del data[at:at + some.randint(1, 4)]
            case 2:
                data[at:at] = some.randbytes(some.randint(1, 4))
            case 3:
                data[at:at] = data[at:at + 16]
            case _:
                del data[at:]
    return bytes(data)


def _grammatical(some: random.Random) -> bytes:
    """A batch in its outline, in which some parts are what they should not be."""
    tree = msgspec.msgpack.decode(batch_of(some))
    for _ in range(some.randint(1, 3)):
        parent = tree
        while True:
            at = some.randrange(len(parent)) if parent else 0
            inner = parent[at] if parent else None
            if not isinstance(inner, list) or not inner or some.random() < 0.3:
                break
            parent = inner
        match some.randrange(4):
            case 0 if parent:
                parent[at] = deepcopy(some.choice(EDGES))
            case 1 if parent:
                del parent[at]
            case 2:
                parent.insert(at, deepcopy(some.choice(EDGES)))
            case _:
                parent.append(deepcopy(some.choice(EDGES)))
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, TypeError):  # what no msgpack can hold
        return b"\xc1"


def frame(number: int) -> bytes:
    """The frame of a number."""
    some = chance(number)
    return some.choice((_random, _mutated, _grammatical))(some)
