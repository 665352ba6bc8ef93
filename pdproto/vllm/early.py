"""A hand-over that a proxy begins: it asks prefill and decode at once, with one transfer id.

A proxy that asks one after the other passes prefill's answer on to decode (offer.py). In it are the
room, and where prefill's ranks listen. A proxy that asks both at once draws an id, which names the
room. It has the other part from an earlier answer of the same prefill server: the *introduction*.

    prefill   {"do_remote_decode": true, "transfer_id": ID}
    decode    {"do_remote_prefill": true, "transfer_id": ID, "pdproto_server": INTRODUCTION}

Prefill answers each request that has a `transfer_id` or `pdproto_server` with its introduction, as
`pdproto_server`. Introductions are sealed as offers are (seals.py), so decode calls no address that
comes from elsewhere.

Rule 1: an id names one request. A second request at prefill with the same id is not handed over.
Rule 2: who knows a room can have its KV cache, if he also knows the prompt. So an id is long, and
        drawn by chance.
"""

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from pdproto.runtime import checked
from pdproto.runtime.limits import ROOM_MAX, USED_ROOMS_MAX
from pdproto.vllm.offer import (
    FOR_DECODE,
    GROUPS_MAX,
    RANKS_MAX,
    SEAL_MAX,
    Count,
    RankAt,
    Told,
    message_in,
)

TRANSFER_ID: Final = "transfer_id"
SERVER: Final = "pdproto_server"
ID_MIN: Final = 16  # characters of an id
ID_MAX: Final = 256
DRAWN_BY_PROXY: Final = (ROOM_MAX + 1) >> 1  # the bit of such rooms; those of rooms.py lack it
TWICE: Final = ("the proxy has given this transfer_id to two requests: want another id for each "
                "request, drawn by chance")


class Introduction(Struct, frozen=True, forbid_unknown_fields=True):
    """A prefill server. ranks, layout, loopback, seal: see Offer. parts: of one of vLLM's blocks,
    for each group.
    """

    version: int
    ranks: Annotated[list[RankAt], Meta(min_length=1, max_length=RANKS_MAX)]
    layout: dict[str, str]
    parts: Annotated[list[Count], Meta(min_length=1, max_length=GROUPS_MAX)]
    loopback: Told = ""
    seal: Annotated[str, Meta(max_length=SEAL_MAX)] = ""

    def params(self) -> dict[str, Any]:
        """The introduction as kv_transfer_params, which vLLM gives to the proxy."""
        return {SERVER: msgspec.to_builtins(self)}


def introduction_in(params: Mapping[str, Any]) -> Introduction:
    """Read the introduction from vLLM's kv_transfer_params. Raises ValueError for parameters that
    this connector at prefill has not written.
    """
    told = params.get(SERVER)
    if not isinstance(told, Mapping):
        raise ValueError(f"kv_transfer_params have {TRANSFER_ID!r} and no {SERVER!r}: want that of "
                         f"an answer of the prefill server, and this connector there, too")
    return message_in(told, Introduction, SERVER, "that of an answer of the prefill server")


def room_in(params: Mapping[str, Any]) -> int:
    """The room that the proxy has drawn. Raises ValueError for an id that another could guess."""
    drawn = params.get(TRANSFER_ID)
    if not isinstance(drawn, str) or not ID_MIN <= len(drawn) <= ID_MAX:
        raise ValueError(f"{TRANSFER_ID} is {checked.shown(drawn)}: want {ID_MIN} to {ID_MAX} "
                         f"characters, drawn by chance for each request")
    digest = int.from_bytes(sha256(drawn.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return DRAWN_BY_PROXY | digest & DRAWN_BY_PROXY - 1


def wants_introduction(params: Mapping[str, Any]) -> bool:
    """Whether prefill's answer to these parameters has its introduction."""
    return bool(params.get(FOR_DECODE)) and (TRANSFER_ID in params or bool(params.get(SERVER)))


class DrawnRooms:
    """The rooms that proxies have drawn, and that have come here. most: how many are remembered."""

    def __init__(self, most: int = USED_ROOMS_MAX) -> None:
        self._most: Final = most
        self._seen: Final[OrderedDict[int, None]] = OrderedDict()

    def __contains__(self, room: int) -> bool:
        return room in self._seen

    def is_first(self, room: int) -> bool:
        """Note a room. Returns whether it has not come before."""
        if room in self._seen:
            return False
        self._seen[room] = None
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return True
