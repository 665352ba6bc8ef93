"""The changes of a registry, as data: a log of them makes every registry that applies it alike.

Rule 1: a change says everything that its effect depends on. No clock is read to apply it; `now` is
        kept only to notice silence and age, and what is noticed is a change again.
Rule 2: a change that is refused is refused by every registry, with the same reason.
"""

from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from pdproto.registry.registry import Registry
from pdproto.registry.rooms import Begun
from pdproto.registry.wire import Registration, Room, Rooms, Run, Silent


class Register(Struct, frozen=True, tag="register"):
    """A rank registers."""

    registration: Registration


class KeepAlive(Struct, frozen=True, tag="keep_alive"):
    """A sign of life."""

    run: Run


class Deregister(Struct, frozen=True, tag="deregister"):
    """A run says goodbye."""

    run: Run


class StrikeOut(Struct, frozen=True, tag="strike_out"):
    """A registry has noticed that a run is silent."""

    silent: Silent


class Publish(Struct, frozen=True, tag="publish"):
    """A rank publishes a room."""

    room: Room


class Retire(Struct, frozen=True, tag="retire"):
    """A rank is done with a room."""

    room: Room


class Query(Struct, frozen=True, tag="query"):
    """Decode asks for the ranks of rooms."""

    rooms: Rooms


class Withdraw(Struct, frozen=True, tag="withdraw"):
    """Decode waits for these rooms no longer."""

    rooms: Rooms


class EndLives(Struct, frozen=True, tag="end_lives"):
    """A registry has noticed that these lives of rooms are old."""

    lives: tuple[Begun, ...]


class CatchUp(Struct, frozen=True, tag="catch_up"):
    """No change: a registry waits until it has applied all that was ordered before this."""


Change: TypeAlias = (
    CatchUp | Register | KeepAlive | Deregister | StrikeOut | Publish | Retire | Query | Withdraw
    | EndLives)
_CHANGES: Final = msgspec.json.Decoder(tuple[Change, ...])


class Orderer(Protocol):
    """The port by which a registry is changed."""

    async def order(self, change: Change) -> Any:
        """Apply a change after all that were ordered before it, and return the answer.

        Raises RefusedError: with the registry's reason, or 504 if the change was not ordered in
        time. Then it may still be ordered later, and the client repeats it.
        """

    async def catch_up(self) -> None:
        """Apply all that was ordered before this call. Raises RefusedError (504)."""

    def require_current(self) -> None:
        """Raise RefusedError (504) if the registry may not know of what has ended."""

    def tick(self) -> None:
        """Notice silence and age. Called about once a second."""


def decoded(body: bytes) -> tuple[Change, ...]:
    """The changes of an entry, a list of JSON. Raises msgspec.MsgspecError."""
    return _CHANGES.decode(body)


def due(registry: Registry, now: float) -> list[Change]:
    """The changes that the time asks for."""
    lives = registry.old_lives(now)
    return [*(StrikeOut(silent) for silent in registry.silent(now)),
            *([EndLives(tuple(lives))] if lives else [])]


def apply(registry: Registry, change: Change, now: float) -> Any:
    """Apply a change; returns the answer. Raises RefusedError."""
    registry.changes += 1
    match change:
        case Register(registration):
            registry.register(registration, now)
        case KeepAlive(run):
            registry.keep_alive(run, now)
        case Deregister(run):
            registry.deregister(run)
        case StrikeOut(silent):
            registry.strike_out(silent)
        case Publish(room):
            registry.rooms.publish(room, now)
        case Retire(room):
            registry.rooms.retire(room, now)
        case Query(rooms):
            return registry.rooms.query(rooms, now)
        case Withdraw(rooms):
            registry.rooms.withdraw(rooms)
        case EndLives(lives):
            registry.end_lives(lives)
    return None
