"""Defects that a cell must notice, each put into running servers by its name; see hooks.py.

They change the classes of this process, of which SGLang's schedulers are forks. A defect that finds
no place to be put in ends the server: it would prove nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np


def _wrap(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """around: takes the old method, self, and the arguments."""
    old = getattr(kind, name)

    def changed(self: Any, *given: Any, **named: Any) -> Any:
        return around(old, self, *given, **named)

    setattr(kind, name, changed)


def _senders() -> list[Any]:
    from sglang.srt.disaggregation.mooncake.conn import MooncakeKVSender

    from pdproto.sglang.sender import PdprotoKVSender

    return [PdprotoKVSender, MooncakeKVSender]


def wrong_page() -> None:
    """Prefill sends another page in place of a request's first one."""
    def send(old: Any, self: Any, pages: Any, *given: Any, **named: Any) -> None:
        changed = np.array(pages)
        if len(changed):
            changed[0] = changed[0] + 1 if changed[0] < 20 else changed[0] - 1
        old(self, changed, *given, **named)

    for kind in _senders():
        _wrap(kind, "send", send)


def rows_shared() -> None:
    """Two requests that are under way at once share a row of metadata."""
    from pdproto.sglang.pools import MetadataRows

    _wrap(MetadataRows, "read", lambda old, self, slot: old(self, slot // 2 * 2))


def abort_lost() -> None:
    """Neither side passes on that SGLang has aborted a request."""
    from pdproto.sglang.receiver import PdprotoKVReceiver
    from pdproto.sglang.sender import PdprotoKVSender

    def abort(_: Any, self: Any) -> None:
        self.abort_notified = True

    for kind in (PdprotoKVReceiver, PdprotoKVSender):
        _wrap(kind, "abort", abort)


def loss_unnoticed() -> None:
    """A decode node does not notice that its peer has gone."""
    from pdproto.node.decode import Decode

    _wrap(Decode, "on_lost", lambda *_: None)


def chunk_repeated() -> None:
    """The second chunk of a request is sent from the pages of the first one."""
    from pdproto.sglang.sender import PdprotoKVSender

    def send(old: Any, self: Any, pages: Any, *given: Any, **named: Any) -> None:
        first = getattr(self, "first_chunk", None)
        self.first_chunk = pages
        wrong = first is not None and len(first) >= len(pages)
        old(self, first[:len(pages)] if wrong and first is not None else pages, *given, **named)

    _wrap(PdprotoKVSender, "send", send)


def prefix_forgotten() -> None:
    """Decode does not say how much of the prompt it has in its cache."""
    from pdproto.items.data_path import SinkItems

    _wrap(SinkItems, "expect", lambda *_: None)


def _layers(change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    """Of the KV cache, as prefill names them."""
    from dataclasses import replace

    from pdproto.items.data_path import SourceItems

    def begin(old: Any, self: Any, components: Any, *given: Any, **named: Any) -> None:
        first, *rest = components
        old(self, [replace(first, layers=change(first.layers)), *rest], *given, **named)

    _wrap(SourceItems, "__init__", begin)


def layers_from_zero() -> None:
    """Each stage of a prefill pipeline counts its layers from 0."""
    _layers(lambda layers: tuple(layer - min(layers, default=0) for layer in layers))


def heads_swapped() -> None:
    """A rank takes itself for its neighbour in the tensor parallelism."""
    from pdproto.items.data_path import SinkItems, SourceItems

    def begin(old: Any, self: Any, components: Any, place: Any, *given: Any, **named: Any) -> None:
        old(self, components, type(place)(place.size, place.size - 1 - place.rank), *given, **named)

    for kind in (SourceItems, SinkItems):
        _wrap(kind, "__init__", begin)


def first_rank_only() -> None:
    """Decode looks for every room on data-parallel rank 0."""
    from pdproto.sglang.prefills import Prefills

    _wrap(Prefills, "feed", lambda old, self, address, _: old(self, address, 0))


def window_left_out() -> None:
    """The pages of the sliding window are not sent, and not awaited."""
    from pdproto.items.components import Numbering

    _wrap(Numbering, "chunks", lambda *_: [])


def misfit_unnoticed() -> None:
    """Nobody compares page sizes and models."""
    from pdproto.items import data_path, shares
    from pdproto.items.data_path import SourceItems
    from pdproto.sglang.prefills import Prefills

    def share_of(components: Any, us: Any, _: Any) -> Any:
        return shares.share_for(components, us, us), shares.everything(components, us)

    _wrap(Prefills, "_check", lambda *_: None)
    _wrap(SourceItems, "_check", lambda *_: None)
    vars(data_path)["share_of"] = share_of


def waits_for_ever() -> None:
    """Neither side gives up waiting for the other."""
    from pdproto.node.timers import Timers

    def due(old: Any, self: Any, now: float) -> Any:
        return (one for one in old(self, now) if not one[0].endswith("_timeout"))

    _wrap(Timers, "due", due)


def queue_timed() -> None:
    """The wait for decode's memory counts as a wait for the other server, in the running tables."""
    from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE
    from pdproto.spec.handoff.sink import SOME_UNMET
    from pdproto.spec.handoff.source import UNMET
    from pdproto.spec.handoff.transfer import SYSTEM
    from pdproto.spec.language import DropClause, edited

    broken = edited(SYSTEM, "queue-timed", DropClause("give_up_waiting", UNMET),
                    DropClause("give_up_bootstrap", SOME_UNMET))
    for role in (SOURCE_ROLE, SINK_ROLE):
        of_it = (one for one in broken.tables if one.machine is role.table.machine)
        vars(role).update(table=next(of_it), _automata={})


def decode_waited_for() -> None:
    """Prefill does not notice that decode has gone, and waits for ever."""
    from pdproto.node.prefill import Prefill

    _wrap(Prefill, "on_lost", lambda *_: None)
    waits_for_ever()


def registers_once() -> None:
    """A rank does not register again with a registry that has forgotten it."""
    from pdproto.registry.registrar import Registrar

    def turn(old: Any, self: Any) -> Any:
        return None if self.recorded.is_set() else old(self)

    _wrap(Registrar, "_turn", turn)


def port_ignored() -> None:
    """The registry's port is taken, and prefill goes on without a registry."""
    from pdproto.registry.app import RegistryServer

    def start(old: Any, self: Any) -> None:
        try:
            old(self)
        except OSError:
            return

    _wrap(RegistryServer, "start", start)


DEFECTS: Final[Mapping[str, Callable[[], None]]] = {
    defect.__name__.replace("_", "-"): defect for defect in (
        wrong_page, rows_shared, abort_lost, loss_unnoticed, chunk_repeated, prefix_forgotten,
        layers_from_zero, heads_swapped, first_rank_only, window_left_out,
        misfit_unnoticed, waits_for_ever, queue_timed, decode_waited_for, registers_once,
        port_ignored)
}


def put_in(name: str) -> None:
    """Raises KeyError for a name that no defect has, AttributeError where its place has gone."""
    DEFECTS[name]()
