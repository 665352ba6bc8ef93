"""Prefill and decode ranks of SGLang without a model: its managers, senders and receivers."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from sglang.srt.disaggregation import utils
from sglang.srt.disaggregation.common.conn import CommonKVReceiver
from sglang.srt.disaggregation.decode import DecodePreallocQueue
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import (
    init_mooncake_transfer_engine,
)
from sglang.srt.plugins import load_plugins
from sglang.srt.runtime_context import SpawnRanks, get_parallel, publish
from sglang.srt.server_args import ServerArgs
from sglang.srt.utils.network import NetworkAddress

from examples.sglang_handoff.load import HEADS, START_S, STATE_ITEMS, Load, Outcome, Seat
from examples.sglang_handoff.model import filled, keep_memory, manager_of, name_memory
from examples.sglang_handoff.pools import memory_of
from examples.sglang_handoff.request import request_of

POLL_S: Final = 0.0002


class Group:
    """The part of SGLang's groups of ranks that its transfer backends use."""

    def __init__(self, numbers: list[int], number: int) -> None:
        self._group = dist.new_group(numbers) if len(numbers) > 1 else None
        self._first = numbers[0]
        self.world_size, self.rank_in_group = len(numbers), numbers.index(number)
        self.is_first_rank = self.rank_in_group == 0
        self.is_last_rank = self.rank_in_group == self.world_size - 1

    def broadcast_object(self, told: Any, src: int = 0) -> Any:
        assert src == 0  # noqa: S101 - the backends ask for nothing else
        listed = [told]
        if self._group is not None:
            dist.broadcast_object_list(listed, self._first, group=self._group)
        return listed[0]


def _join(seat: Seat, load: Load) -> None:
    """Tell SGLang which rank this is, as its launcher does."""
    mine = [one for one in load.seats if one.side == seat.side]
    if len(mine) > 1:
        port = load.port + (50 if seat.side == "prefill" else 51)
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=seat.number,
                                world_size=len(mine))
    stages = [[one.number for one in mine if (one.dp, one.cp, one.tp) == place]
              for place in sorted({(one.dp, one.cp, one.tp) for one in mine})]
    groups = {numbers[0]: Group(numbers, seat.number) if seat.number in numbers
              else len(numbers) > 1 and dist.new_group(numbers) for numbers in stages}
    stage = next(groups[numbers[0]] for numbers in stages if seat.number in numbers)
    is_prefill = seat.side == "prefill"
    width = load.prefill_tp * load.dp * load.cp if is_prefill else load.decode_tp
    get_parallel().override_permanently(
        tp_size=width, moe_tp_size=width,
        tp_rank=(seat.dp * load.cp + seat.cp) * load.prefill_tp + seat.tp,
        pp_group=stage, pp_size=load.pp if is_prefill else load.decode_pp, pp_rank=seat.pp,
        world_group=Group([one.number for one in mine], seat.number),
        attn_tp_size=load.prefill_tp if is_prefill else load.decode_tp, attn_tp_rank=seat.tp,
        attn_dp_size=load.dp if is_prefill else 1, attn_dp_rank=seat.dp,
        attn_cp_size=load.cp if is_prefill else 1, attn_cp_rank=seat.cp,
        num_dp_ranks=load.dp if is_prefill else 1, load_balance_method="follow_bootstrap_room",
    )


