"""SGLang's manager: one node, the pools that KVArgs point to, and the client of the registry.

Rule 1: an unsupported setting is refused at start-up, by its name.
Rule 2: if a prefill server does not fit, its requests fail with the reason, and the scheduler goes
        on.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from time import time_ns
from typing import Any, Final

import msgspec
import sglang
from sglang.srt.disaggregation.base.conn import BaseKVManager
from sglang.srt.disaggregation.common.conn import PrefillServerInfo
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.environ import envs
from sglang.srt.runtime_context import get_disagg, get_parallel, get_serving, process_model_config
from sglang.srt.utils.network import NetworkAddress, get_local_ip_auto

from pdproto.engine.contract import Scope, SinkEngine
from pdproto.engine.engines import open_sink, open_source
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems, places_of
from pdproto.items.shares import TpRank, share_for
from pdproto.net.hosts import joined
from pdproto.node.link import place_of
from pdproto.node.prefill.routing import DataParallelRank
from pdproto.node.rooms import PrefillRooms
from pdproto.pages.device import Device
from pdproto.pages.devices import device_named
from pdproto.registry.desks import PrefillRegistry
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Registration
from pdproto.runtime.versions import OLDEST, VERSION
from pdproto.sglang import settings
from pdproto.sglang.asked import (
    environment,
    flag,
    is_set,
    refuse,
    refuse_host_receive,
    refuse_kept_rooms,
)
from pdproto.sglang.parts import RankParts
from pdproto.sglang.plugin import (
    answer_during_batches,
    choose_statuses,
    hear_arrivals,
    note_requests,
    note_tokens,
    tell_of_decodes_refusals,
    tell_of_prefills_refusals,
)
from pdproto.sglang.pools import MetadataRows, Model, kv_component, state_components
from pdproto.sglang.prefills import Kind, Prefills
from pdproto.sglang.prompts import note_request
from pdproto.sglang.recompute import Recomputing
from pdproto.sglang.refusals import Refusals, hear, look_up, tell_decode, tell_prefill
from pdproto.sglang.room_ranks import AtOnce, ask_in_threads
from pdproto.sglang.statuses import status
from pdproto.sglang.turns import Turns
from pdproto.sglang.versions import TESTED, kv_layout_of
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.interpreter import share_interpreter
from pdproto.transport.nodes import DecodeNode, DirectDecodeNode, PrefillNode
from pdproto.transport.operator_port import serve_operator
from pdproto.transport.settings import Settings, load

log = logging.getLogger("pdproto.sglang")

INTERFACE: Final = "pdproto.sglang.interface"


class PdprotoKVManager(BaseKVManager):
    """A rank's node under SGLang. Raises ValueError for a setting that is not supported."""

    enable_all_cp_ranks_for_transfer = False
    supports_role_switch = True  # SGLang calls `teardown`, and makes a manager of the other role
    supports_deferred_decode_kv_release = enable_deferred_decode_kv_release = True
    supports_host_destination = False  # unless SGLang has a host pool for requests that arrive
    node: PrefillNode | DecodeNode
    prompt: bytes | None = None  # of the request whose sender or receiver SGLang makes now
    once = False  # see is_once; of the same request
    # On prefill only:
    source_data_path: SourceItems
    statuses: PPConsensusStore | None = None
    desk: PrefillRegistry | None = None
    dp_rank: int  # of this node, among the data-parallel ranks of its server
    named_rank: int | None = None  # that the same request names
    request_id: str = ""  # SGLang's, of the same request
    # On decode only:
    sink_data_path: SinkItems
    turns: Turns | None
    prefills: Prefills
    prefill_info_table: dict[str, PrefillServerInfo]
    refusals: Refusals | None = None
    _forced = False  # a setting of prefill, which is set again for the next role
    held: dict[int, list[Any]]  # receivers of failed requests whose pages SGLang keeps, by room

    def __init__(
        self,
        args: Any,
        disaggregation_mode: DisaggregationMode,
        server_args: Any,
        is_mla_backend: bool | None = False,
    ) -> None:
        # Imported when needed, for SGLang imports this module within those that it names.
        TESTED.check(sglang.__version__, lambda: import_module(INTERFACE).found(), log)
        self.kv_args = args
        self.server_args = server_args
        self.is_mla_backend = bool(is_mla_backend)
        self.disaggregation_mode = disaggregation_mode
        self.parallel = parallel = get_parallel()
        is_prefill = disaggregation_mode == DisaggregationMode.PREFILL
        refuse(args, parallel, is_prefill=is_prefill)
        ignored = settings.without_effect(environment, flag)
        if ignored is not None:
            log.warning("%s", ignored)
        self.is_dummy_cp_rank = is_prefill and parallel.attn_cp_rank > 0
        self.settings: Final = load(os.environ, defaults=settings.defaults(
            environment, is_set, get_local_ip_auto()))
        refuse_kept_rooms(self.settings)
        log.info("%s", self.settings.told())
        self.parts: Final = RankParts(args.page_size, self.settings.page_tokens, args.state_types)
        model = self._model()
        self.device: Final = _device(server_args, args)
        kv = kv_component(args, model, self.device, self.parts.each)
        components = [kv, *state_components(args, model, kv, self.device)]
        self.item_bytes: Final = [component.item_bytes for component in components]
        self.rows: Final = MetadataRows(args)
        self._kv_dtype: Final = _kv_dtype(args)
        self.place: Final = TpRank(parallel.attn_tp_size, parallel.attn_tp_rank)
        self._registrar: Registrar | None = None
        self._recomputing: Final = Recomputing()
        share_interpreter(self.settings)
        self._host: Final = self.settings.host
        self._link: Final = self.settings.link(self._index)
        self._keys: Final = self.settings.load_keys()
        self._waits: Final = self.settings.waits
        engine = self.settings.engine
        hear_arrivals(hear)
        if is_prefill:
            self._begin_prefill(SourceItems(
                components, self.place, open_source(engine, self._host), device=self.device,
                threads=self.settings.copy_threads))
        else:
            self._begin_decode(components, open_sink(
                engine, self._host, self.settings.staging_bytes,
                self.settings.engine_port(self._index)))
        self._operator_port: Final = serve_operator(self.node, self.settings, self._index)

    @property
    def _index(self) -> int:
        """The number of this rank among those of its server."""
        stage = self.kv_args.pp_rank * self.parallel.dp_size + (self.kv_args.system_dp_rank or 0)
        return int(stage * self.parallel.tp_size + self.parallel.tp_rank)

    def _model(self) -> Model:
        """The rank's model. On decode, heads and layers come from the model's configuration,
        because SGLang's decode.py does not put them into its KVArgs.
        """
        args, config = self.kv_args, process_model_config()
        stage: tuple[int, int | None] | None
        if self.disaggregation_mode == DisaggregationMode.PREFILL:
            stage = args.prefill_start_layer, args.prefill_end_layer
        else:
            stage = (0, config.num_hidden_layers) if self.parallel.pp_size == 1 else None
        is_latent = self.is_mla_backend or args.is_hybrid_mla_backend
        return Model(None if is_latent else config.get_total_num_kv_heads(), stage)

    def _begin_prefill(self, data_path: SourceItems) -> None:
        parallel = self.parallel
        # Ranks of all servers that one decode rank talks to have different names.
        name = self.settings.named(f"prefill-{self._host}-{os.getpid()}-{time_ns()}")
        self.source_data_path = data_path
        registration = self._registration(name)
        self.dp_rank = registration.rank.dp
        self.node = PrefillNode(name, data_path, link=self._link, waits=self._waits,
                                trace=self.settings.spans(name), dp=self._dp_of(registration))
        if parallel.pp_size > 1:
            self.statuses = PPConsensusStore(
                parallel.pp_size, self.kv_args.pp_rank, parallel.pp_group)
        choose_statuses(status)
        note_requests(note_request, prefill=True)
        tell_of_prefills_refusals(tell_decode)
        answer_during_batches()
        self._register(registration)

    def _dp_of(self, registration: Registration) -> DataParallelRank | None:
        """Which data-parallel rank the node is of; None if there is only one."""
        ranks = registration.topology.dp_size
        if ranks == 1:
            return None
        self.desk = PrefillRegistry(self._registry, registration.rank, self._keys)
        rooms = PrefillRooms(registration.rank.dp, ranks, publishes=registration.publishes,
                             switch=f"{settings.FORCE_QUERY}=1")
        return DataParallelRank(rooms, self.desk)

    def _begin_decode(self, components: Sequence[Component], engine: SinkEngine) -> None:
        """Ranks of one group share an incarnation, for a source may send to several of them."""
        if environment(settings.FORCE_QUERY):
            log.info("%s has no effect on decode: the registry says where rooms are published",
                     settings.FORCE_QUERY)
            envs.SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK.set(False)
            self._forced = True
        is_direct = self.device is None and _is_direct(
            components, self.place, engine, self.settings)
        parallel, incarnation = self.parallel, new_incarnation()
        if parallel.attn_tp_size > 1:
            incarnation = parallel.world_group.broadcast_object(incarnation, src=0)
            incarnation += parallel.attn_dp_rank
        if components[0].host:
            refuse_host_receive(engine, self.parts)
            self.supports_host_destination = True
        self._group = self.settings.named(f"decode-{incarnation}")
        begin = DirectDecodeNode if is_direct else DecodeNode
        self.sink_data_path = data_path = (
            DirectItems(components, self.place, engine, threads=self.settings.copy_threads)
            if is_direct
            else SinkItems(components, self.place, engine, device=self.device,
                           threads=self.settings.copy_threads))
        self.turns = Turns() if parallel.attn_tp_size > 1 else None
        name = self.name_of(self.place.rank)
        self.node = begin(name, data_path, link=self._link, incarnation=incarnation,
                          waits=self._waits, trace=self.settings.spans(name))
        self.prefills = Prefills(
            Kind(self.parts.tokens, self._kv_dtype, kv_layout_of(self.kv_args)), self.place,
            TpRank(parallel.pp_size, self.kv_args.pp_rank), self.node.lost_peers, self._keys)
        self.prefill_info_table = self.prefills.table
        self.refusals = Refusals()
        self.held = {}
        choose_statuses(status)
        note_requests(note_request, prefill=False)
        tell_of_decodes_refusals(tell_prefill, look_up)
        ask_in_threads()
        note_tokens()

    def name_of(self, rank: int) -> str:
        """The name of a decode rank of this stage, by its place in the tensor parallelism."""
        return f"{self._group}-pp{self.kv_args.pp_rank}-tp{rank}"

    @property
    def prefill(self) -> PrefillNode:
        """The node of a prefill rank."""
        assert isinstance(self.node, PrefillNode)  # noqa: S101 - senders are prefill's
        return self.node

    @property
    def decode(self) -> DecodeNode:
        """The node of a decode rank."""
        assert isinstance(self.node, DecodeNode)  # noqa: S101 - receivers are decode's
        return self.node

    def register_to_bootstrap(self) -> None:
        """Nothing to do: a prefill rank begins to register as soon as it has a node."""

    @property
    def _registry(self) -> str:
        return joined(_registry_host(self.parallel),
                      get_disagg().disaggregation_bootstrap_port)

    def _registration(self, name: str) -> Registration:
        """The registration of this rank. `_register` adds its address."""
        parallel, args = self.parallel, self.kv_args
        return Registration(
            attn_tp_size=parallel.attn_tp_size, attn_tp_rank=parallel.attn_tp_rank,
            attn_cp_size=parallel.attn_cp_size, attn_cp_rank=parallel.attn_cp_rank,
            attn_dp_size=parallel.attn_dp_size, attn_dp_rank=parallel.attn_dp_rank,
            pp_size=parallel.pp_size, pp_rank=args.pp_rank,
            system_dp_size=parallel.dp_size, system_dp_rank=args.system_dp_rank or 0,
            rank_ip=self._host, rank_port=0, page_size=self.parts.tokens,
            kv_cache_dtype=self._kv_dtype, kv_layout=kv_layout_of(args),
            load_balance_method=parallel.load_balance_method,
            force_query=envs.SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK.get(),
            prefill_http_port=get_serving().port,
            version=VERSION, oldest=OLDEST, name=name,
        )

    def _register(self, registration: Registration) -> None:
        """Begin to register, and stay registered for as long as the manager lives."""
        host, port = place_of(self.node.endpoint)
        self._registrar = Registrar(
            self._registry,
            msgspec.structs.replace(registration, rank_ip=host, rank_port=port,
                                    incarnation=self.node.incarnation),
            keys=self._keys, on_refused=lambda reason: log.error("%s: %s", self.node.name, reason))
        self._registrar.follow(self.node)
        self._registrar.start()

    def try_ensure_parallel_info(self, bootstrap_addr: str) -> bool:
        """See Prefills.ensure."""
        return self.prefills.ensure(bootstrap_addr)

    def is_abort_release_safe(self, bootstrap_room: int, required_acks: int) -> bool:  # noqa: ARG002 - SGLang's
        """Whether no write can reach the pages of the room's failed requests any more."""
        return all(one.is_abort_release_safe() for one in self.held.get(bootstrap_room, ()))

    def clear_deferred_abort_state(self, bootstrap_room: int) -> None:
        """Forget the failed requests of a room: SGLang uses their pages again."""
        self.held.pop(bootstrap_room, None)

    def let_go(self, receiver: Any) -> None:
        """Forget one failed request. Of one in the host pool SGLang tells nothing by its room."""
        held = self.held.get(receiver.bootstrap_room, [])
        if receiver in held:
            held.remove(receiver)
            if not held:
                self.clear_deferred_abort_state(receiver.bootstrap_room)

    def _ensure_prefill_recompute_executor(self) -> AtOnce:
        """The executor in which SGLang asks the registry for data-parallel ranks."""
        return AtOnce()

    def submit_prefill_recompute(self, receiver: Any, request: Mapping[str, Any]) -> None:
        """Have the prefill server compute the request of a PdprotoKVReceiver again. SGLang calls
        this on every rank of decode, and the first one asks. If prefill fails, the receiver does.
        """
        if self.place.rank or self.kv_args.pp_rank:
            return
        server = receiver.bootstrap_addr
        receiver.recomputed = self._recomputing.ask(
            server, self.prefill_info_table[server].prefill_http_port, request,
            self.settings.wait("transfer_timeout"))

    def teardown(self) -> None:
        """Unregister, end all hand-overs, and free every resource."""
        if self._forced:
            envs.SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK.set(True)
        if self._registrar is not None:
            self._registrar.stop()
        self._recomputing.stop()
        if self.refusals is not None:
            self.refusals.close()
        if self._operator_port is not None:
            self._operator_port.stop()
        self.node.close()
        if self.desk is not None:
            self.desk.close()
        if self.statuses is not None:
            self.statuses.close()


