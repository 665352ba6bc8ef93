"""Defects that a cell must notice, each put into running servers by its name; see hooks.py.

They change the classes of this process, of which SGLang's schedulers are forks. A defect whose
place has gone ends the server (planting.py), and tests/sglang/test_server_defects.py fails.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tests.servers.planting import replace, wrap


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
        wrap(kind, "send", send)


def parts_repeated() -> None:
    """Prefill leaves out no part before the end of the prefix that decode has cached."""
    from pdproto.sglang.parts import RankParts

    def numbers(old: Any, self: Any, pages: Any, tokens: Any = None, prefix: int = 0) -> Any:
        skipped = len(old(self, pages, tokens)) - len(found := old(self, pages, tokens, prefix))
        return old(self, pages, tokens)[:len(found)] if skipped else found

    wrap(RankParts, "numbers", numbers)


def page_twice() -> None:
    """Prefill sends the first page of a request in place of its second one, too."""
    def send(old: Any, self: Any, pages: Any, *given: Any, **named: Any) -> None:
        changed = np.array(pages)
        changed[1:2] = changed[:1]
        old(self, changed, *given, **named)

    for kind in _senders():
        wrap(kind, "send", send)


def attempt_repeated() -> None:
    """A request that tries again is sent from the pages of its first attempt, which belong to
    others by then.
    """
    from sglang.srt.managers.scheduler import Scheduler

    from pdproto.sglang.sender import PdprotoKVSender

    def yields(old: Any, self: Any, req: Any) -> None:
        first = self.req_to_token_pool.req_to_token[
            req.kv.req_pool_idx, :len(req.origin_input_ids)].clone()
        old(self, req)
        pool = self.token_to_kv_pool_allocator.get_kvcache()
        for buffer in (*pool.k_buffer, *pool.v_buffer):
            buffer[first] = 0.0
        req.disagg_kv_sender.first_attempt = first.numpy()

    def send(old: Any, self: Any, pages: Any, *given: Any, **named: Any) -> None:
        first = getattr(self, "first_attempt", None)
        repeated = pages if first is None else first[self._sent:self._sent + len(pages)]
        old(self, repeated, *given, **named)

    wrap(Scheduler, "optimistic_release_and_requeue", yields)
    wrap(PdprotoKVSender, "send", send)


def chunks_limited() -> None:
    """A hand-over may have 64 chunks."""
    from pdproto.node.prefill import sender

    replace(sender, "CHUNKS_MAX", 64)


def name_unread() -> None:
    """Prefill takes every request as one that names the rank to which it has come."""
    from pdproto.sglang.sender import PdprotoKVSender

    def begin(old: Any, self: Any, mgr: Any, *given: Any, **named: Any) -> None:
        mgr.named_rank = None
        old(self, mgr, *given, **named)

    wrap(PdprotoKVSender, "__init__", begin)


def rows_shared() -> None:
    """Two requests that are under way at once share a row of metadata."""
    from pdproto.sglang.pools import MetadataRows

    wrap(MetadataRows, "read", lambda old, self, slot: old(self, slot // 2 * 2))


def abort_lost() -> None:
    """Neither side passes on that SGLang has aborted a request."""
    from pdproto.sglang.receiver import PdprotoKVReceiver
    from pdproto.sglang.sender import PdprotoKVSender

    def abort(_: Any, self: Any) -> None:
        self.abort_notified = True

    for kind in (PdprotoKVReceiver, PdprotoKVSender):
        wrap(kind, "abort", abort)


def loss_unnoticed() -> None:
    """A decode node does not notice that its peer has gone."""
    from pdproto.node.decode.sources import Sources

    wrap(Sources, "_lose", lambda *_: None)


def chunk_repeated() -> None:
    """The second chunk of a request is sent from the pages of the first one."""
    from pdproto.sglang.sender import PdprotoKVSender

    def send(old: Any, self: Any, pages: Any, *given: Any, **named: Any) -> None:
        first = getattr(self, "first_chunk", None)
        self.first_chunk = pages
        wrong = first is not None and len(first) >= len(pages)
        old(self, first[:len(pages)] if wrong and first is not None else pages, *given, **named)

    wrap(PdprotoKVSender, "send", send)


def prefix_forgotten() -> None:
    """Decode does not say how much of the prompt it has in its cache."""
    from pdproto.items.data_path import SinkItems

    wrap(SinkItems, "expect", lambda *_: None)


def _layers(change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    """Of the KV cache, as prefill names them."""
    import dataclasses

    from pdproto.items.data_path import SourceItems

    def begin(old: Any, self: Any, components: Any, *given: Any, **named: Any) -> None:
        first, *rest = components
        old(self, [dataclasses.replace(first, layers=change(first.layers)), *rest], *given, **named)

    wrap(SourceItems, "__init__", begin)


def layers_from_zero() -> None:
    """Each stage of a prefill pipeline counts its layers from 0."""
    _layers(lambda layers: tuple(layer - min(layers, default=0) for layer in layers))


def heads_swapped() -> None:
    """A rank takes itself for its neighbour in the tensor parallelism."""
    from pdproto.items.data_path import SinkItems, SourceItems

    def begin(old: Any, self: Any, components: Any, place: Any, *given: Any, **named: Any) -> None:
        old(self, components, type(place)(place.size, place.size - 1 - place.rank), *given, **named)

    for kind in (SourceItems, SinkItems):
        wrap(kind, "__init__", begin)


def first_rank_only() -> None:
    """Decode looks for every room on data-parallel rank 0."""
    from pdproto.sglang.prefills import Prefills

    wrap(Prefills, "feed", lambda old, self, address, _: old(self, address, 0))


def next_run_unknown() -> None:
    """Decode asks the registry once for the ranks of an address, and not again after their loss."""
    from pdproto.sglang.prefills import Prefills

    def begin(old: Any, self: Any, *given: Any, **named: Any) -> None:
        old(self, *given, **named)
        self._lost = tuple

    wrap(Prefills, "__init__", begin)


def window_left_out() -> None:
    """The pages of the sliding window are not sent, and not awaited."""
    from pdproto.items.components import Numbering

    wrap(Numbering, "chunks", lambda *_: [])


def misfit_unnoticed() -> None:
    """Nobody compares page sizes, dtypes and models."""
    from pdproto.items import data_path, shares
    from pdproto.node.prefill import sinks
    from pdproto.sglang.prefills import Prefills

    def share_of(components: Any, us: Any, _: Any) -> Any:
        return shares.share_for(components, us, us), shares.everything(components, us)

    wrap(Prefills, "_misfit", lambda *_: "")
    replace(sinks, "misfit", lambda *_: "")
    replace(data_path, "share_of", share_of)


def waits_for_ever() -> None:
    """Neither side gives up waiting for the other."""
    from pdproto.node.timers import Timers

    def due(old: Any, self: Any, now: float) -> Any:
        return (one for one in old(self, now) if not one[0].endswith("_timeout"))

    wrap(Timers, "due", due)


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
        replace(role, "table", next(of_it))
        role.forget()


def length_unlimited() -> None:
    """Nobody compares the length of a prompt with decode's memory."""
    from sglang.srt.disaggregation.decode import DecodePreallocQueue
    from sglang.srt.managers import scheduler

    replace(scheduler, "validate_input_length", lambda *_: None)
    wrap(DecodePreallocQueue, "_check_if_req_exceed_kv_capacity", lambda *_: False)