def published(load: Load, seat: Seat, model: Path) -> ServerArgs:
    """The arguments of this rank's server, once SGLang's runtime in this process knows them."""
    torch.set_num_threads(1)
    load_plugins()
    described = ServerArgs(
        model_path=str(model), device="cpu", host=load.host_of(seat.side), port=load.port + 1,
        page_size=load.page(seat.side), disaggregation_mode=seat.side,
        disaggregation_bootstrap_port=load.port, disaggregation_transfer_backend=load.backend,
    )
    publish(described, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
    _join(seat, load)
    return described


def metadata_of(load: Load) -> utils.MetadataBuffers:
    """The metadata rows of a rank."""
    return utils.MetadataBuffers(
        load.slots, hidden_size=1024, hidden_states_dtype=torch.float16,
        max_sampling_mask_tokens=0)


def _await_listener(host: str, port: int) -> None:
    """Wait until the bootstrap server listens: SGLang's own starts in a thread."""
    deadline = monotonic() + START_S
    while True:
        try:
            socket.create_connection((host, port), timeout=1.0).close()
            return
        except OSError:
            if monotonic() > deadline:
                raise
        sleep(0.02)


class Rank:
    """The part of SGLang's runtime in this process that its transfer backends read."""

    def __init__(self, load: Load, seat: Seat, model: Path) -> None:
        described = published(load, seat, model)
        backend = utils.TransferBackend(load.backend)
        if load.backend == "mooncake":  # a scheduler does this, for this backend
            init_mooncake_transfer_engine(hostname=load.host_of(seat.side), gpu_id=0)
        self.load, self.seat = load, seat
        self.classes = {kind: utils.get_kv_class(backend, kind) for kind in utils.KVClassType}
        self.server = None
        if str(seat) == "prefill0":
            server = self.classes[utils.KVClassType.BOOTSTRAP_SERVER]
            self.server = server(load.host_of("prefill"), load.port)
            _await_listener(load.host_of("prefill"), load.port)
        memory = memory_of(load, seat)
        self.kv = filled(load, seat, memory, "kv")
        self.states = [filled(load, seat, memory, name) for name in load.states]
        for buffer in self.kv.buffers if load.timed else ():
            buffer.items.fill_(1)  # untouched memory counts as none
        self.metadata = metadata_of(load)
        self.manager = manager_of(load, seat, memory, self.metadata, described)
        self.pages = list(range(load.pool_pages(seat.side)))
        self.slots = list(range(load.slots))

    @property
    def address(self) -> str:
        return str(NetworkAddress(self.load.host_of("prefill"), self.load.port).to_host_port_str())

    def take(self, count: int) -> tuple[list[int], int]:
        taken, self.pages = self.pages[:count], self.pages[count:]
        return taken, self.slots.pop()

    def give(self, request: "Running | Receiving") -> None:
        self.pages += request.pages
        self.slots.append(request.slot)

    def state_items(self, slot: int) -> list[Any]:
        """The pages of a request, for each state."""
        return [np.arange(slot * count, (slot + 1) * count, dtype=np.int32)
                for count in (STATE_ITEMS[of.name] for of in self.states)]

    def sender_of(self, room: int) -> Any:
        """The object that SGLang's prefill makes for a request."""
        request = self.request(room)
        queue: Any = SimpleNamespace(
            kv_manager=self.manager, transfer_backend=utils.TransferBackend(self.load.backend),
            bootstrap_port=self.load.port, _check_if_req_exceed_kv_capacity=lambda _: False,
            _process_req=lambda _: None)
        PrefillBootstrapQueue.create_sender(queue, request, HEADS)
        return request.disagg_kv_sender

    def waiting_of(self, room: int) -> Any:
        """The object that SGLang's decode makes for a request, with its receiver."""
        queue: Any = SimpleNamespace(kv_manager=self.manager, queue=[],
                                     transfer_backend=utils.TransferBackend(self.load.backend))
        DecodePreallocQueue._create_receiver_and_enqueue(queue, self.request(room))
        return queue.queue[0]

    def request(self, room: int) -> Any:
        """SGLang's request, with a prompt of one token."""
        return request_of(room, [room], self.seat.side, host=self.load.host_of("prefill"),
                          port=self.load.port, disagg_prefill_dp_rank=self.load.names(room))

    def resolved(self, room: int) -> int | None:
        """The data-parallel rank of a room, as SGLang's decode finds it without a query."""
        queue: Any = SimpleNamespace(kv_manager=self.manager)
        rank: int | None = DecodePreallocQueue._resolve_prefill_dp_rank(queue, self.request(room))
        return rank

    def end(self) -> dict[str, float]:
        """Close the node; return its last counts and slow turns. Other backends have none."""
        node = getattr(self.manager, "node", None)
        if node is None:
            return {}
        deadline = monotonic() + 20
        left: dict[str, float] = {"": 1.0}
        while left and monotonic() < deadline:
            sleep(0.01)
            left = {name: value for name, value in node.metrics.read().items()
                    if name.startswith("num_") and value}
        if slow := node.metrics.read()["slow_turns"]:
            left["slow_turns"] = slow
        self.manager.teardown()
        if self.server is not None:
            self.server.close()
        return left


@dataclass(slots=True)
class Running:
    """A request that runs on this prefill rank. chunks: the pages to send. left: tokens to send."""

    sender: Any
    pages: list[int]
    slot: int
    chunks: list[Any] = field(default_factory=list)
    left: int = 0
    agreed: bool = False
    begun: bool = False


def prefill(seat: Seat, load: Load, model: Path, pipe: "Connection[Any, Any]") -> None:
    """The whole life of a prefill process. The parent names the rooms."""
    rank = Rank(load, seat, model)
    pipe.send("ready")
    outcome, spent = Outcome(), process_time()
    live: dict[int, Running] = {}
    for rooms in _told(pipe, live):
        for room, request in list(live.items()):
            (poll,) = utils._poll_with_failure_injection([request.sender])
            if poll == 2 and not request.begun and _agree(rank, room, request, pipe):
                _meet(rank, room, request)
            if poll in (2, 3) and request.chunks:
                _send(rank, room, request)
            elif poll in (0, 4):
                _note(outcome, room, request.sender, poll)
                rank.give(live.pop(room))
        # After the ends: decode may have named these rooms for memory that ends now.
        for room in rooms:
            if room > 0:
                live[room] = _begin(rank, room)
            elif -room in live:
                live[-room].agreed = True  # the first stage has announced the room
    outcome.processor_s = process_time() - spent
    outcome.left = rank.end()
    pipe.send(outcome)


def _begin(rank: Rank, room: int) -> Running:
    load = rank.load
    pages, slot = rank.take(load.pages_of("prefill"))
    if not load.timed:
        rank.kv.fill(load, room, pages)
    for of, items in zip(rank.states, rank.state_items(slot), strict=True):
        of.fill(load, room, items.tolist())
    rank.metadata.bootstrap_room[slot, 0] = room
    rank.metadata.output_ids[slot, 0] = room & 0x7FFFFFFF
    return Running(rank.sender_of(room), pages, slot)


def _agree(rank: Rank, room: int, request: Running, pipe: "Connection[Any, Any]") -> bool:
    """The first stage of a pipeline waits for all requests, and then tells the others, as SGLang's
    scheduler does.
    """
    if rank.load.pp == 1 or request.agreed:
        return True
    if rank.seat.pp == 0 and int(request.sender.poll_pp_consensus()) == 2:
        request.agreed = True
        pipe.send(room)
    return request.agreed


def _meet(rank: Rank, room: int, request: Running) -> None:
    """Decode has come: send the pages that it has not cached."""
    load = rank.load
    first, size = request.sender.pop_decode_prefix_len(), load.page("prefill")
    told = load.cached(room) * load.page("decode")
    assert first == told // size * size  # noqa: S101 - what decode has said
    request.left = load.request_tokens - first
    pages = np.array(request.pages[first // size:], np.int32)
    request.sender.init(len(pages), request.slot)
    request.chunks = np.array_split(pages, min(load.chunks_of(room), max(1, len(pages))))
    request.begun = True


def _send(rank: Rank, room: int, request: Running) -> None:
    chunk = request.chunks.pop(0)
    states = rank.state_items(request.slot) if not request.chunks and rank.states else None
    tokens = min(len(chunk) * rank.load.page("prefill"), request.left)
    request.left -= tokens
    request.sender.send(chunk, states, num_kv_tokens=tokens)
    if rank.load.who_aborts(room) == "prefill" and not request.chunks:
        request.sender.abort()


@dataclass(slots=True)
class Receiving:
    """A request that this decode rank waits for. waiting: SGLang's DecodeRequest."""

    waiting: Any
    pages: list[int]
    slot: int
    opened: float
    begun: bool = False

    @property
    def receiver(self) -> Any:
        return self.waiting.kv_receiver


def decode(seat: Seat, load: Load, model: Path, pipe: "Connection[Any, Any]") -> None:
    """The whole life of a decode process: it reports each room that is done."""
    rank = Rank(load, seat, model)
    deadline = monotonic() + START_S
    while not rank.manager.try_ensure_parallel_info(rank.address):
        if monotonic() > deadline:
            raise TimeoutError("the prefill server has not registered")
        sleep(0.1)
    pipe.send("ready")
    outcome, spent = Outcome(), process_time()
    live: dict[int, Receiving] = {}
    began = perf_counter()
    for rooms in _told(pipe, live):
        for room in rooms:
            pages, slot = rank.take(load.pages_of("decode") - load.cached(room))
            rank.metadata.bootstrap_room[slot] = 0
            live[room] = Receiving(rank.waiting_of(room), pages, slot, perf_counter())
            if room == load.warm + 1:
                began = live[room].opened
        _resolve(rank, live)
        for room, request in list(live.items()):
            (poll,) = utils._poll_with_failure_injection([request.receiver])
            if poll not in (0, 4):
                continue
            if poll == 4:
                outcome.landed[room] = monotonic()
                if room > load.warm:
                    outcome.latencies[room] = perf_counter() - request.opened
                _verify(rank, room, request, outcome)
            _note(outcome, room, request.receiver, poll)
            if poll != 4:
                keep_memory(rank.manager, request.receiver)
            rank.give(live.pop(room))
            outcome.seconds = perf_counter() - began
            pipe.send(room)
    outcome.processor_s = process_time() - spent
    outcome.left = rank.end()
    pipe.send(outcome)


def _resolve(rank: Rank, live: dict[int, Receiving]) -> None:
    """Begin the waiting rooms whose data-parallel rank is known."""
    load = rank.load
    fresh = [room for room, request in live.items() if not request.begun]
    known = {str(room): rank.resolved(room) for room in fresh}
    asked = [room for room in fresh if known[str(room)] is None]
    if asked:
        known |= dict.fromkeys(map(str, asked))
        known |= CommonKVReceiver.query_prefill_dp_ranks(rank.address, asked)
    for room in fresh:
        if known[str(room)] is None:
            continue
        request = live[room]
        request.begun = True
        request.receiver.init(known[str(room)])
        states = rank.state_items(request.slot) if rank.states else None
        name_memory(load, request, states, load.cached(room) * load.page("decode"))
        if load.who_aborts(room) == "decode":
            request.receiver.abort()


def _told(pipe: "Connection[Any, Any]", live: dict[int, Any]) -> Iterator[list[int]]:
    """The rooms that the parent names, as they come, until it has named the last.

    A negative one is a room that the first stage of the pipeline has begun.
    """
    is_last = False
    while live or not is_last:
        rooms: list[int] = []
        while not is_last and pipe.poll(0 if live or rooms else 0.05):
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


def _verify(rank: Rank, room: int, request: Receiving, outcome: Outcome) -> None:
    load, slot = rank.load, request.slot
    right = int(rank.metadata.bootstrap_room[slot, 0]) == room
    right = right and int(rank.metadata.output_ids[slot, 0]) == room & 0x7FFFFFFF
    right = right and (load.timed or rank.kv.holds(load, room, request.pages, load.cached(room)))
    for of, items in zip(rank.states, rank.state_items(slot), strict=True):
        right = right and of.holds(load, room, items.tolist())
    if not right:
        outcome.wrong.append(room)
