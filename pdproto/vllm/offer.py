"""The offer: prefill's message about a computed request, which a proxy passes on to decode.

It is in vLLM's `kv_transfer_params`, under `pdproto`. A proxy gives decode all parameters that it
got from prefill. The room is text there, because a proxy may read numbers as JavaScript does, with
53 bits.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from pdproto.runtime import checked
from pdproto.runtime.limits import NAME_MAX, ROOM_MAX
from pdproto.vllm.ranks import Ranks

KEY: Final = "pdproto"
FROM_PREFILL: Final = "do_remote_prefill"  # vLLM's: decode takes the KV cache from prefill
FOR_DECODE: Final = "do_remote_decode"  # vLLM's: prefill keeps the KV cache for decode
GOES_ON: Final = "pdproto_first_token"  # decode's prompt goes on with prefill's first token
VERSION: Final = 1
RANKS_MAX: Final = 4_096
GROUPS_MAX: Final = 64
PROMPT_MAX: Final = 16  # values of a prompt
SEAL_MAX: Final = 1_024  # characters; a certificate may be in it

Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Told = Annotated[str, Meta(max_length=512)]
RankAt = tuple[Count, Count, Name, Name]
Message = TypeVar("Message", bound=Struct)


def placed(ranks: Sequence[RankAt]) -> Ranks:
    """The name and the endpoint of each rank, by stage and place. Raises ValueError for a place or
    a name that is there twice: one rank alone would be asked for the pages of both.
    """
    told = {(stage, tensor): (name, endpoint) for stage, tensor, name, endpoint in ranks}
    if not len(ranks) == len(told) == len({name for name, _ in told.values()}):
        raise ValueError(f"ranks of prefill {checked.shown(ranks)}: want each place and each name "
                         "once")
    return told


class Offer(Struct, frozen=True, forbid_unknown_fields=True):
    """An offer.

    tokens: of the prompt. carried: those of them whose KV cache is handed over. firsts: the first
    block that prefill has, for each group. ranks: of prefill: the stage, the place, the name and
    the endpoint of each. layout: see layout.py. prompt: what was computed, see prompts.py.
    loopback: where the ranks listen, if only their own host can call them (net/hosts.py). seal: see
    seals.py; empty without a secret.
    """

    version: int
    room: Annotated[str, Meta(pattern="^[0-9]{1,19}$")]
    tokens: Annotated[int, Meta(ge=1, lt=1 << 31)]
    carried: Annotated[int, Meta(ge=1, lt=1 << 31)]
    firsts: Annotated[list[Count], Meta(min_length=1, max_length=GROUPS_MAX)]
    ranks: Annotated[list[RankAt], Meta(min_length=1, max_length=RANKS_MAX)]
    layout: dict[str, str]
    prompt: Annotated[dict[str, Told], Meta(max_length=PROMPT_MAX)]
    loopback: Told = ""
    seal: Annotated[str, Meta(max_length=SEAL_MAX)] = ""

    @property
    def room_number(self) -> int:
        """The room as a number."""
        return int(self.room)

    def params(self) -> dict[str, Any]:
        """The offer as kv_transfer_params, which vLLM gives to the proxy."""
        return {FROM_PREFILL: True, FOR_DECODE: False, KEY: msgspec.to_builtins(self)}


def offer_in(params: Mapping[str, Any]) -> Offer:
    """Read the offer from vLLM's kv_transfer_params. Raises ValueError for parameters that this
    connector at prefill has not written.
    """
    told = params.get(KEY)
    if not isinstance(told, Mapping):
        told = checked.shown(sorted(map(str, params)))
        raise ValueError(f"kv_transfer_params have no {KEY!r}, but {told}: want those "
                         f"of prefill's answer, and this connector at prefill, too")
    offer = message_in(told, Offer, "kv_transfer_params", "those that prefill has answered")
    if offer.room_number > ROOM_MAX:
        raise ValueError(f"kv_transfer_params: room {offer.room}: at most {ROOM_MAX:,}")
    return offer


def message_in(told: Mapping[str, Any], kind: type[Message], named: str, wanted: str) -> Message:
    """Read a message of prefill from a proxy, which may send 100 as 100.0. named, wanted: for
    errors, where it was and which one fits. Raises ValueError for another version, and for one that
    was changed.
    """
    version = told.get("version")
    if version != VERSION:
        raise ValueError(f"{named} of version {checked.shown(version)}, and {VERSION} is known "
                         f"here: want the same release of pdproto at both ends")
    try:
        return msgspec.convert(told, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(
            f"{named}: {checked.reason(str(error))}: want {wanted}, unchanged") from None