def refusal_untold() -> None:
    """Prefill tells decode nothing of a request that it refuses at its arrival."""
    from pdproto.sglang import manager

    replace(manager, "tell_decode", lambda *_: None)


def front_untold() -> None:
    """A front tells its schedulers nothing of a request that it refuses."""
    from pdproto.sglang import front

    replace(front, "_tell", lambda *_: None)


def recompute_unasked() -> None:
    """Decode does not ask prefill to compute the KV again that it has given back."""
    from pdproto.sglang.manager import PdprotoKVManager

    wrap(PdprotoKVManager, "submit_prefill_recompute", lambda *_: None)


def leak_check_off() -> None:
    """SGLang only warns of a leak in an idle scheduler."""
    from sglang.srt.environ import envs

    envs.SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE.set(False)


def decode_waited_for() -> None:
    """Prefill does not notice that decode has gone, and waits for ever."""
    from pdproto.node.prefill.sinks import Sinks

    wrap(Sinks, "_lose", lambda *_: None)
    waits_for_ever()


def silence_as_death() -> None:
    """A peer that says nothing for half as long as makes it suspected counts as gone."""
    from pdproto.node import connections

    def look(old: Any, self: Any, peer: Any, now: float) -> None:
        if now - peer.heard > self._link.silent_s / 2:
            self._take(peer, connections._REFUSED, "nothing heard")
        else:
            old(self, peer, now)

    wrap(connections.Connections, "_look", look)


