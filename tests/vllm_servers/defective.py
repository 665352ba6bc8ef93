"""The connector with a defect in it, for servers that a test starts: the environment names which.

vLLM loads it in place of the connector (`kv_connector_module_path`). Without a name it is the
connector itself, in a process that leaves its core to others (patient_ranks.py).
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from vllm.distributed.kv_transfer.kv_connector.v1.nixl import NixlConnector

from pdproto.items.data_path import SinkItems
from pdproto.items.shares import TpRank
from pdproto.node.decode.sources import Sources
from pdproto.node.prefill.keeps import NO_PLACES, Keeps
from pdproto.node.prefill.sinks import Sinks
from pdproto.vllm import blocks, loading, offering, rooms, seals, sending, worker
from pdproto.vllm.connector import PdprotoConnector
from pdproto.vllm.worker import Worker
from tests.servers import planting
from tests.servers.defects import gone_for_good, silence_as_death
from tests.servers.planting import wrap
from tests.vllm_servers import patient_ranks
from tests.vllm_servers.cells import DEFECT

__all__ = ["NixlConnector", "PdprotoConnector"]


def wrong_block() -> None:
    """Prefill sends another block in place of a request's last one."""
    def next_of(old: Any, self: Any, blocks: Any) -> Any:
        for place, ids in old(self, blocks):
            yield place, ids if self.runs else [*ids[:-1], ids[-1] + (1 if ids[-1] < 60 else -1)]

    wrap(sending.Leg, "next", next_of)


def state_moved_on() -> None:
    """Prefill computes all tokens of a prompt, and decode takes the last one into the state again.
    """
    wrap(offering.OfferingScheduler, "arrived", lambda _old, _self, _request: None)


