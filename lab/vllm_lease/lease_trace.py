"""What became of requests under vLLM's NixlConnector, in the rows of `vllm-lease`.

traced_nixl.py notes events of both servers as they happen. Here they become the lines of a trace,
which `pdproto trace --system vllm-lease` replays: lab/peers/vllm_lease.py describes the connector.

Rule 1: the tables give a request one block. Here it is one that a later request got too, if there
        is one, else the first.
Rule 2: whether a read has brought the request's own blocks is told by the answer of decode alone:
        its tokens are right, or they are not.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.peers import vllm_lease
from lab.peers.vllm_lease import Block, Fetched, Request
from pdproto.runtime.trace_shared import End, SharedTrace
from pdproto.spec.language import Row

EVENTS: Final = "VLLM_LEASE_EVENTS"  # in the environment of a server: where its events go
ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "computed": ("compute",), "expired": ("clock", "reap"), "renewed": ("renew",),
    "read": ("hear_done",), "read too late": ("log_late_read",),
    "beat too late": ("ignore_heartbeat",),
    "queued": ("queue",), "beat": ("beat",), "scheduled": ("schedule",), "loaded": ("finish",),
}


@dataclass(frozen=True, slots=True)
class Event:
    """request: as prefill calls it. blocks: those that prefill keeps for it."""

    event: str
    request: str
    blocks: list[int] = field(default_factory=list)


def read(path: Path) -> list[Event]:
    """Of one server."""
    return [Event(**json.loads(line)) for line in path.read_text().splitlines()]


def write(folder: Path, prefill: Sequence[Event], decode: Sequence[Event],
          wrong: Collection[str]) -> tuple[Path, Path]:
    """The traces of both servers. wrong: the requests whose answers are not right."""
    folder.mkdir(parents=True, exist_ok=True)
    computed = {event.request: event.blocks for event in prefill if event.event == "computed"}
    numbers = {request: number for number, request in enumerate(computed)}
    blocks = one_block_each(computed)
    paths = folder / "prefill.jsonl", folder / "decode.jsonl"
    with paths[0].open("wb") as target:
        end = SharedTrace("prefill", target, ran=False).begin(vllm_lease.PREFILL, bounded={
            Request: list(numbers.values()), Block: sorted(set(blocks.values()))})
        for event in prefill:
            _tell(end, event, {"r": numbers[event.request], "b": blocks[event.request]})
    with paths[1].open("wb") as target:
        trace = SharedTrace("decode", target, ran=False)
        ends = {request: trace.begin(vllm_lease.DECODE, (number,))
                for request, number in numbers.items()}
        for event in decode:
            number = numbers[event.request]
            if event.event == "loaded":
                ends[event.request].written(
                    vllm_lease.fetched, (number,),
                    Fetched.OTHERS if event.request in wrong else Fetched.OWN)
            _tell(ends[event.request], event, {"b": blocks[event.request]})
    return paths


def one_block_each(computed: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Of each request a block, by rule 1. computed: in the order in which prefill computed them."""
    chosen: dict[str, int] = {}
    names = list(computed)
    for place, name in enumerate(names):
        if name in chosen:
            continue
        chosen[name] = computed[name][0]
        for later in names[place + 1:]:
            shared = set(computed[name]) & set(computed[later])
            if shared and later not in chosen:
                chosen[name] = chosen[later] = min(shared)
                break
    return chosen


def _tell(end: End, event: Event, given: Mapping[str, int]) -> None:
    """The rows of an event, with those of these parameters that they take."""
    for name in ROWS[event.event]:
        row, takes = _TAKES[name]
        end.fired(row, takes, tuple(given[one] for one in takes))


def _taken(row: Row, own: Collection[str], takes: Sequence[str]) -> tuple[Row, tuple[str, ...]]:
    return row, tuple(name for name in takes if name not in own)


_TAKES: Final[Mapping[str, tuple[Row, tuple[str, ...]]]] = {
    row.name: _taken(row, {one.name for one in table.machine.own},
                     [one.name for one in table.parameters(row)])
    for table in (vllm_lease.PREFILL, vllm_lease.DECODE) for row in table.rows}
