"""vLLM's own scheduler with the connector's two halves, and a worker without a model.

The worker "computes" a token by writing its number into its place in every layer, and makes the
token that follows from all that the request looks back at. So tokens are right only where every
block that a request reads holds what was computed for it, wherever that was.

A layer with a state takes each token into it, as a digest of all tokens so far: a state that has a
token too many, or one too few, is wrong. The worker goes by the blocks that steps tell it of, as
vLLM's does: it copies the blocks that a step names, and a state into its request's next block.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from transformers import LlamaConfig
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import (
    get_request_block_hasher,
    init_none_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    RSWASpec,
)
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from pdproto.vllm import worker
from pdproto.vllm.connector import PdprotoConnector
from pdproto.vllm.early import SERVER, TRANSFER_ID
from tests.vllm.layers import (
    BLOCK,
    HEADS,
    TOKENS_MAX,
    cell,
    copy_block,
    copy_state,
    full,
    mark,
    read,
    state_bytes,
    take_in,
    zeros,
)
from tests.waiting import until

FOR_DECODE: Final = {"do_remote_decode": True, "do_remote_prefill": False}
VOCABULARY: Final = 300
DRAFTS: Final = 2  # of a step, with speculative decoding
KEEP_S: Final = 0.05  # so that tests whose rooms nobody asks for again wait for it no longer
WORLD: Final = 8  # ranks of all engines over which experts are spread


def model_folder(folder: Path) -> Path:
    """A model's configuration; nobody reads weights."""
    LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=HEADS, architectures=["LlamaForCausalLM"],
    ).save_pretrained(folder)
    return folder


def ours(connector: Any) -> PdprotoConnector:
    """Our connector: this one, or the one in it, if it is vLLM's MultiConnector."""
    (found,) = (one for one in getattr(connector, "_connectors", (connector,))
                if isinstance(one, PdprotoConnector))
    return found


def transfer_config(
    role: str, policy: str, extra: dict[str, Any], *, multi: bool
) -> KVTransferConfig:
    """multi: beside another connector, in vLLM's MultiConnector."""
    one = {"kv_connector": "PdprotoConnector", "kv_role": role,
           "kv_connector_module_path": "pdproto.vllm.connector",
           "kv_connector_extra_config": extra}
    if multi:
        other = {"kv_connector": "Beside", "kv_role": role,
                 "kv_connector_module_path": "tests.vllm.beside"}
        one = {"kv_connector": "MultiConnector", "kv_role": role,
               "kv_connector_extra_config": {"connectors": [one, other]}}
    return KVTransferConfig(**one, kv_load_failure_policy=policy)


@dataclass(slots=True)
class Running:
    """Where the states of a request are after its last step. at: the block, of its list, with the
    state behind the tokens that were known, for each group. right: so many drafts behind them were
    right.
    """

    at: list[int]
    right: int = 0


