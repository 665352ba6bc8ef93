"""The defects that end-to-end tests must see: each is put into running nodes by its name.

Most are edits of the tables (lab/sim/planted.py), of a historical defect or of one row. Those
of code that no table describes change a function of this process.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from lab.sim import planted
from pdproto.node import core
from pdproto.node.data_path import Idle, WriteOutcome
from pdproto.node.decode import verification
from pdproto.node.decode.routing import DecodeRouting
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import Faults
from pdproto.node.metrics import Metrics
from pdproto.node.optimistic import steps as module
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.prefill import sinks
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.sender import Lane, Sender
from pdproto.pages import sink_pages
from pdproto.pages.copies import Staged, at_once
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import Job, SourcePages
from pdproto.runtime import checked
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import Life
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.handoff import agreement, attempts, dp_rank, optimistic, registry, transfer
from pdproto.spec.handoff.bootstrap import Ready, Record, e, entry, p
from pdproto.spec.handoff.ends import Receiving, Sending, h
from pdproto.spec.handoff.group import (
    TURN,
    VOTED,
    WAITING,
    Health,
    Stage,
    applied,
    at,
    closed,
    done,
    fail,
    n,
    r,
    rank,
    ready,
)
from pdproto.spec.handoff.routing import Phase, posted, publish, wanted_named, x, y
from pdproto.spec.handoff.sink import INTACT
from pdproto.spec.language import (
    AddClause,
    AddEffect,
    AddRow,
    DropClause,
    DropRow,
    ReplaceRow,
    Retarget,
    Row,
    System,
    edited,
    exists,
    forall,
)

Defect: TypeAlias = System | Callable[[], None]


def _wrap(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """around: takes the old function, and its arguments."""
    old = vars(kind)[name]

    def changed(*given: Any, **named: Any) -> Any:
        return around(old, *given, **named)

    setattr(kind, name, changed)


def look_up_untold() -> None:
    """A look-up that fails is told to nobody."""
    _wrap(DecodeRouting, "_unless_over", lambda *_: None)


def worker_does_not_ask() -> None:
    """The worker takes a chunk up without a look at the state of its hand-over."""
    _wrap(Sender, "is_wanted", lambda *_: True)


def malformed_kills() -> None:
    """A frame that cannot be read is no error that the node expects."""
    def read(old: Any, data: bytes) -> Any:
        try:
            return old(data)
        except RemoteProtocolError as error:
            raise KeyError(str(error)) from None

    _wrap(core, "decode", read)


def never_forgets() -> None:
    """A life that is over stays in the node's books."""
    _wrap(Endpoints, "forget", lambda *_: None)


def counted_twice() -> None:
    """A rank of a group counts a failure twice."""
    def add(old: Any, self: Metrics, name: str, *given: Any) -> None:
        old(self, name, *given)
        if name == "bootstrap_failed_reqs":
            old(self, name, *given)

    _wrap(Metrics, "add", add)


def retries_uncounted() -> None:
    """A pass that runs again is not counted."""
    _wrap(Metrics, "add", lambda old, self, name, *given:
          None if name == "prefill_retries" else old(self, name, *given))


def every_setting() -> None:
    """Settings that do not go together are taken."""
    _wrap(OptimisticSettings, "__post_init__", lambda *_: None)


def faults_fixed() -> None:
    """The probability of a failure stays what it was at the start."""
    _wrap(Faults, "set", lambda *_: None)


def any_request() -> None:
    """A retry is forced by chance, and not by the id of its request."""
    _wrap(module, "retry_is_forced", lambda _, request, __: hash(request[::-1]) % 2 == 0)


class _AllFree(deque[int]):
    """Slots that stay free when a request gets one."""

    def remove(self, value: int, /) -> None: ...
    def append(self, x: int, /) -> None: ...


def slot_given_twice() -> None:
    """The scheduler proposes a slot that has an owner, and the table does not reject it."""
    def init(old: Any, self: Any, *given: Any, **named: Any) -> None:
        old(self, *given, **named)
        self.slots = _AllFree(self.slots)

    planted.put_in(historical("O2-slot"))
    _wrap(module.OptimisticSteps, "__init__", init)


def any_incarnation() -> None:
    """A life is told by its room alone."""
    def endpoint_of(old: Any, self: Binding, peer: Any, life: Life, *by: Any) -> Any:
        return old(self, peer, Life(life.room, peer.incarnation, life.generation, life.use), *by)

    _wrap(Binding, "endpoint_of", endpoint_of)


def pass_not_awaited() -> None:
    """A chunk is packed at once, also while a device still computes its pages."""
    from pdproto.pages.host_device import HostStream  # noqa: PLC0415 - needs torch

    _wrap(HostStream, "wait", lambda *_: None)


def pack_not_awaited() -> None:
    """A chunk is sent when the kernel that packs it has been started."""
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    _wrap(DeviceCopies, "pack", lambda old, *of, **named: replace(old(*of, **named), done=at_once))


def use_not_awaited() -> None:
    """A chunk is unpacked at once, also while the device still writes for an earlier request."""
    vars(sink_pages)["end_of_pass"] = lambda _: None


