"""A prefill and a decode rank of SGLang without a model: its managers, senders and receivers."""

import types
from collections.abc import Iterator
from multiprocessing.connection import Connection
from time import monotonic, perf_counter, sleep
from typing import Any, Final

import numpy as np
import torch
from sglang.srt.disaggregation import utils
from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import (
    init_mooncake_transfer_engine,
)
from sglang.srt.plugins import load_plugins
from sglang.srt.runtime_context import SpawnRanks, get_parallel, publish
from sglang.srt.server_args import ServerArgs

from examples.sglang_handoff.load import START_S, Load, Outcome

POLL_S: Final = 0.0002


class Rank:
    """SGLang's runtime in this process, as far as its transfer backends look at it."""

    def __init__(self, load: Load, mode: str) -> None:
        torch.set_num_threads(1)
        load_plugins()
        arguments = ServerArgs(
            model_path="dummy", device="cpu", host="127.0.0.1", port=load.port + 1, page_size=16,
            disaggregation_mode=mode, disaggregation_bootstrap_port=load.port,
            disaggregation_transfer_backend=load.backend,
        )
        publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
        get_parallel().override_permanently(pp_group=types.SimpleNamespace(
            world_size=1, rank_in_group=0, is_first_rank=True, is_last_rank=True))
        backend = utils.TransferBackend(load.backend)
        if load.backend == "mooncake":  # a scheduler does this, for this backend
            init_mooncake_transfer_engine(hostname="127.0.0.1", gpu_id=0)
        self.load = load
        self.classes = {kind: utils.get_kv_class(backend, kind) for kind in utils.KVClassType}
        self.server = None
        if mode == "prefill":
            self.server = self.classes[utils.KVClassType.BOOTSTRAP_SERVER]("127.0.0.1", load.port)
            sleep(0.5)
        self.buffers = [torch.zeros((load.pool_pages, load.page_bytes), dtype=torch.uint8)
                        for _ in range(2 * load.layers)]
        self.metadata = utils.MetadataBuffers(
            2 * load.in_flight, hidden_size=1024, hidden_states_dtype=torch.float16,
            max_sampling_mask_tokens=0)
        args = _arguments(KVArgs(), load, self.buffers, self.metadata)
        self.manager = self.classes[utils.KVClassType.MANAGER](
            args, utils.DisaggregationMode(mode), arguments, False)
        self.sender = self.classes[utils.KVClassType.SENDER]
        self.receiver = self.classes[utils.KVClassType.RECEIVER]
        self.pages = list(range(load.pool_pages))
        self.slots = list(range(2 * load.in_flight))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.load.port}"

    def take(self) -> tuple[Any, int]:
        count = self.load.pages
        taken, self.pages = self.pages[:count], self.pages[count:]
        return np.array(taken, np.int32), self.slots.pop()

    def give(self, pages: Any, slot: int) -> None:
        self.pages += pages.tolist()
        self.slots.append(slot)

    def end(self) -> dict[str, float]:
        """What the node still counts, and then its end; other backends have no such thing."""
        node = getattr(self.manager, "node", None)
        if node is None:
            return {}
        deadline = monotonic() + 20
        left: dict[str, float] = {"": 1.0}
        while left and monotonic() < deadline:
            sleep(0.01)
            left = {name: value for name, value in node.metrics.read().items()
                    if name.startswith("num_") and value}
        self.manager.teardown()
        if self.server is not None:
            self.server.close()
        return left


def _arguments(args: Any, load: Load, buffers: list[Any], metadata: Any) -> Any:
    args.engine_rank = args.pp_rank = args.system_dp_rank = args.gpu_id = 0
    args.rust_http_port = args.ib_device = args.kv_layout = None
    args.kv_cache_dtype_str = "bfloat16"
    args.prefill_start_layer, args.prefill_end_layer = 0, load.layers
    args.kv_data_ptrs = [buffer.data_ptr() for buffer in buffers]
    args.kv_data_lens = [buffer.nbytes for buffer in buffers]
    args.kv_item_lens = [buffer[0].nbytes for buffer in buffers]
    args.kv_data_mem_kinds = ["DRAM"] * len(buffers)
    args.kv_layer_ids = list(range(load.layers)) * 2
    args.num_draft_entries = 0
    args.kv_head_num = args.total_kv_head_num = 8
    args.page_size = 16
    args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens = metadata.get_buf_infos()
    for name in ("types", "data_ptrs", "data_lens", "item_lens", "layer_ids", "dim_per_tensor",
                 "slice_outer_counts", "conv_shard_groups"):
        setattr(args, f"state_{name}", [])
    args.is_hybrid_mla_backend = False
    args.swa_kv_cache_layout = args.mla_compression_ratios = None
    return args


