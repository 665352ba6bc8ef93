"""The worker's half: the nodes of one rank, over the KV cache of that rank."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from vllm.distributed.parallel_state import get_pp_group, get_tp_group

from pdproto.engine.contract import Scope, SinkEngine
from pdproto.engine.engines import open_sink, open_source
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems, places_of
from pdproto.items.shares import TpRank, share_for
from pdproto.node.prefill.keeps import places_in
from pdproto.pages.device import Device
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.interpreter import share_interpreter
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from pdproto.transport.operator_port import OperatorPort, serve_operator
from pdproto.transport.settings import Settings
from pdproto.vllm.blocks import LayerGroup
from pdproto.vllm.loading import LoadingWorker, Loads
from pdproto.vllm.orders import Orders
from pdproto.vllm.pools import components, device_of
from pdproto.vllm.ranks import DecodeRank
from pdproto.vllm.rooms import ToldRooms
from pdproto.vllm.sending import OfferingWorker

log = logging.getLogger("pdproto.vllm")
KEPT_PART: Final = 8  # of the KV cache is kept for further decode requests: one in so many


class Worker:
    """The worker's half of one rank. cache: vLLM's description of the KV cache. groups: of blocks,
    or of their parts. In a server of both roles it has two nodes.
    """

    def __init__(
        self, settings: Settings, vllm_config: Any, cache: Any, groups: Sequence[LayerGroup]
    ) -> None:
        self._settings: Final = settings
        self._config: Final = vllm_config
        self._blocks: Final = int(cache.num_blocks)
        self._groups: Final = [list(group.layer_names) for group in cache.transfer_groups]
        self._block_groups: Final = groups
        self._parts: Final = [group.parts for group in groups]
        self._offering: OfferingWorker | None = None
        self._loading: LoadingWorker | None = None
        self._ports: Final[list[OperatorPort]] = []
        self._rank = 0  # in its engine

    def register(self, caches: dict[str, Any]) -> None:
        """Open the nodes. Raises ValueError for a KV cache that cannot be handed over."""
        transfer = self._config.kv_transfer_config
        heads = self._config.model_config.get_total_num_kv_heads()
        found = components(caches, self._groups, heads, self._parts)
        device = device_of(caches)
        for component, parts in zip(found, self._parts, strict=True):
            if component.buffers and component.items != self._blocks * parts:
                raise ValueError(f"{component.name}: {component.items // parts} blocks in memory, "
                                 f"and vLLM counts {self._blocks}: want one block size for both")
        log.info("%s", self._settings.told())
        share_interpreter(self._settings)
        pipeline, tensor = get_pp_group(), get_tp_group()
        incarnation = _told_by_first(new_incarnation(), pipeline, tensor)
        rank = DecodeRank(TpRank(tensor.world_size, tensor.rank_in_group), pipeline.rank_in_group,
                    pipeline.world_size, self._settings.named(f"decode-{incarnation}"))
        self._rank = pipeline.rank_in_group * tensor.world_size + tensor.rank_in_group
        place = self._place_in_server(pipeline.world_size * tensor.world_size)
        first = place * (transfer.is_kv_producer + transfer.is_kv_consumer)
        if transfer.is_kv_producer:
            self._offer(found, rank, device, first)
        if transfer.is_kv_consumer:
            self._load(found, rank, incarnation, device, first + transfer.is_kv_producer)
        nodes = [half.node for half in (self._offering, self._loading) if half is not None]
        for index, node in enumerate(nodes, first):
            try:
                port = serve_operator(node, self._settings, index)
            except OSError as error:  # nothing is handed over by it
                log.warning("there is no operator's port: %s", error)
            else:
                self._ports.extend([port] if port is not None else [])

    def _place_in_server(self, ranks: int) -> int:
        """The number of this rank among all of its server. ranks: of an engine. Each data-parallel
        rank is an engine of its own, and has a rank 0.
        """
        return int(self._config.parallel_config.data_parallel_index) * ranks + self._rank

    def _offer(
        self, found: Sequence[Component], rank: DecodeRank, device: Device | None, index: int
    ) -> None:
        """index: of the node among those of the server."""
        told, settings = ToldRooms(), self._settings
        data_path = SourceItems(found, rank.place, open_source(settings.engine, settings.host),
                                device=device, threads=settings.copy_threads)
        name = settings.named(f"prefill-{rank.name().rpartition('decode-')[2]}")
        node = PrefillNode(name, data_path, link=settings.link(index), waits=settings.waits,
                           trace=settings.spans(name), refuses=told.refusal,
                           places=places_in(settings.keep_pages or self._pages() // KEPT_PART))
        self._offering = OfferingWorker(
            node, told, data_path, self._block_groups, [one.item_bytes for one in found])

    def _pages(self) -> int:
        """How many blocks, or parts of them, a request that had the whole KV cache would have."""
        return self._blocks * max(self._parts)

    def _load(
        self, found: Sequence[Component], rank: DecodeRank, incarnation: int,
        device: Device | None, index: int,
    ) -> None:
        settings = self._settings
        engine = open_sink(settings.engine, settings.host, settings.staging_bytes,
                           settings.engine_port(index))
        direct = device is None and _is_direct(found, rank.place, engine, settings)
        begin = DirectDecodeNode if direct else DecodeNode
        threads = settings.copy_threads
        data_path = (DirectItems(found, rank.place, engine, threads=threads) if direct
                     else SinkItems(found, rank.place, engine, device=device, threads=threads))
        node = begin(rank.name(), data_path, link=settings.link(index), incarnation=incarnation,
                     waits=settings.waits, trace=settings.spans(rank.name()))
        self._loading = LoadingWorker(node, data_path, rank)

    def whereabouts(self) -> tuple[str, str] | None:
        """The name of the prefill node, and where it listens; None if there is none."""
        if self._offering is None:
            return None
        return self._offering.node.name, self._offering.node.endpoint

    def take(self, orders: Orders) -> None:
        """Carry out the orders of a step."""
        if self._offering is not None:
            self._offering.take(orders)
        if self._loading is not None:
            self._loading.take(orders)

    def computed(self, orders: Orders) -> None:
        """Carry out the orders that wait for the computation of the step."""
        if self._offering is not None:
            self._offering.computed(orders)

    def reads(self) -> dict[str, dict[int, int]]:
        """Of how many grants this rank reads nothing any more, by request and rank."""
        if self._offering is None:
            return {}
        return {request: {self._rank: grants} for request, grants in self._offering.reads().items()}

    def sent(self) -> set[str]:
        """Requests of prefill whose blocks are free again, since the last call."""
        return self._offering.over() if self._offering is not None else set()

    def loads(self) -> Loads:
        """Loads of decode that have ended, since the last call."""
        return self._loading.over() if self._loading is not None else Loads()

    def close(self) -> None:
        """Close the ports and the nodes. It may be called twice."""
        for port in self._ports:
            port.stop()
        self._ports.clear()
        for half in (self._offering, self._loading):
            if half is not None:
                half.node.close()


def _told_by_first(number: int, *groups: Any) -> int:
    """The number of an engine's first rank. groups: its pipeline and tensor parallelism. vLLM's
    world has the ranks of all engines over which experts are spread.
    """
    for group in groups:
        if group.world_size > 1:
            number = group.broadcast_object(number, src=0)
    return number


def _is_direct(
    found: Sequence[Component], place: TpRank, engine: SinkEngine, asked: Settings
) -> bool:
    """Whether sources write straight into the KV cache: where the engine can keep them out of it,
    and it lies in large pieces. The setting `direct` forbids it.
    """
    return (asked.direct and engine.target_scope is Scope.PAGE
            and places_of(share_for(found, place, place)) is not None)