class Engine:
    """A server of vLLM without a model. specs: of its groups of layers, of two layers each.
    tokens_outermost: the tokens of a block are its outermost axis in memory, and not its heads.
    tp: ranks of its tensor parallelism, each with its heads, and all with each latent vector.
    step_tokens: most tokens that a step computes. guess: of a request and the number of its tokens
    so far, the DRAFTS tokens that it may make next. data_rank: of data parallelism.
    spread: what ranks of all such engines have told, where experts are spread over them.
    """

    def __init__(
        self, closing: ExitStack, folder: Path, role: str, *, specs: Sequence[KVCacheSpec] = (),
        blocks: int = 64, policy: str = "fail", prefix: bool = True,
        extra: Mapping[str, Any] | None = None, multi: bool = False,
        tokens_outermost: bool = False, tp: int = 1, step_tokens: int = 256,
        guess: Callable[[str, int], list[int]] | None = None, data_rank: int = 0,
        spread: list[int] | None = None,
    ) -> None:
        self._guess: Final = guess
        groups = [KVCacheGroupSpec([f"layers.{number * 2 + layer}.attn" for layer in range(2)],
                                   spec) for number, spec in enumerate(specs or (full(),))]
        layout = "LBNHC" if tokens_outermost else "LBHNC"
        self.cache: Final = KVCacheConfig(blocks, [], groups, kv_cache_layout=layout)
        waits = {"keep": KEEP_S, **(extra or {}).get("waits", {})}
        transfer = transfer_config(role, policy, {**(extra or {}), "waits": waits}, multi=multi)
        mode = next((spec.mamba_cache_mode for spec in specs if isinstance(spec, MambaSpec)),
                    "none")
        config = self._config(folder, transfer, step_tokens, mode, prefix=prefix,
                              drafts=DRAFTS if guess else 0)
        config.cache_config.num_gpu_blocks = blocks
        config.parallel_config.data_parallel_index = data_rank
        if len(groups) == 1:
            config.cache_config.block_size = groups[0].kv_cache_spec.block_size
        self.config: Final = config
        size, hashed = resolve_kv_cache_block_sizes(self.cache, config)
        self.scheduler: Final = Scheduler(config, self.cache, StructuredOutputManager(config),
                                          size, hash_block_size=hashed, log_stats=True)
        self.ranks: Final[list[dict[str, Any]]] = [
            {name: zeros(group.kv_cache_spec, blocks, tp, tokens_outermost=tokens_outermost)
             for group in groups for name in group.layer_names} for _ in range(tp)]
        told: list[int] = []
        self.connectors: Final[list[Any]] = []
        for rank in range(tp):
            self.connectors.append(made := KVConnectorFactory.create_connector(
                config, KVConnectorRole.WORKER, self.cache))
            closing.callback(made.shutdown)
            with _rank_of(rank, tp, told, data_rank * tp + rank, spread):
                made.register_kv_caches(self.ranks[rank])
        where = {(0, rank): made.get_handshake_metadata()
                 for rank, made in enumerate(self.connectors)}
        if None not in where.values():
            self.scheduler.connector.set_xfer_handshake_metadata_pp_aware(where)
        self._aggregator: Final = KVOutputAggregator(tp)
        self.answers: Final[dict[str, list[int]]] = {}
        self.ends: Final[dict[str, str]] = {}
        self.params: Final[dict[str, Any]] = {}
        self.errors: Final[dict[str, Any]] = {}  # from vLLM 0.33 on
        self.requests: Final[dict[str, Request]] = {}  # all that came
        self._tables: Final[dict[str, list[list[int]]]] = {}  # blocks by group, as the worker has
        self._running: Final[dict[str, Running]] = {}
        self.stats: Final[list[dict[str, Any]]] = []  # of the connector, step by step
        self.drafted: Final = [0, 0]  # drafts, and those that were right
        self.loaded = 0  # tokens that it has not computed
        init_none_hash(sha256)
        self._hasher: Final = get_request_block_hasher(hashed, sha256)

    @property
    def half(self) -> PdprotoConnector:
        """The connector in the scheduler."""
        return ours(self.scheduler.connector)

    @property
    def layers(self) -> dict[str, Any]:
        """Those of the first worker."""
        return self.ranks[0]

    @property
    def connector(self) -> Any:
        """The connector in the first worker."""
        return self.connectors[0]

    @staticmethod
    def _config(
        folder: Path, transfer: KVTransferConfig, step_tokens: int, mode: str, *, prefix: bool,
        drafts: int,
    ) -> VllmConfig:
        model = ModelConfig(str(folder), skip_tokenizer_init=True, dtype="float32", seed=0,
                            max_model_len=TOKENS_MAX)
        return VllmConfig(
            model_config=model,
            speculative_config=SpeculativeConfig(
                method="ngram", num_speculative_tokens=drafts, prompt_lookup_max=drafts,
                target_model_config=model, target_parallel_config=ParallelConfig(),
            ) if drafts else None,
            scheduler_config=SchedulerConfig(
                max_num_seqs=16, max_num_batched_tokens=step_tokens, max_model_len=TOKENS_MAX,
                enable_chunked_prefill=True, is_encoder_decoder=False, async_scheduling=False),
            cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=prefix,
                                     mamba_cache_mode=mode),
            device_config=DeviceConfig("cpu"),
            kv_transfer_config=transfer)

    def add(self, name: str, prompt: Sequence[int], new: int,
            params: Mapping[str, Any] | None = None, *, refused: bool = False,
            adapter: Any = None) -> None:
        """refused: by vLLM's API, which adds a stand-in and aborts it (EngineCore.add_request).
        adapter: a LoRARequest.
        """
        sampling = SamplingParams(
            max_tokens=new, ignore_eos=True, temperature=0,
            extra_args=None if params is None else {"kv_transfer_params": dict(params)})
        request = self.requests[name] = self.made(EngineCoreRequest(
            name, list(prompt), None, sampling, None, 0.0, adapter, None, None,
            abort_immediately=refused))
        self.scheduler.add_request(request)
        self.answers[name] = []
        if refused:
            self.abort(name)

    def made(self, told: EngineCoreRequest) -> Request:
        """As the thread that reads requests makes it."""
        core = SimpleNamespace(scheduler=self.scheduler, mm_receiver_cache=None,
                               request_block_hasher=self._hasher)
        return EngineCore.preprocess_add_request(core, told)[0]

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests([name], RequestStatus.FINISHED_ABORTED)

    def step(self, hear: Callable[[KVConnectorOutput], None] = lambda _: None) -> None:
        """One step, as vLLM's engine makes it. hear: called with what the worker has said, before
        the scheduler hears it.
        """
        scheduled = self.scheduler.schedule()
        for connector in self.connectors:
            connector.handle_preemptions(scheduled.kv_connector_metadata)
            connector.bind_connector_metadata(scheduled.kv_connector_metadata)
            if scheduled.has_sync_kv_loads:
                connector.start_load_kv(SimpleNamespace())
        self._hear(scheduled)
        drafts = scheduled.scheduled_spec_decode_tokens
        sampled = {name: self._compute(name, count, drafts.get(name, ()))
                   for name, count in scheduled.num_scheduled_tokens.items()}
        names = list(sampled)
        output = self._aggregator.aggregate([ModelRunnerOutput(
            names, {name: place for place, name in enumerate(names)},
            [sampled[name] for name in names], kv_connector_output=_said(connector, scheduled),
        ) for connector in self.connectors])
        hear(output.kv_connector_output)
        outputs = self.scheduler.update_from_output(scheduled, output)
        for output in outputs.values():
            stats = output.scheduler_stats
            if stats is not None and stats.kv_connector_stats:
                self.stats.append(stats.kv_connector_stats)
            if stats is not None and stats.connector_prefix_cache_stats is not None:
                self.loaded += stats.connector_prefix_cache_stats.hits
            for one in output.outputs:
                self.answers[one.request_id] += one.new_token_ids
                if one.finish_reason is not None:
                    self.ends[one.request_id] = str(one.finish_reason)
                    self.errors[one.request_id] = getattr(one, "error", None)
                if one.kv_transfer_params is not None:
                    self.params[one.request_id] = one.kv_transfer_params
        if self._guess is not None:
            going = [name for name in names if sampled[name] and name not in self.ends]
            self.scheduler.update_draft_token_ids(DraftTokenIds(
                going, [self._guess(name, len(self.answers[name])) for name in going]))

    def _hear(self, scheduled: Any) -> None:
        """Take the blocks of a step's requests, and copy those that it names."""
        cached = scheduled.scheduled_cached_reqs
        for new in scheduled.scheduled_new_reqs:
            self._tables[new.req_id] = [list(ids) for ids in new.block_ids]
            self._running.pop(new.req_id, None)
        for name, more in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if name in cached.resumed_req_ids:
                self._tables[name] = [[] for _ in self.cache.kv_cache_groups]
                self._running.pop(name, None)
            for ids, new_ids in zip(self._tables[name], more or (), strict=False):
                ids.extend(new_ids)
        for source, target in scheduled.kv_cache_block_copies or ():
            for of_rank in self.ranks:
                for layer in of_rank.values():
                    copy_block(layer, source, target)

    def _compute(self, name: str, count: int, drafts: Sequence[int]) -> list[int]:
        """Write so many tokens of a request, the drafts last. Returns the tokens that follow, if
        all are there: one, and one more for each draft that is right.

        The state behind a draft is in a block of its own: the next ones of the request's.
        """
        request = self.scheduler.requests[name]
        first = request.num_computed_tokens - count  # vLLM has counted them already
        blocks, end = self._tables[name], first + count - len(drafts)
        known = list(request.all_token_ids)
        tokens = [*known[first:end], *(max(0, draft) for draft in drafts)]  # -1 is no token
        sizes = [group.kv_cache_spec.block_size for group in self.cache.kv_cache_groups]
        before = self._running.get(name) or Running([(first - 1) // size for size in sizes])
        now = Running([(first + count - 1) // size for size in sizes])
        for place, group in enumerate(self.cache.kv_cache_groups):
            ids, at = blocks[place], now.at[place]
            for layer in group.layer_names:
                for of_rank in self.ranks:
                    if isinstance(group.kv_cache_spec, MambaSpec):
                        self._move_on(of_rank[layer], ids, before.at[place] + before.right, at,
                                      tokens, first, len(drafts))
                    else:
                        self._write(of_rank[layer], layer, ids, sizes[place], tokens, first)
        self._running[name] = now
        if end < len(known):
            return []
        found = [self._next(request, now, end)]
        while now.right < len(drafts) and drafts[now.right] == found[-1]:
            now.right += 1
            found.append(self._next(request, now, end + now.right))
        self.drafted[0] += len(drafts)
        self.drafted[1] += now.right
        return found

    @staticmethod
    def _write(cache: Any, layer: str, ids: Sequence[int], size: int, tokens: Sequence[int],
               first: int) -> None:
        for place, token in enumerate(tokens, first):
            cell(cache, ids[place // size], place % size).copy_(
                mark(layer, token, cache.shape[-1]))

    @staticmethod
    def _move_on(state: Any, ids: Sequence[int], before: int, at: int, tokens: Sequence[int],
                 first: int, drafts: int) -> None:
        """Take tokens into the state that is in the block `before` of a request's."""
        if first and before != at:
            copy_state(state, ids[before], ids[at])
        for place, token in enumerate(tokens):
            if place >= len(tokens) - drafts:
                copy_state(state, ids[at], ids[at + 1])
                at += 1
            take_in(state, ids[at], token, begins=first + place == 0)

    def _next(self, request: Request, now: "Running", length: int) -> int:
        """The token that follows from what the KV cache holds."""
        found, blocks = hashlib.sha256(), self._tables[request.request_id]
        for place, (group, ids) in enumerate(zip(self.cache.kv_cache_groups, blocks, strict=True)):
            size = group.kv_cache_spec.block_size
            if isinstance(group.kv_cache_spec, MambaSpec):
                for layer in group.layer_names:
                    found.update(state_bytes(self.layers[layer], ids[now.at[place] + now.right]))
                continue
            prompt = len(request.prompt_token_ids or ())
            for token in visible(group.kv_cache_spec, length, prompt):
                for layer in group.layer_names:
                    found.update(read([of_rank[layer] for of_rank in self.ranks],
                                      ids[token // size], token % size))
        return int.from_bytes(found.digest()[:4], "little") % VOCABULARY

    def preemptions(self) -> int:
        """Of all requests that came."""
        return sum(request.num_preemptions for request in self.requests.values())

    def assert_empty(self) -> None:
        """Nothing is left of any request, in vLLM's scheduler and in our halves."""
        scheduler = self.scheduler
        assert not scheduler.requests
        assert not scheduler.running
        assert scheduler.get_request_counts() == (0, 0)
        assert not scheduler.finished_req_ids
        assert not scheduler.finished_recving_kv_req_ids
        assert not scheduler.failed_recving_kv_req_ids
        manager = scheduler.kv_cache_manager
        for of_group in manager.coordinator.single_type_managers:
            assert not of_group.req_to_blocks
            assert not of_group.num_cached_block
        pool = manager.block_pool
        assert pool.get_num_free_blocks() == self.cache.num_blocks - 1, "all but the null block"
        assert all(block.ref_cnt == 0 for block in pool.blocks[1:])
        assert self.half._loading is None or not self.half._loading._expected
        offering = self.half._offering
        assert offering is None or not (offering._requests or offering.pins._of)
        for half in self.workers():
            if half._loading is not None:
                assert not half._loading._loadings
                assert not half._loading._told
            if half._offering is not None:
                assert not half._offering._over
                assert not half._offering._sendings

    def workers(self) -> list[worker.Worker]:
        return [ours(connector).worker for connector in self.connectors]

    def open_handoffs(self) -> int:
        """Of the nodes of its workers."""
        return sum(half.node.open_handoffs().open for of_rank in self.workers()
                   for half in (of_rank._offering, of_rank._loading) if half is not None)

    def settle(self, seconds: float = 20.0) -> None:
        """Make steps until its nodes have ended all hand-overs. Then nothing is left."""
        def settled() -> bool:
            if self.open_handoffs():
                self.step()
                return False
            return True

        until(settled, lambda: f"{self.open_handoffs()} hand-overs are open", within_s=seconds)
        self.step()
        self.assert_empty()


def _said(connector: Any, scheduled: Any) -> KVConnectorOutput:
    """The report of a worker at the end of a step."""
    said = KVConnectorOutput()
    if not scheduled.has_sync_kv_loads:
        connector.start_load_kv(SimpleNamespace())
    connector.wait_for_save()
    ended = connector.get_transfer_results(scheduled.finished_req_ids)
    said.finished_sending = ended.finished_sending
    said.finished_recving = ended.finished_recving
    said.failed_recving = ended.failed_recving
    said.invalid_block_ids = connector.get_block_ids_with_load_errors()
    said.kv_connector_stats = connector.get_kv_connector_stats()
    said.kv_connector_worker_meta = connector.build_connector_worker_meta()
    connector.clear_connector_metadata()
    return said


class Servers:
    """Prefill and decode, which make their steps in turn."""

    def __init__(self, prefill: Engine, decode: Engine) -> None:
        self.prefill, self.decode = prefill, decode
        self._introduction: dict[str, Any] = {}

    def step(self) -> None:
        self.prefill.step()
        self.decode.step()

    def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        def stepped() -> bool:
            if not holds():
                self.step()
                return False
            return True

        until(stepped, within_s=seconds)

    def compute(
        self, name: str, prompt: Sequence[int], new: int = 1,
        asked: Mapping[str, Any] = FOR_DECODE, adapter: Any = None,
    ) -> dict[str, Any]:
        """At prefill, as a proxy asks it to. Returns what the proxy gives decode."""
        self.prefill.add(name, prompt, new, asked, adapter=adapter)
        while name not in self.prefill.ends:
            self.prefill.step()
        found: dict[str, Any] = self.prefill.params[name]
        return found

    def serve(self, name: str, prompt: Sequence[int], new: int) -> None:
        self.decode.add(name, prompt, new, self.compute(name, prompt))

    def introduction(self) -> dict[str, Any]:
        """Of prefill, as a proxy gets it with its first answer."""
        if not self._introduction:
            asked = {**FOR_DECODE, SERVER: True}
            self.prefill.add("first", [1, 2, 3], 1, asked)
            while "first" not in self.prefill.ends:
                self.prefill.step()
            params = self.prefill.params["first"]
            self._introduction = {SERVER: params.pop(SERVER)}
            self.decode.add("first", [1, 2, 3], 1, params)
            self.until(lambda: "first" in self.decode.ends)
            self.decode.loaded = 0
        return self._introduction

    def legs(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters for both, with which a proxy asks both at once."""
        drawn = {TRANSFER_ID: f"a transfer id for {name}"}
        return ({**FOR_DECODE, **drawn},
                {"do_remote_decode": False, "do_remote_prefill": True, **drawn,
                 **self.introduction()})

    def begin(self, name: str, prompt: Sequence[int], new: int, *, decode_first: bool = False
              ) -> None:
        """Ask both at once."""
        there, here = self.legs(name)
        if decode_first:
            self.decode.add(name, prompt, new, here)
            self.decode.step()
        self.prefill.add(name, prompt, new, there)
        if not decode_first:
            self.decode.add(name, prompt, new, here)

    def until_idle(self) -> None:
        self.until(lambda: not self.prefill.scheduler.requests
                   and not self.decode.scheduler.requests)
        self.prefill.settle()
        self.decode.settle()


def visible(spec: KVCacheSpec, length: int, prompt: int) -> Sequence[int]:
    """The tokens that attention of the last of so many reads, of which so many are the prompt's."""
    if isinstance(spec, ChunkedLocalAttentionSpec):
        return range((length - 1) // spec.attention_chunk_size * spec.attention_chunk_size, length)
    if isinstance(spec, RSWASpec):
        first = max(prompt, length - spec.rswa_window)
        return [*range(min(prompt, length)), *range(first, length)]
    window: int = getattr(spec, "sliding_window", None) or length
    return range(max(0, length - window), length)


def alone(monkeypatch: Any) -> None:
    """There are no other workers: vLLM's groups of ranks are not set up."""
    group = SimpleNamespace(world_size=1, rank_in_group=0, rank=0)
    for name in ("get_pp_group", "get_tp_group"):
        monkeypatch.setattr(worker, name, lambda: group)


@contextmanager
def _rank_of(
    rank: int, tp: int, told: list[int], of_all: int, spread: list[int] | None
) -> Iterator[None]:
    """Code in it runs as this worker of several. told: the objects that the first has told. of_all:
    its rank among those of all engines over which experts are spread; spread: see Engine.
    """
    def group(rank: int, size: int, told: list[int]) -> SimpleNamespace:
        def broadcast(number: int, src: int) -> int:
            if rank == src:
                told.append(number)
            return told[-1]

        return SimpleNamespace(world_size=size, rank_in_group=rank, rank=rank,
                               broadcast_object=broadcast)

    groups = {"get_tp_group": group(rank, tp, told),
              "get_world_group": group(rank, tp, told) if spread is None else
              group(of_all, WORLD, spread)}
    with ExitStack() as stack:
        for name, found in groups.items():
            stack.enter_context(patch.object(
                worker, name, lambda found=found: found, create=True))
        yield
