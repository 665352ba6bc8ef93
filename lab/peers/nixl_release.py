"""NIXL's release of a running transfer: it returns while the device still moves bytes.

A description of `releaseXferReq` (#2044, #2067, #1955). The UCX plug-in cancels its request and
returns; the transfer goes on. The POSIX plug-in deletes the handle to which its queue still points.
The caller takes the release for the end of the transfer, and uses the memory for something else.
"""

from typing import Final

from pdproto.spec.language import (
    AddRow,
    Call,
    Configuration,
    DropEffect,
    Machine,
    OnRow,
    ReplaceRow,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    auto,
    edited,
    forall,
)


class Transfer(Sort, prefix="t"):
    """A transfer, its handle and its memory."""


class Handle(State):
    """The caller's view of a transfer."""

    NONE = auto()
    POSTED = auto()
    RELEASING = auto()
    DONE = auto()
    RELEASED = auto()


class Bytes(State):
    """The device's view of a transfer."""

    NONE = auto()
    MOVING = auto()
    MOVED = auto()


t = Transfer("t")

agent = Machine("agent", t)
device = Machine("device", world=True)
handle = agent.function("handle", Handle)
memory = agent.relation("memory")  # the memory belongs to this transfer
request = agent.relation("request")  # the record to which the completion is written
bytes_ = agent.function("bytes", Bytes)
bytes_.shared_with(device, writes=(Bytes.MOVED,))

FREE: Final = request(t).to(False)
ENDED: Final = bytes_(t) == Bytes.MOVED

AGENT: Final = Table(agent, state=handle, rows=(
    Row("post", on=Call("post"), at=Handle.NONE, to=Handle.POSTED,
        do=[memory(t).to(True), request(t).to(True), bytes_(t).to(Bytes.MOVING)]),
    Row("poll", at=Handle.POSTED, to=Handle.DONE, when=ENDED),
    Row("release", on=Call("release"), at=Handle.POSTED, to=Handle.RELEASED, do=[FREE],
        why="the request is cancelled and freed, and nothing waits for the device"),
    Row("release_done", on=Call("release"), at=Handle.DONE, to=Handle.RELEASED, do=[FREE]),
    Row("reuse", on=Call("reuse"), at=Handle.RELEASED, when=memory(t), do=[memory(t).to(False)],
        why="the caller has released its transfer"),
))

DEVICE: Final = Table(device, rows=(
    Row("land", choose=(t,), when=bytes_(t) == Bytes.MOVING, do=[bytes_(t).to(Bytes.MOVED)],
        fair=False, why="a write may land late, or never"),
))

SYSTEM: Final = System(
    "nixl-release",
    "NIXL's release of a running transfer, described as its code does it.",
    tables=(AGENT, DEVICE),
    properties=(
        OnRow("S1_writes_stay_in_own_memory", "land", memory(t)),
        OnRow("a_completion_finds_its_request", "land", request(t)),
        Sometimes("a_transfer_ends", handle(t) == Handle.DONE),
        Sometimes("memory_is_used_again", (handle(t) == Handle.RELEASED) & ~memory(t)),
    ),
    final=forall(t, handle(t) != Handle.DONE),
    configurations={"default": Configuration({Transfer: 1})},
)

RELEASING: Final = ReplaceRow("release", Row("release", on=Call("release"), at=Handle.POSTED,
                                             to=Handle.RELEASING))
QUIESCE: Final = Row("quiesce", at=Handle.RELEASING, to=Handle.DONE, when=ENDED)

# #2044 (a draft): the release waits for the device, for ten seconds at most.
DRAINED: Final = edited(
    SYSTEM, "nixl-release-drained", RELEASING, AddRow(agent, QUIESCE),
    AddRow(agent, Row("give_up", on=Timer("ten_seconds"), at=Handle.RELEASING, to=Handle.RELEASED,
                      do=[FREE])),
    about="NIXL's release where it waits for the device, for ten seconds at most (#2044).",
)

# 2077 (closed): the request is freed when the device has finished with it; the caller goes on.
DEFERRED: Final = edited(
    SYSTEM, "nixl-release-deferred", DropEffect("release", FREE),
    AddRow(agent, Row("free_late", at=Handle.RELEASED, when=[ENDED, request(t)], do=[FREE])),
    about="NIXL's release where the request is freed when the device has finished with it (#2077).",
)

# #2209 (closed): a cancellation frees nothing; the caller polls until the transfer has ended.
CANCELLED: Final = edited(
    SYSTEM, "nixl-release-cancelled", RELEASING, AddRow(agent, QUIESCE),
    about="NIXL with a cancellation after which the caller polls until the end (#2209).",
)
