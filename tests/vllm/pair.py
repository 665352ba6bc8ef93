"""Both halves of the connector on two servers, without vLLM: schedulers, workers, real nodes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import sleep
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pdproto.engine.engines import open_sink, open_source
from pdproto.items.components import Component, Heads
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.shares import TpRank
from pdproto.node.prefill.keeps import NO_PLACES, Places
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.settings import Settings
from pdproto.vllm.blocks import NULL_BLOCK, LayerGroup
from pdproto.vllm.loading import Failure, LoadingScheduler, LoadingWorker, Loads
from pdproto.vllm.offering import OfferingScheduler
from pdproto.vllm.orders import Orders
from pdproto.vllm.ranks import DecodeRank
from pdproto.vllm.rooms import ToldRooms
from pdproto.vllm.seals import Seals
from pdproto.vllm.sending import OfferingWorker
from tests.waiting import until

ALONE: Final = TpRank(1, 0)
HOST: Final = "127.0.0.1"
BLOCKS: Final = 32
BLOCK_BYTES: Final = 640
LAYERS: Final = 2  # of all stages of a pipeline together
FULL: Final = (LayerGroup(4),)
LAYOUT: Final = {"model": "tiny", "KV cache dtype": "float32", "KV cache layout": "LBHNC"}
FOR_DECODE: Final = {"do_remote_decode": True, "do_remote_prefill": False}


SEALS: Final = Seals(Settings())  # of servers without keys, on this host


def request(
    name: str, tokens: int, params: dict[str, Any] | None, prompt: Sequence[int] | None = None
) -> Any:
    """As much of a request of vLLM as the halves read. prompt: its tokens, if they matter."""
    return SimpleNamespace(
        request_id=name, num_prompt_tokens=tokens, kv_transfer_params=params,
        prompt_token_ids=list(range(tokens) if prompt is None else prompt), prompt_embeds=None,
        lora_request=None, mm_features=[], cache_salt=None, max_tokens=1)


def caches(groups: int, seed: int | None) -> list[Component]:
    """The KV cache of each group; zeros without a seed."""
    def buffer(*of: int) -> np.ndarray[Any, Any]:
        shape = BLOCKS, BLOCK_BYTES
        if seed is None:
            return np.zeros(shape, np.uint8)
        return np.random.default_rng([seed, *of]).integers(0, 256, shape, np.uint8)
    return [Component(f"group {group}", tuple(buffer(group, layer) for layer in range(LAYERS)),
                      tuple(range(LAYERS)), Heads(4, 1)) for group in range(groups)]


def of_stage(components: Sequence[Component], stage: int, stages: int) -> list[Component]:
    """The layers of one stage of a pipeline."""
    each = LAYERS // stages
    chosen = slice(stage * each, (stage + 1) * each)
    return [replace(one, buffers=one.buffers[chosen], layers=one.layers[chosen])
            for one in components]


class Told:
    """Who of the workers has told vLLM of which requests: vLLM hears when all of them have."""

    def __init__(self, workers: int) -> None:
        self._workers: Final = workers
        self._told: Final[dict[str, set[int]]] = {}

    def by_all(self, worker: int, names: set[str]) -> set[str]:
        """Note what a worker says. Returns the requests of which it is the last to tell."""
        over = set()
        for name in names:
            told = self._told.setdefault(name, set())
            assert worker not in told, f"worker {worker} tells twice of {name}"
            told.add(worker)
            if len(told) == self._workers:
                del self._told[name]
                over.add(name)
        return over


class Prefill:
    """A prefill server, with a rank for each stage. kept: blocks of requests that vLLM waits to
    hear of.
    """

    def __init__(
        self, closing: ExitStack, groups: Sequence[LayerGroup] = FULL,
        layout: dict[str, str] = LAYOUT,
        waits: dict[str, float] | None = None, engine: str = "tcp", stages: int = 1,
        places: Places = NO_PLACES,
    ) -> None:
        self.caches: Final = caches(len(groups), 7)
        self._places: Final = places
        self.scheduler: Final = OfferingScheduler(groups, layout, SEALS)
        self._groups: Final = groups
        self.workers: Final = [self._worker(closing, stage, stages, waits, engine)
                               for stage in range(stages)]
        self.scheduler.ranks = {(stage, 0): (worker.node.name, worker.node.endpoint)
                                for stage, worker in enumerate(self.workers)}
        self.kept: Final[set[str]] = set()
        self._told: Final = Told(stages)
        self._orders = Orders()

    def _worker(
        self, closing: ExitStack, stage: int, stages: int, waits: dict[str, float] | None,
        engine: str,
    ) -> OfferingWorker:
        told, components = ToldRooms(), of_stage(self.caches, stage, stages)
        data_path = SourceItems(components, ALONE, open_source(engine, HOST))
        node = PrefillNode(f"prefill-{stage}", data_path, waits=waits, refuses=told.refusal,
                           places=self._places)
        closing.callback(node.close)
        return OfferingWorker(node, told, data_path, self._groups,
                              [one.item_bytes for one in components])

    def finish(self, name: str, tokens: int, *blocks: list[int],
               complete: bool = True) -> dict[str, Any] | None:
        """A request has ended. Returns what the proxy is told. The workers hear at the next step.
        """
        keeps, params = self.scheduler.finished(
            request(name, tokens, dict(FOR_DECODE)), blocks, self._orders, complete=complete)
        if keeps:
            self.kept.add(name)
        return params

    def step(self) -> None:
        orders, self._orders = self._orders, Orders()
        for place, worker in enumerate(self.workers):
            worker.take(orders)
            worker.computed(orders)
            for name in self._told.by_all(place, worker.over()):
                self.kept.remove(name)  # KeyError: told twice, or of what nobody keeps


class Decode:
    """A decode server, with a rank for each stage. awaited: requests that vLLM waits to hear of.
    heard: whether each failed.
    """

    def __init__(
        self, closing: ExitStack, groups: Sequence[LayerGroup] = FULL,
        layout: dict[str, str] = LAYOUT,
        waits: dict[str, float] | None = None, engine: str = "tcp", stages: int = 1,
    ) -> None:
        self.caches: Final = caches(len(groups), None)
        self.scheduler: Final = LoadingScheduler(groups, layout, SEALS)
        self.workers: Final = [
            self._worker(closing, DecodeRank(ALONE, stage, stages), waits, engine)
            for stage in range(stages)]
        self.awaited: Final[set[str]] = set()
        self.heard: Final[dict[str, bool]] = {}
        self.bad_blocks: Final[set[int]] = set()
        self._failed: Final[dict[str, Failure]] = {}
        self._told: Final = Told(stages)
        self._requests: Final[dict[str, Any]] = {}
        self._orders = Orders()

    def _worker(
        self, closing: ExitStack, rank: DecodeRank, waits: dict[str, float] | None, engine: str
    ) -> LoadingWorker:
        components = of_stage(self.caches, rank.stage, rank.stages)
        data_path = SinkItems(components, ALONE, open_sink(engine, HOST))
        node = DecodeNode(rank.name(), data_path, waits=waits)
        closing.callback(node.close)
        return LoadingWorker(node, data_path, rank)

    def arrive(self, name: str, tokens: int, params: dict[str, Any] | None) -> None:
        told = {**params} if params is not None else None
        self._requests[name] = request(name, tokens, told)
        self.scheduler.arrived(self._requests[name], self._orders)

    def place(self, name: str, *blocks: list[int], computed: int = 0) -> int:
        """The request gets its blocks. Returns how many tokens are loaded."""
        one = self._requests[name]
        external, is_asynchronous = self.scheduler.matched(one, computed)
        assert is_asynchronous == bool(external)
        self.scheduler.placed(one, blocks, external, self._orders)
        if external:
            self.awaited.add(name)
        return external

    def finish(self, name: str) -> None:
        """The request has ended, however it has. vLLM keeps its blocks while it waits to hear."""
        self.scheduler.finished(self._requests.pop(name), self._orders)

    def step(self) -> Loads:
        """Returns what all workers together have told."""
        orders, self._orders = self._orders, Orders()
        over = set()
        for place, worker in enumerate(self.workers):
            worker.take(orders)
            loads = worker.over()
            self._failed.update(loads.failed)
            self.bad_blocks.update(loads.bad_blocks)
            over |= self._told.by_all(place, loads.over)
        for name in over:
            self.awaited.remove(name)  # KeyError: told twice, or of what nobody waits for
            self.heard[name] = name in self._failed
        return Loads(over, {name: self._failed[name] for name in self._failed.keys() & over})


class Servers:
    """One of each. stages: of prefill's pipeline, and of decode's."""

    def __init__(self, closing: ExitStack, groups: Sequence[LayerGroup] = FULL, engine: str = "tcp",
                 stages: tuple[int, int] = (1, 1), places: Places = NO_PLACES,
                 **waits: float) -> None:
        there, here = stages
        self.prefill = Prefill(closing, groups, waits=waits, engine=engine, stages=there,
                               places=places)
        self.decode: Final = Decode(closing, groups, waits=waits, engine=engine, stages=here)

    def step(self) -> None:
        self.prefill.step()
        self.decode.step()

    def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        def stepped() -> bool:
            self.step()
            return holds()
        until(stepped, within_s=seconds)

    def settle(self) -> None:
        """Go on for a while: whatever comes late is heard."""
        for _ in range(60):
            self.step()
            sleep(0.005)

    def check(self, *loads: dict[int, int], group: int = 0) -> None:
        """That these blocks of prefill have come to those of decode, and nothing else."""
        theirs, ours = self.prefill.caches[group], self.decode.caches[group]
        for there, here in zip(theirs.buffers, ours.buffers, strict=True):
            expected = np.zeros_like(here)
            for source, target in (pair for load in loads for pair in load.items()):
                expected[target] = there[source]
            assert (here == expected).all()


__all__ = ["FULL", "LAYOUT", "NULL_BLOCK", "Decode", "Prefill", "Servers", "request", "until"]