def _device(server_args: Any, args: Any) -> Device | None:
    """The device of the KV cache; None for host memory.

    Raises ValueError, which names the flag, if the backend cannot use it.
    """
    kind = str(server_args.device)
    name = kind if kind == "cpu" else f"{kind}:{args.gpu_id}"
    try:
        return device_named(name)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"the pdproto backend does not start with --device {kind}: {error}"
                         ) from None


def _is_direct(
    components: Sequence[Component], place: TpRank, engine: SinkEngine, asked: Settings
) -> bool:
    """Whether sources write straight into the KV cache.

    They do if the engine can keep a source out of pages, and if the bytes of a page lie in large
    pieces. PDPROTO_DIRECT=0 forbids it.
    """
    return (asked.direct and engine.target_scope is Scope.PAGE
            and places_of(share_for(components, place, place)) is not None)


def _registry_host(parallel: Any) -> str:
    """The host of the registry: the leader's, if prefill runs on several machines."""
    if parallel.nnodes > 1:
        return str(NetworkAddress.parse(parallel.dist_init_addr).resolved().host)
    return str(get_serving().host)


def _kv_dtype(args: Any) -> str:
    """The dtype of the KV cache as servers compare it. SGLang's default, "auto", is the dtype of
    the model, which the flags of two servers may set differently.
    """
    told = str(args.kv_cache_dtype_str)
    return f"auto ({process_model_config().dtype})" if told == "auto" else told
