"""vLLM's KV connector: its calls, passed on to the halves of prefill and decode.

    --kv-transfer-config '{"kv_connector": "PdprotoConnector", "kv_role": "kv_producer"}'   prefill
    --kv-transfer-config '{"kv_connector": "PdprotoConnector", "kv_role": "kv_consumer"}'   decode

Rule 1: vLLM makes a connector in its scheduler, and one in each worker. In each step that of the
        scheduler sends orders to those of the workers, which report the requests that have ended.
Rule 2: a KV cache that cannot be handed over is refused at start-up, and the error names the
        setting. A request that cannot be handed over fails with the reason, and the process goes
        on.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import RequestStatus

from pdproto.vllm.ahead import look_ahead
from pdproto.vllm.blocks import parts_of
from pdproto.vllm.clients import tell_clients
from pdproto.vllm.configuration import groups_of, layout_of, refuse, settings_of
from pdproto.vllm.interface import found
from pdproto.vllm.loading import Failure, LoadingScheduler
from pdproto.vllm.offering import NOTHING, OfferingScheduler
from pdproto.vllm.orders import Orders
from pdproto.vllm.seals import Seals
from pdproto.vllm.stats import (
    FAILED,
    SCHEDULER,
    SCHEDULER_CPU,
    UNANNOUNCED,
    WORKER,
    WORKER_CPU,
    PdprotoPromMetrics,
    PdprotoStats,
    Stopwatch,
    timed,
)
from pdproto.vllm.versions import TESTED
from pdproto.vllm.worker import Worker

if TYPE_CHECKING:
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.kv_cache_interface import KVCacheConfig

log = logging.getLogger("pdproto.vllm")

COMPLETE: Final = (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED)


class StepOrders(Orders, KVConnectorMetadata):
    """The orders of the scheduler's half to the workers in a step."""


@dataclass(frozen=True)
class Report(KVConnectorWorkerMetadata):
    """Of how many grants workers read nothing any more, by request and rank, and why loads failed.
    """

    grants: dict[str, dict[int, int]]
    failures: dict[str, Failure]

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        """See vLLM's KVConnectorWorkerMetadata."""
        assert isinstance(other, Report)  # noqa: S101 - it is ours
        return Report({request: {**self.grants.get(request, {}), **other.grants.get(request, {})}
                       for request in self.grants.keys() | other.grants.keys()},
                      {**other.failures, **self.failures})


@dataclass(frozen=True)
class Whereabouts(KVConnectorHandshakeMetadata):
    """The name and the endpoint of a worker's prefill node."""

    name: str
    endpoint: str