def block_in_part() -> None:
    """Prefill sends the block in which a step ends, and not again when it is computed."""
    wrap(blocks.LayerGroup, "ready", lambda _old, self, computed, tokens: min(
        self.blocks(tokens), -(-computed // self.block_tokens)))


def prompts_whole() -> None:
    """Decode compares its whole prompt, also where prefill has computed the first part of it."""
    wrap(loading, "prompt_of", lambda old, request, _tokens=None: old(request))


def end_untold() -> None:
    """Decode's workers do not tell of a load whose request has ended meanwhile."""
    def end(old: Any, self: Any, order: Any) -> None:
        self.left = {*getattr(self, "left", ()), order.request}
        old(self, order)

    def over(old: Any, self: Any) -> Any:
        loads = old(self)
        return replace(loads, over=loads.over - getattr(self, "left", set()))

    wrap(loading.LoadingWorker, "_end", end)
    wrap(loading.LoadingWorker, "over", over)


def told_twice() -> None:
    """A load that has failed is also told as a request that was sent (vllm-project/vllm#46240)."""
    def sent(old: Any, self: Any) -> set[str]:
        return {*old(self), *getattr(self, "failed_now", ())}

    def loads(old: Any, self: Any) -> Any:
        found = old(self)
        self.failed_now = found.failed
        return found

    wrap(Worker, "loads", loads)
    wrap(Worker, "sent", sent)


def blocks_given_early() -> None:
    """Prefill gives blocks back to vLLM at once, and sends from them whenever decode asks."""
    def offer(old: Any, self: Any, *given: Any) -> None:
        waits = {**self._settings.waits, "bootstrap_timeout": 1_000.0}
        self._settings = replace(self._settings, waits=waits)
        old(self, *given)

    def computed(old: Any, self: Any, orders: Any) -> None:
        old(self, orders)
        self._over.clear()
        self._over.extend(order.request for order in orders.close)

    def over(old: Any, self: Any) -> set[str]:
        told: set[str] = old(self) - getattr(self, "told", set())
        self.told = getattr(self, "told", set()) | told
        return told

    wrap(Worker, "_offer", offer)
    wrap(sending.OfferingWorker, "computed", computed)
    wrap(sending.OfferingWorker, "over", over)


def loss_unnoticed() -> None:
    """Neither side notices that the other is gone."""
    for kind in (Sources, Sinks):
        wrap(kind, "_lose", lambda _, *__: None)


def heads_swapped() -> None:
    """A rank takes itself for another one of its tensor parallelism, where it has two."""
    wrap(TpRank, "heads", lambda old, self, total: old(
        TpRank(self.size, self.size - 1 - self.rank), total))


def partners_swapped() -> None:
    """A rank of decode asks another rank of prefill's tensor parallelism than its own."""
    wrap(TpRank, "partners", lambda old, self, size: old(
        TpRank(self.size, self.size - 1 - self.rank), size))


def waiting_declined() -> None:
    """Decode gives a request up that has to wait for blocks."""
    def matched(old: Any, self: Any, request: Any, computed: int) -> Any:
        expected = self._expected.get(request.request_id)
        if expected is not None and not expected.is_placed:
            self.asked = [*getattr(self, "asked", ()), request.request_id]
            if self.asked.count(request.request_id) > 1:
                expected.problem = "it has waited"
        return old(self, request, computed)

    wrap(loading.LoadingScheduler, "matched", matched)


def files_kept() -> None:
    """Decode opens a file for each load, and never closes it."""
    def begin(old: Any, self: Any, order: Any) -> None:
        self.files = [*getattr(self, "files", ()), os.dup(0)]
        old(self, order)

    wrap(loading.LoadingWorker, "_begin", begin)


def staging_shifted() -> None:
    """Decode reads its staging memory 64 bytes beside where prefill has written."""
    def landed(old: Any, self: Any, *given: Any) -> Any:
        found = old(self, *given)
        head = int(found[:4].view("<u4")[0])  # the length of the header
        return np.concatenate([found[:head], np.roll(found[head:], 64)])

    wrap(SinkItems, "_landed", landed)


def misfit_computed() -> None:
    """Decode computes a request of a prefill that does not fit, as if there were no params."""
    def arrived(old: Any, self: Any, request: Any, orders: Any) -> None:
        old(self, request, orders)
        expected = self._expected.get(request.request_id)
        if expected is not None and expected.problem is not None:
            del self._expected[request.request_id]

    wrap(loading.LoadingScheduler, "arrived", arrived)


def params_unread() -> None:
    """Decode computes a request whose params it cannot read, as if there were none."""
    def arrived(old: Any, self: Any, request: Any, orders: Any) -> None:
        old(self, request, orders)
        expected = self._expected.get(request.request_id)
        if expected is not None and expected.offer is None:
            del self._expected[request.request_id]

    wrap(loading.LoadingScheduler, "arrived", arrived)


def misfit_unnoticed() -> None:
    """The two ends do not compare how they keep the KV cache."""
    planting.replace(loading, "misfit", lambda *_: None)


def prompts_uncompared() -> None:
    """Decode does not compare its prompt with that of the offer."""
    planting.replace(loading, "other_prompt", lambda *_: None)


def room_waits() -> None:
    """Prefill leaves a request waiting that comes for a room which has served one."""
    wrap(rooms.ToldRooms, "refusal", lambda *_: None)
    wrap(Keeps, "meet", lambda *_: False)


def nothing_kept() -> None:
    """Prefill gives blocks back when the first decode request has ended."""
    planting.replace(worker, "places_in", lambda _: NO_PLACES)


def params_unsent() -> None:
    """Prefill answers without params, so decode computes each prompt."""
    wrap(offering.OfferingScheduler, "_params", lambda *_: {})


def seals_apart() -> None:
    """Each server seals what a proxy passes on with a key of its own."""
    def begin(old: Any, self: Any, settings: Any) -> None:
        old(self, settings)
        self._key, self._signer = os.urandom(32), None

    wrap(seals.Seals, "__init__", begin)


def ranks_alike() -> None:
    """A data-parallel engine takes its first rank for that of its server."""
    wrap(Worker, "_place_in_server", lambda _, self, __: self._rank)


def nixl_wrong_block() -> None:
    """NIXL's prefill names another block in place of a request's last one."""
    def finished(old: Any, self: Any, request: Any, blocks: Any) -> Any:
        keeps, params = old(self, request, blocks)
        if params and params.get("remote_block_ids"):
            params["remote_block_ids"] = tuple(
                [*ids[:-1], ids[-1] + 1 if ids[-1] < 60 else ids[-1] - 1]
                for ids in params["remote_block_ids"])
        return keeps, params

    wrap(NixlConnector, "request_finished_all_groups", finished)


DEFECTS: Final[Mapping[str, Callable[[], None]]] = {
    put_in.__name__.replace("_", "-"): put_in
    for put_in in (wrong_block, block_in_part, prompts_whole, end_untold, told_twice,
                   blocks_given_early, loss_unnoticed, heads_swapped, partners_swapped,
                   waiting_declined, files_kept, staging_shifted, params_unread, state_moved_on,
                   misfit_unnoticed, misfit_computed, nixl_wrong_block, silence_as_death,
                   gone_for_good, prompts_uncompared, room_waits, nothing_kept, params_unsent,
                   ranks_alike, seals_apart)}

patient_ranks.pause()
if os.environ.get(DEFECT):
    DEFECTS[os.environ[DEFECT]]()
