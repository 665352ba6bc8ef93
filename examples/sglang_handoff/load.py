"""What is handed over, what each process has seen of it, and how a process begins."""

from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

from examples.sglang_handoff import without_torchvision

START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is handed over. abort_every: each n-th room is aborted by one of the sides."""

    backend: str
    requests: int
    in_flight: int
    layers: int
    page_bytes: int
    pages: int  # of a request
    port: int
    abort_every: int = 0
    chunks: int = 1

    @property
    def pool_pages(self) -> int:
        return self.pages * self.in_flight * 2

    def page(self, room: int, buffer: int, index: int) -> Any:
        """What the forward pass leaves in a page: words that no other page has."""
        word = room << 32 | buffer << 16 | index
        return np.full(self.page_bytes // 8, word, np.uint64).view(np.uint8)

    def who_aborts(self, room: int) -> str:
        if not self.abort_every or room % self.abort_every:
            return ""
        return ("prefill", "decode")[room // self.abort_every % 2]


@dataclass(slots=True)
class Outcome:
    """What one rank has seen. latencies: seconds from the receiver's birth to Success."""

    succeeded: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    wrong: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    left: dict[str, float] = field(default_factory=dict)


def live(name: str, load: Load, pipe: "Connection[Any, Any]") -> None:
    """The life of the process of that name. SGLang, which takes long to import, only it imports."""
    without_torchvision.install()
    with suppress(KeyboardInterrupt):
        getattr(import_module("examples.sglang_handoff.ranks"), name)(load, pipe)
