"""A node's data path with all that a data path may be able to do. A plain one lacks some of it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pdproto.node.core import Core
from pdproto.node.data_path import (
    Converts,
    CountsBytes,
    DataPath,
    HasLayout,
    HasMetrics,
    HasReach,
    MarksPages,
    why_broken,
)
from pdproto.node.link import host_of
from pdproto.node.part import Part
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.runtime.wire import PageLayout


class Capabilities:
    """broken: see CanBreak, with the name of the node; for any thread. bytes_of, mark, layout_for,
    conversion: see data_path.py.
    """

    def __init__(self, core: Core, data_path: DataPath) -> None:
        self.broken: Final[Callable[[], str | None]] = partial(why_broken, data_path, core.name)
        self.bytes_of: Final[Callable[..., int]] = (
            data_path.bytes_of if isinstance(data_path, CountsBytes) else lambda *_: 0)
        self.mark: Final[Callable[[Sequence[int]], tuple[int, ...]]] = (
            data_path.mark if isinstance(data_path, MarksPages) else tuple)
        # None for a data path that does not know the layout of its pages.
        self.layout_for: Final[Callable[[str], PageLayout | None]] = (
            data_path.layout_for if isinstance(data_path, HasLayout) else lambda _: None)
        self.conversion: Final[Callable[[PageLayout], str]] = (
            data_path.conversion if isinstance(data_path, Converts) else lambda _: "")
        self._data_path: Final = data_path
        self.part: Final = Part(
            "data path", begin=self._attach, connected=self._note_reach, close=self._close)
        if isinstance(data_path, HasMetrics):
            data_path.measure(core.metrics)

    def _attach(self, transport: Transport) -> None:
        self._data_path.attach(transport.wake)

    def _close(self) -> None:
        self._data_path.close()

    def _note_reach(self, peer: Peer) -> None:
        """Note why a new peer cannot write here; empty if it can, or if that is unknown."""
        host = host_of(peer.endpoint)
        if host is not None and isinstance(self._data_path, HasReach):
            peer.barred = self._data_path.out_of_reach(host) or ""
