"""The KVArgs that SGLang's own prefill.py and decode.py make for a rank, and what we read of them.

SGLang's runtime can be set up once in a process, so each rank is described in one of its own.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from examples.sglang_handoff.load import Load, Seat
from pdproto.items.components import Heads


@dataclass(frozen=True, slots=True)
class Told:
    """A component as the backend has it: layers of its buffers, heads, and [item, byte] of each."""

    name: str
    layers: tuple[int, ...]
    heads: Heads | None
    shapes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Described:
    """A rank. fields: those of its KVArgs that SGLang has set."""

    fields: frozenset[str]
    components: tuple[Told, ...]
    row_bytes: int
    kv_dtype: str


@cache
def described(load: Load, side: str) -> tuple[Described, ...]:
    """What the backend makes of the KVArgs of each rank of a server."""
    seats = [seat for seat in load.seats if seat.side == side]
    with _processes(len(seats)) as processes:  # the ranks meet
        return tuple(processes.map(partial(_describe, load), seats))


def _processes(count: int) -> ProcessPoolExecutor:
    context = get_context("forkserver")
    context.set_forkserver_preload(["examples.sglang_handoff.preload"])
    return ProcessPoolExecutor(count, mp_context=context)


def switch_interval(load: Load) -> float:
    """Of the threads of a decode rank, in seconds, once SGLang's code has made its manager."""
    with _processes(1) as processes:
        return processes.submit(_switch_interval, load).result()


def _switch_interval(load: Load) -> float:
    from examples.sglang_handoff import model, pools, ranks  # noqa: PLC0415

    (seat,) = (seat for seat in load.seats if seat.side == "decode")
    with TemporaryDirectory() as folder:
        pools.write_config(load, Path(folder))
        published = ranks.published(load, seat, Path(folder))
        rank = model.manager_of(
            load, seat, pools.memory_of(load, seat), ranks.metadata_of(load), published)
        rank.node.close()
        return sys.getswitchinterval()


def _describe(load: Load, seat: Seat) -> Described:
    from examples.sglang_handoff import pools, ranks  # noqa: PLC0415 - only ranks read SGLang
    from pdproto.sglang import manager  # noqa: PLC0415
    from pdproto.sglang.pools import (  # noqa: PLC0415
        MetadataRows,
        kv_component,
        state_components,
    )

    with TemporaryDirectory() as folder:
        pools.write_config(load, Path(folder))
        published = ranks.published(load, seat, Path(folder))
        memory = pools.memory_of(load, seat)
        metadata = ranks.metadata_of(load)
        rank = _manager_of(load, seat, memory, metadata, published)
        args, model = rank.kv_args, rank._model()
        kv = kv_component(args, model)
        components = [kv, *state_components(args, model, kv)]
        return Described(
            frozenset(vars(args)),
            tuple(Told(one.name, one.layers, one.heads,
                       tuple(buffer.shape for buffer in one.buffers)) for one in components),
            MetadataRows(args).row_bytes, manager._kv_dtype(args))


def _manager_of(load: Load, seat: Seat, memory: Any, metadata: Any, published: Any) -> Any:
    """The manager that SGLang's code makes, with no node in it."""
    from sglang.srt.disaggregation import decode, prefill, utils  # noqa: PLC0415
    from sglang.srt.runtime_context import get_parallel  # noqa: PLC0415

    from examples.sglang_handoff.model import manager_of  # noqa: PLC0415
    from pdproto.sglang.manager import PdprotoKVManager  # noqa: PLC0415

    class Nodeless(PdprotoKVManager):
        def __init__(self, args: Any, mode: Any, _: Any, is_mla_backend: Any = False) -> None:
            self.kv_args, self.disaggregation_mode = args, mode
            self.is_mla_backend, self.parallel = bool(is_mla_backend), get_parallel()

    def kv_class(backend: Any, kind: Any) -> Any:
        if kind is utils.KVClassType.MANAGER:
            return Nodeless
        return utils.get_kv_class(backend, kind)

    for module in (prefill, decode):
        setattr(module, "get_kv_class", kv_class)  # noqa: B010 - mypy refuses an assignment
    return manager_of(load, seat, memory, metadata, published)
