"""SGLang's own managers of a prefill and of decode ranks in this process, each with its trace.

Managers, pools, senders, receivers and the bootstrap server are real, with their ZeroMQ, their
HTTP, and the engine that moves the bytes. SGLang's own scheduler code describes the pools to the
managers. There is no model, and only the part of the scheduler that Decode
has. A script may hold back a frame or a write: a slow network, or a slow adapter.
"""

import importlib
import logging
import os
import socket
import sys
import threading
import types
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import Any, Final

from examples.servers.serving import free_port
from examples.sglang_handoff import without_torchvision

os.environ.update(
    SGLANG_HOST_IP="127.0.0.1", MOONCAKE_PROTOCOL="tcp", MC_FORCE_TCP="1", GLOG_minloglevel="3")
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
without_torchvision.install()

import numpy as np  # noqa: E402 - SGLang reads the settings above when it is imported
import torch  # noqa: E402
from sglang.srt.disaggregation import utils  # noqa: E402
from sglang.srt.disaggregation.decode import DecodeRequest  # noqa: E402
from sglang.srt.distributed.device_communicators import (  # noqa: E402
    mooncake_transfer_engine as mooncake,
)
from sglang.srt.runtime_context import SpawnRanks, get_parallel, publish  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402

from examples.sglang_handoff.load import Load, Seat  # noqa: E402
from examples.sglang_handoff.model import manager_of  # noqa: E402
from examples.sglang_handoff.pools import kv_buffers, memory_of, write_config  # noqa: E402
from examples.sglang_handoff.request import request_of  # noqa: E402
from lab.sglang_0_5_23.install import attach  # noqa: E402
from lab.sglang_0_5_23.ledger import word, wrap  # noqa: E402
from lab.sglang_0_5_23.registry import RegistryTrace  # noqa: E402