def gone_for_good() -> None:
    """A peer that says nothing for 2/5 as long as makes it suspected is never called again."""
    from pdproto.node import connections
    from pdproto.runtime.errors import RemoteProtocolError

    gone = set[str]()

    def look(old: Any, self: Any, peer: Any, now: float) -> None:
        if now - peer.heard > self._link.silent_s * 2 / 5:
            gone.add(peer.name)
            self._take(peer, connections._REFUSED, "nothing heard")
        else:
            old(self, peer, now)

    def connect(old: Any, self: Any, name: str, *given: Any) -> Any:
        if name in gone:
            raise RemoteProtocolError(f"{name} said nothing for too long")
        return old(self, name, *given)

    wrap(connections.Connections, "_look", look)
    wrap(connections.Connections, "connect", connect)


def registry_asked() -> None:
    """Decode asks the registry about each request, and one that does not answer counts as gone."""
    from pdproto.registry.lookups import Lookups
    from pdproto.sglang.prefills import Prefills

    def feed(old: Any, self: Any, *given: Any) -> Any:
        self._feeds.clear()
        return old(self, *given)

    wrap(Prefills, "feed", feed)
    wrap(Lookups, "of", lambda old, self, address, **_: old(self, address, fresh=True))


def prompts_unnamed() -> None:
    """Both servers name each prompt alike."""
    from pdproto.sglang import prompts

    replace(prompts, "prompt_of", lambda *_: b"any")


def statuses_by_room() -> None:
    """The stages of a pipeline know a request by its room alone."""
    from pdproto.sglang import sender

    replace(sender, "known_as", lambda room, _: f"{room}")


def room_zero_taken() -> None:
    """Room 0 is a room like the others."""
    from pdproto.sglang import receiver, sender

    for module in (receiver, sender):
        replace(module, "room_of", lambda room: room)


def once_unsaid() -> None:
    """Decode never says that prefill is asked once for a request."""
    from pdproto.sglang import prompts

    replace(prompts, "is_once", lambda _: False)


def members_alike() -> None:
    """Each peer is called with the server's own public key, as if all had one secret."""
    from pdproto.node.link import Curve

    wrap(Curve, "key_of", lambda _old, self, _node: self.public)


def room_once() -> None:
    """Prefill takes one request of a room."""
    from pdproto.node.prefill.binding_rooms import BindingRooms

    def begin(old: Any, self: Any, *given: Any, **named: Any) -> None:
        old(self, *given, **named)
        self.known = set()

    def open_once(old: Any, self: Any, sender: Any) -> None:
        if sender.room not in self.known:
            self.known.add(sender.room)
            old(self, sender)

    wrap(BindingRooms, "__init__", begin)
    wrap(BindingRooms, "open", open_once)


def registers_once() -> None:
    """A rank does not register again with a registry that has forgotten it."""
    from pdproto.registry.registrar import Registrar

    def turn(old: Any, self: Any) -> Any:
        return None if self.recorded.is_set() else old(self)

    wrap(Registrar, "_turn", turn)


def unregistered() -> None:
    """Prefill's ranks do not register."""
    from pdproto.registry.registrar import Registrar

    wrap(Registrar, "start", lambda *_: None)


def port_ignored() -> None:
    """The registry's port is taken, and prefill goes on without a registry."""
    from pdproto.registry.app import RegistryServer

    def start(old: Any, self: Any) -> None:
        try:
            old(self)
        except OSError:
            return

    wrap(RegistryServer, "start", start)


def norm_off() -> None:
    """A server adds 0.1 to the variance when it normalizes."""
    from sglang.srt.layers.layernorm import RMSNorm

    def begin(old: Any, self: Any, size: int, *_: Any, **named: Any) -> None:
        old(self, size, **(named | {"eps": 0.1}))

    wrap(RMSNorm, "__init__", begin)


DEFECTS: Final[Mapping[str, Callable[[], None]]] = {
    defect.__name__.replace("_", "-"): defect for defect in (
        wrong_page, rows_shared, abort_lost, loss_unnoticed, chunk_repeated, prefix_forgotten,
        page_twice, parts_repeated, attempt_repeated, chunks_limited, name_unread,
        length_unlimited, refusal_untold, front_untold, recompute_unasked, leak_check_off,
        layers_from_zero, heads_swapped, first_rank_only, next_run_unknown, window_left_out,
        misfit_unnoticed, waits_for_ever, queue_timed, decode_waited_for,
        silence_as_death, gone_for_good, registry_asked, prompts_unnamed, statuses_by_room,
        room_zero_taken, once_unsaid, members_alike, room_once, registers_once, port_ignored,
        unregistered, norm_off)
}


def put_in(name: str) -> None:
    """Raises KeyError for a name that no defect has, AttributeError where its place has gone."""
    DEFECTS[name]()
