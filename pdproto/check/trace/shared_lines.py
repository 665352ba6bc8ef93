"""The lines of machines that many hand-overs share: runtime/trace_shared.py writes them."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from pdproto.check.trace.lines import Found, found


class SharedLine(msgspec.Struct, forbid_unknown_fields=True):
    """One line. Exactly one of begins, row, device and heard is given: its kind."""

    n: int
    node: str
    machine: str
    end: int
    begins: dict[str, list[Any]] | None = None
    tables: str | None = None
    own: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    row: str | None = None
    on: str | None = None
    given: dict[str, Any] = msgspec.field(name="with", default_factory=dict)
    device: list[tuple[str, list[Any], str]] | None = None
    heard: str | None = None
    of: list[Any] = msgspec.field(default_factory=list)


Read: TypeAlias = Found[SharedLine]
_decoder: Final = msgspec.json.Decoder(SharedLine)


def shared_lines(path: Path) -> Iterator[Read]:
    """The lines of such a trace."""
    return found(path, _decoder)


def frozen(element: Any) -> Hashable:
    """An element of a line as a hashable value: a list becomes a tuple."""
    return tuple(map(frozen, element)) if isinstance(element, list) else element