HOST: Final = "127.0.0.1"
POOL: Final = 16  # pages, and metadata slots
SHAPE: Final = Load(layers=2, page_bytes=512, pages=POOL // 4, in_flight=2)  # of each rank
SOON_S: Final = 10.0
ABORT: Final = b"ABORT"


def wait(holds: Callable[[], Any], seconds: float = SOON_S) -> bool:
    """Whether the condition holds within that time."""
    deadline = monotonic() + seconds
    while not holds():
        if monotonic() > deadline:
            return False
        sleep(0.002)
    return True


class Gate:
    """Steps that come to a shut gate wait there. reached: the first one has come."""

    def __init__(self) -> None:
        self._open: Final = threading.Event()
        self.reached: Final = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self.reached.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def around(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self.reached.set()
        self._open.wait(3 * SOON_S)
        return original(*given, **named)


class Mail:
    """Frames under way, which a script may hold back, and then release or lose."""

    def __init__(self) -> None:
        self.is_held = False
        self.held: Final[list[Callable[[], Any]]] = []

    def around(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if not self.is_held:
            return original(*given, **named)
        self.held.append(partial(original, *given, **named))
        return True

    def aborts(self, original: Callable[..., Any], frames: Any) -> Any:
        return self.around(original, frames) if frames[0] == ABORT else original(frames)

    def let_go(self) -> None:
        self.is_held = False
        while self.held:
            self.held.pop(0)()


def in_host_memory(_: object, buffers: int) -> list[str]:
    """The kind of memory of these buffers, as NIXL names it."""
    return ["DRAM"] * buffers


class World:
    """The settings of this process, a bootstrap server, and where traces go."""

    def __init__(self, backend: str = "mooncake", *, traced: bool = True) -> None:
        torch.set_num_threads(1)
        port = free_port()
        self.traced: Final = traced
        self.backend: Final = backend
        self.folder: Final = Path(mkdtemp(prefix="pdproto-peer-"))
        self.address: Final = f"{HOST}:{port}"
        write_config(SHAPE, self.folder)
        self.arguments: Final = ServerArgs(
            model_path=str(self.folder), device="cpu", host=HOST, port=port + 1, page_size=16,
            disaggregation_mode="prefill", disaggregation_bootstrap_port=port,
            disaggregation_transfer_backend=backend)
        publish(self.arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
        get_parallel().override_permanently(pp_group=types.SimpleNamespace(
            world_size=1, rank_in_group=0, is_first_rank=True, is_last_rank=True))
        kind = utils.TransferBackend(backend)
        self.classes: Final = {one: utils.get_kv_class(kind, one) for one in utils.KVClassType}
        self.server: Final = self.classes[utils.KVClassType.BOOTSTRAP_SERVER](HOST, port)
        if traced:
            RegistryTrace(self.server, (self.folder / "registry.jsonl").open("ab", buffering=0))
        self.ranks: Final[list[Rank]] = []  # alive for as long as threads write into their pools
        wait(lambda: _listens(port))

    def traces(self) -> list[Path]:
        """The managers of the ranks."""
        return sorted(self.folder.glob("*-*.jsonl"))

    def registry_trace(self) -> list[Path]:
        return sorted(self.folder.glob("registry.jsonl"))


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((HOST, port)) == 0


class Rank:
    """One manager, with pools of its own, and an engine of its own as in a process of its own."""

    def __init__(self, world: World, mode: str, *, is_mla: bool = False) -> None:
        self.world: Final = world
        world.ranks.append(self)
        load, seat = replace(SHAPE, backend=world.backend, latent=is_mla), Seat(mode)
        memory = memory_of(load, seat)
        self.buffers: Final = [buffer.items for buffer in kv_buffers(load, seat, memory)]
        self.metadata: Final = utils.MetadataBuffers(
            POOL, hidden_size=64, hidden_states_dtype=torch.float16, max_sampling_mask_tokens=0)
        if world.backend == "mooncake":
            mooncake._mooncake_transfer_engine = None
            mooncake.init_mooncake_transfer_engine(hostname=HOST, gpu_id=0)
        else:  # SGLang describes no memory here, and this backend then takes it for a GPU's
            vars(importlib.import_module("sglang.srt.disaggregation.nixl.conn"))[
                "_normalize_kv_mem_kinds"] = in_host_memory
        self.manager: Final = manager_of(load, seat, memory, self.metadata, world.arguments)
        self._slow_down()
        if world.traced:
            trace = world.folder / f"{mode}-{self.manager.rank_port}.jsonl"
            attach(self.manager, trace.open("ab", buffering=0))
        self._hold_back()

    def _slow_down(self) -> None:
        """Insert a delay inside a step, after the trace has begun it."""

    def _hold_back(self) -> None:
        """Insert a delay before a step begins."""

    def status(self, room: int) -> str:
        """The status of the room in SGLang's own table."""
        return word(self.manager.request_status.get(room))

    def page(self, number: int) -> int:
        """The byte that fills a page. Raises ValueError if the page has several values."""
        found = {int(byte) for buffer in self.buffers for byte in buffer[number].unique()}
        if len(found) > 1:
            raise ValueError(f"page {number} is a mixture of {sorted(found)}")
        return found.pop()


class Prefill(Rank):
    """writes: a gate for writes of KV. sent: its frames. aborts: a gate for aborts that arrive."""

    def __init__(self, world: World, *, is_mla: bool = False) -> None:
        super().__init__(world, "prefill", is_mla=is_mla)

    def _slow_down(self) -> None:
        self.writes = Gate()
        self.sent = Mail()
        wrap(self.manager, "send_kvcache", self.writes.around)
        wrap(self.manager, "_send_multipart_locked", self.sent.around)

    def _hold_back(self) -> None:
        self.aborts = Mail()
        wrap(self.manager, "_handle_abort_notification", self.aborts.aborts)

    def sender(self, room: int, *, pages: int = 1, slot: int = 0) -> Any:
        found = self.world.classes[utils.KVClassType.SENDER](
            self.manager, self.world.address, room)
        found.init(pages, slot)
        return found

    def computed(self, room: int, page: int, byte: int, *, slot: int = 0) -> Any:
        """The result of a forward pass: KV in a page, and a row of metadata."""
        for buffer in self.buffers:
            buffer[page] = byte
        self.metadata.bootstrap_room[slot, 0] = room
        return np.array([page], np.int32)


class Decode(Rank):
    """With the scheduler's work for a failed request: tell prefill, then hold the pages.

    rank, ranks: its number among the tensor ranks of its server. More of them than prefill has
    need is_mla, where all of them get the same KV.
    """

    def __init__(self, world: World, *, rank: int = 0, ranks: int = 1) -> None:
        super().__init__(world, "decode", is_mla=ranks > 1)
        self.manager.kv_args.engine_rank = self.manager.attn_tp_rank = rank
        self.manager.attn_tp_size = ranks
        if not wait(lambda: self.manager.try_ensure_parallel_info(world.address)):
            raise TimeoutError("the bootstrap server does not answer")

    def receiver(self, room: int) -> Any:
        found = self.world.classes[utils.KVClassType.RECEIVER](
            self.manager, self.world.address, room)
        found.init(0)
        return found

    def request(self, receiver: Any, *, slot: int = 0) -> DecodeRequest:
        """The scheduler's note of it."""
        return DecodeRequest(request_of(receiver.bootstrap_room, [1], "decode"), receiver,
                             metadata_buffer_index=slot)

    def publish(self, receiver: Any, page: int, *, slot: int = 0) -> None:
        self.metadata.clear_slot(slot)
        receiver.send_metadata(np.array([page], np.int32), slot)

    def fail(self, receiver: Any) -> str:
        """As in pop_transferred: take the failure, and make sure that prefill is told. Returns the
        reason.
        """
        why = ""
        try:
            receiver.failure_exception()
        except Exception as error:
            why = str(error)
        receiver.ensure_abort_notified(force_arm=True)
        return why

    def may_release(self, receiver: Any) -> bool:
        """As in resolve_deferred_releases, without its clock."""
        return bool(self.manager.is_abort_release_safe(
            receiver.bootstrap_room, len(receiver.bootstrap_infos)))

    def release(self, receiver: Any) -> None:
        """As in _do_release: the pages may be given to another request."""
        self.manager.clear_deferred_abort_state(receiver.bootstrap_room)


def leave(status: int) -> None:
    """End the process at once: SGLang's threads never end, and NIXL crashes at a normal end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