class PdprotoConnector(KVConnectorBase_V1, SupportsHMA):
    """See the rules above. Raises ValueError by rule 2."""

    def __init__(
        self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: "KVCacheConfig"
    ) -> None:
        TESTED.check(vllm.__version__, found, log)
        super().__init__(vllm_config, role, kv_cache_config)
        refuse(vllm_config)
        transfer, settings = vllm_config.kv_transfer_config, settings_of(vllm_config)
        self._block_groups: Final = groups_of(kv_cache_config, settings.page_tokens)
        layout = layout_of(vllm_config, kv_cache_config, self._block_groups)
        self.stopwatch: Final = Stopwatch()
        self._orders = StepOrders()
        self._offering: OfferingScheduler | None = None
        self._loading: LoadingScheduler | None = None
        self._worker: Worker | None = None
        self._bad_blocks: set[int] = set()
        self._failed = 0
        self._failures: dict[str, Failure] = {}  # of the step: a worker's, or all
        if role is KVConnectorRole.WORKER:
            self._worker = Worker(settings, vllm_config, kv_cache_config, self._block_groups)
            return
        look_ahead(EngineCore)
        if transfer.is_kv_producer:
            self._offering = OfferingScheduler(self._block_groups, layout, Seals(settings),
                                               self._groups_of, is_caching=bool(
                                                   vllm_config.cache_config.enable_prefix_caching))
        if transfer.is_kv_consumer:
            tell_clients()
            self._loading = LoadingScheduler(self._block_groups, layout, Seals(settings))

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> PdprotoStats:
        """See vLLM's KVConnectorBase_V1."""
        return PdprotoStats(data=data) if data is not None else PdprotoStats()

    @classmethod
    def build_prom_metrics(cls, *given: Any, **named: Any) -> PdprotoPromMetrics:
        """See vLLM's KVConnectorBase_V1."""
        return PdprotoPromMetrics(*given, **named)

    @classmethod
    def supports_sleep_mode(cls, kv_transfer_config: Any) -> bool:  # noqa: ARG003
        """No: sleep would unmap the KV cache of a node that peers write to and read."""
        return False

    # In the scheduler

    def look_ahead(self, request: Any) -> None:
        """Look at a request that the scheduler will get. In any thread (ahead.py)."""
        if self._offering is not None:
            self._offering.look_ahead(request)
        if self._loading is not None:
            self._loading.look_ahead(request)

    def set_xfer_handshake_metadata_pp_aware(
        self, metadata: Mapping[tuple[int, int], KVConnectorHandshakeMetadata]
    ) -> None:
        """See vLLM's KVConnectorBase_V1."""
        if self._offering is not None:
            self._offering.ranks = {
                rank: (where.name, where.endpoint) for rank, where in sorted(metadata.items())
                if isinstance(where, Whereabouts)}
            self._offering.pins.ranks = len(self._offering.ranks)

    def bind_gpu_block_pool(self, gpu_block_pool: "BlockPool") -> None:
        """See vLLM's KVConnectorBase_V1."""
        if self._offering is not None:
            self._offering.pins.pool = gpu_block_pool

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:  # noqa: ARG002
        """See vLLM's KVConnectorBase_V1."""
        return tuple(self._kv_cache_config.transfer_group_ids)

    @timed
    def on_new_request(self, request: Any) -> None:
        """See vLLM's KVConnectorBase_V1."""
        if self._offering is not None:
            self._offering.arrived(request, self._orders)
        if self._loading is not None:
            self._loading.arrived(request, self._orders)

    @timed
    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """See vLLM's KVConnectorBase_V1."""
        if self._loading is None:
            return 0, False
        return self._loading.matched(request, num_computed_tokens)

    @timed
    def update_state_after_alloc(
        self, request: Any, blocks: "KVCacheBlocks", num_external_tokens: int
    ) -> None:
        """See vLLM's KVConnectorBase_V1."""
        if self._loading is not None:
            self._loading.placed(request, self._groups_of(blocks.get_block_ids()),
                                 num_external_tokens, self._orders)

    @timed
    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        """See vLLM's KVConnectorBase_V1."""
        if self._offering is not None:
            self._offering.computed(scheduler_output, self._orders)
        orders, self._orders = self._orders, StepOrders()
        return orders

    @timed
    def update_connector_output(self, connector_output: Any) -> None:
        """Unpin blocks that prefill has sent, and note why loads have failed. What decode keeps for
        a request goes when it ends, however its load has ended (`request_finished_all_groups`).
        """
        report = connector_output.kv_connector_worker_meta
        if isinstance(report, Report):
            self._failures = report.failures
        if self._offering is None:
            return
        if isinstance(report, Report):
            self._offering.pins.read(report.grants)
        for name in connector_output.finished_sending or ():
            self._offering.pins.release(name)

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """See vLLM's KVConnectorBase_V1."""
        return self.request_finished_all_groups(request, (block_ids,))

    @timed
    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """See vLLM's KVConnectorBase_V1."""
        if self._loading is not None:
            self._loading.finished(request, self._orders)
        if self._offering is None:
            return NOTHING
        return self._offering.finished(request, self._groups_of(block_ids), self._orders,
                                       complete=request.status in COMPLETE)

    def _groups_of(self, block_ids: tuple[list[int], ...]) -> list[list[int]]:
        return parts_of(self._block_groups,
                        self._kv_cache_config.select_transfer_block_ids(block_ids))

    # In a worker

    @property
    def worker(self) -> Worker:
        assert self._worker is not None  # noqa: S101 - vLLM calls these in workers
        return self._worker

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """See vLLM's KVConnectorBase_V1."""
        self.worker.register(kv_caches)

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        """See vLLM's KVConnectorBase_V1."""
        where = self.worker.whereabouts()
        return Whereabouts(*where) if where is not None else None

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """Nothing is to be done: vLLM preempts requests that run. At decode they are loaded, and at
        prefill the blocks that are given to the node are pinned.
        """

    @timed
    def start_load_kv(self, /, forward_context: Any, **_: Any) -> None:  # noqa: ARG002
        """See vLLM's KVConnectorBase_V1."""
        orders = self._get_connector_metadata()
        assert isinstance(orders, StepOrders)  # noqa: S101 - it is ours
        self.worker.take(orders)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """A request is scheduled when all its layers are loaded."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_: Any
    ) -> None:
        """Blocks are sent when all layers of the step are computed, from where they lie."""

    @timed
    def wait_for_save(self) -> None:
        """Send the blocks that the step has computed. They stay where they are (offering.py)."""
        orders = self._get_connector_metadata()
        assert isinstance(orders, StepOrders)  # noqa: S101 - it is ours
        self.worker.computed(orders)

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        """See vLLM's KVConnectorBase_V1."""
        reads, failures = self.worker.reads(), self.taken_failures()
        return Report(reads, failures) if reads or failures else None

    def taken_failures(self) -> dict[str, Failure]:
        """Why loads have failed that have ended since the last call, by request."""
        taken, self._failures = self._failures, {}
        return taken

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Raises NotImplementedError: the answer has no place for the loads that failed, so its
        caller would take them for loaded. vLLM calls `get_transfer_results` instead.
        """
        raise NotImplementedError("PdprotoConnector.get_finished: call get_transfer_results, which "
                                  "also names the loads that failed")

    @timed
    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:  # noqa: ARG002
        """See vLLM's KVConnectorBase_V1."""
        loads = self.worker.loads()
        self._bad_blocks |= loads.bad_blocks
        self._failed += len(loads.failed)
        self._failures.update(loads.failed)
        return KVConnectorTransferResults(self.worker.sent(), loads.over, set(loads.failed))

    def get_block_ids_with_load_errors(self) -> set[int]:
        """None where there are several groups: there vLLM goes by the names of requests."""
        bad, self._bad_blocks = self._bad_blocks, set()
        if len(self._kv_cache_config.kv_cache_groups) > 1:
            return set()
        return {block // group.parts for group in self._block_groups for block in bad}

    def get_kv_connector_stats(self) -> PdprotoStats:
        """See vLLM's KVConnectorBase_V1."""
        stats, spent = PdprotoStats(), self.stopwatch.taken()
        wall, cpu = ((SCHEDULER, SCHEDULER_CPU) if self._worker is None else (WORKER, WORKER_CPU))
        stats.data[wall].append(spent.wall)
        stats.data[cpu].append(spent.cpu)
        stats.data[FAILED], self._failed = self._failed, 0
        if self._loading is not None:
            stats.data[UNANNOUNCED] = self._loading.take_unannounced()
        return stats

    def shutdown(self) -> None:
        """See vLLM's KVConnectorBase_V1."""
        if self._worker is not None:
            self._worker.close()