def prefill(load: Load, pipe: "Connection[Any, Any]") -> None:
    """The whole life of the prefill process. The parent says which rooms there are."""
    rank = Rank(load, "prefill")
    pipe.send("ready")
    outcome = Outcome()
    live: dict[int, tuple[Any, Any, int, list[Any]]] = {}
    for rooms in _told(pipe, live):
        for room in rooms:
            live[room] = _begin(rank, room)
        for room, (sender, pages, slot, chunks) in list(live.items()):
            poll = sender.poll()
            if poll == 2 and chunks:
                sender.send(chunks.pop(0))
                if load.who_aborts(room) == "prefill":
                    sender.abort()
            elif poll in (0, 4):
                _note(outcome, room, sender, poll)
                del live[room]
                rank.give(pages, slot)
            elif poll == 3 and chunks:
                sender.send(chunks.pop(0))
    outcome.left = rank.end()
    pipe.send(outcome)


def _begin(rank: Rank, room: int) -> tuple[Any, Any, int, list[Any]]:
    load = rank.load
    pages, slot = rank.take()
    for number, buffer in enumerate(rank.buffers):
        for index, page in enumerate(pages.tolist()):
            buffer.numpy()[page] = load.page(room, number, index)
    rank.metadata.bootstrap_room[slot, 0] = room
    rank.metadata.output_ids[slot, 0] = room & 0x7FFFFFFF
    sender = rank.sender(rank.manager, rank.address, room)
    sender.init(len(pages), slot)
    return sender, pages, slot, np.array_split(pages, load.chunks)


def decode(load: Load, pipe: "Connection[Any, Any]") -> None:
    """The whole life of the decode process: it says which rooms are done."""
    rank = Rank(load, "decode")
    deadline = monotonic() + START_S
    while not rank.manager.try_ensure_parallel_info(rank.address):
        if monotonic() > deadline:
            raise TimeoutError("the prefill server has not registered")
        sleep(0.1)
    pipe.send("ready")
    outcome = Outcome()
    live: dict[int, tuple[Any, Any, int, float]] = {}
    began = perf_counter()
    for rooms in _told(pipe, live):
        for room in rooms:
            pages, slot = rank.take()
            rank.metadata.clear_slot(slot)
            receiver = rank.receiver(rank.manager, rank.address, room)
            receiver.init(0)
            receiver.send_metadata(pages, slot)
            live[room] = receiver, pages, slot, perf_counter()
            if load.who_aborts(room) == "decode":
                receiver.abort()
        for room, (receiver, pages, slot, opened) in list(live.items()):
            poll = receiver.poll()
            if poll not in (0, 4):
                continue
            if poll == 4:
                outcome.latencies.append(perf_counter() - opened)
                _verify(rank, room, pages, slot, outcome)
            _note(outcome, room, receiver, poll)
            del live[room]
            rank.give(pages, slot)
            outcome.seconds = perf_counter() - began
            pipe.send(room)
    outcome.left = rank.end()
    pipe.send(outcome)


def _told(pipe: "Connection[Any, Any]", live: dict[int, Any]) -> Iterator[list[int]]:
    """The rooms that the parent names, as they come, until it says that these were all."""
    is_last = False
    while live or not is_last:
        rooms: list[int] = []
        while not is_last and pipe.poll(0 if live else 0.05):
            told = pipe.recv()
            is_last = told is None
            rooms += told or []
        yield rooms
        sleep(POLL_S)


def _note(outcome: Outcome, room: int, end: Any, poll: int) -> None:
    if poll == 4:
        outcome.succeeded.append(room)
        end.clear()
        return
    try:
        end.failure_exception()
    except Exception as error:
        outcome.failed[room] = str(error)


def _verify(rank: Rank, room: int, pages: Any, slot: int, outcome: Outcome) -> None:
    right = int(rank.metadata.bootstrap_room[slot, 0]) == room
    right = right and int(rank.metadata.output_ids[slot, 0]) == room & 0x7FFFFFFF
    for number, buffer in enumerate(rank.buffers):
        for index, page in enumerate(pages.tolist()):
            want = rank.load.page(room, number, index)
            right = right and np.array_equal(buffer.numpy()[page], want)
    if not right:
        outcome.wrong.append(room)