def settled_at_once() -> None:
    """The pages of a hand-over that has failed are free, also while a kernel writes into them."""
    def settle(_: Any, self: SinkPages, life: Life) -> None:
        self._settled.add(life)
        self._report(Idle(life))

    _wrap(SinkPages, "settle", settle)


def unpack_not_awaited() -> None:
    """Pages count as written when the kernel that writes them has been started."""
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    _wrap(DeviceCopies, "unpack", lambda old, *of: replace(old(*of), ready=at_once))


def pack_abandoned() -> None:
    """A chunk of a hand-over that has failed ends at once, also while a kernel reads its pages."""
    def end(old: Any, self: SourcePages, job: Job, staged: Staged) -> bool:
        if job.is_wanted():
            return bool(old(self, job, staged))
        self._end(job, WriteOutcome.SKIPPED)
        return True

    _wrap(SourcePages, "_end_pack", end)


def prompts_unnamed() -> None:
    """Nodes take no notice of the prompts that callers name."""
    vars(checked)["prompt"] = lambda _: None


def layouts_uncompared() -> None:
    """Pages move between pools whose pages lie differently."""
    vars(sinks)["misfit"] = lambda *_: ""


def uses_uncompared() -> None:
    """A sink takes the parts of its sources, whichever request of the room each has sent."""
    vars(verification)["mixed"] = lambda *_: ""


def chunks_overlap() -> None:
    """Every chunk of a hand-over goes to the start of the memory that the sink has leased."""
    _wrap(Lane, "begin", lambda old, self, posted: old(self, posted._replace(behind=0)))


def historical(name: str) -> System:
    """The system of a defect in spec/bugs, by its name."""
    return next(bug.system for bug in BUGS if bug.system.name == name)


def _edit(name: str, base: System, *edits: Any) -> System:
    return edited(base, name, *edits)


_OURS: Final = (
    # A late answer to the abort lifts a failed hand-over.
    edited(transfer.SYSTEM, "failure-lifted",
           Retarget("note_stopped", to=Receiving.BOOTSTRAPPING)),
    edited(transfer.SYSTEM, "digest-ignored", DropClause("commit", INTACT)),
    edited(transfer.SYSTEM, "success-aborted", Retarget("stop_late", to=Sending.FAILED)),
    # Decode looks for a room by the rule, whichever rank its request names.
    edited(dp_rank.SYSTEM, "name-ignored", ReplaceRow("take_named", Row(
        "take_named", on=wanted_named(h, y), at=Phase.IDLE, to=Phase.PENDING))),
    edited(dp_rank.SYSTEM, "rule-published", AddEffect("serve_by_rule", posted(x, h).to(True)),
           AddEffect("serve_by_rule", publish(h, x))),
    edited(dp_rank.SYSTEM, "room-kept", DropRow("tidy_up")),
    edited(optimistic.SYSTEM, "never-early",
           DropClause("reserve_early", ~attempts.ready(attempts.h)),
           AddClause("reserve_early", attempts.ready(attempts.h))),
    # A registration revives the number that the registry has struck out.
    edited(registry.SYSTEM, "struck-out-counts-again",
           DropClause("record", entry(p, e) == Record.NEVER), Retarget("record", to=Ready.READY)),
    # A request is admitted by one rank's vote; a release needs one rank's word.
    edited(agreement.SYSTEM, "admit-unasked", DropClause("decide_admit", forall(r, ready(r, h))),
           AddClause("decide_admit", exists(r, ready(r, h)))),
    # A rank leaves a request in its queue that has failed there.
    edited(agreement.SYSTEM, "failed-not-drained",
           DropClause("drain", at(*WAITING, *VOTED)), AddClause("drain", at(*WAITING, Stage.READY)),
           AddRow(rank, Row("leave_failed", on=fail(r, n, h), at=Health.UP,
                            when=[*TURN, at(Stage.FAILED)], do=[applied(r, n).to(True)],
                            send=[closed(r, h)]))),
    edited(agreement.SYSTEM, "one-release", DropClause("decide_release", forall(r, done(r, h))),
           AddClause("decide_release", exists(r, done(r, h)))),
)
_OF_CODE: Final = (
    worker_does_not_ask, look_up_untold, malformed_kills, never_forgets,
    counted_twice, retries_uncounted, every_setting, faults_fixed, any_request, any_incarnation,
    slot_given_twice, pass_not_awaited, layouts_uncompared, uses_uncompared, chunks_overlap,
    prompts_unnamed, unpack_not_awaited, pack_abandoned, pack_not_awaited, use_not_awaited,
    settled_at_once,
)
DEFECTS: Final[Mapping[str, Defect]] = {
    **{bug.system.name: bug.system for bug in BUGS},
    **{system.name: system for system in _OURS},
    **{defect.__name__.replace("_", "-"): defect for defect in _OF_CODE},
}


def put_in(name: str) -> None:
    """Raises KeyError for a name that no defect has, ValueError for tables that nobody runs."""
    defect = DEFECTS[name]
    if isinstance(defect, System):
        planted.put_in(defect)
    else:
        defect()
