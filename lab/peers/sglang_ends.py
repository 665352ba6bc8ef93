"""The two ends of SGLang 0.5.23's hand-over, as its code keeps them: by room number alone.

Every table and every frame of SGLang names a room by its number. So the identity here is the room,
not one life of it: a room that is used again is the same instance, and a later use finds all that
an earlier one has left. The description exists to show this.

`Status` is KVPoll, with ABSENT for a room without an entry in `request_status`.
"""

from typing import Final

from pdproto.spec.handoff.roles import Chunk, Sink, Source
from pdproto.spec.language import Machine, Message, Sort, State, auto


class Room(Sort, prefix="r"):
    """A room number. Its uses follow one another, and no frame tells them apart."""


class Generation(Sort, prefix="k"):
    """The number of an abort, which its answer repeats: new for each abort of one decode rank."""


class Status(State):
    """The entry of a room in `request_status`."""

    ABSENT = auto()
    BOOTSTRAPPING = auto()
    WAITING = auto()
    TRANSFERRING = auto()  # only NIXL has this status
    SUCCESS = auto()
    FAILED = auto()


class Write(State):
    """One write of a chunk to one decode rank, as the transfer worker sees it."""

    NONE = auto()
    POSTED = auto()
    LANDED = auto()


p, d, r = Source("p"), Sink("d"), Room("r")
c, k = Chunk("c"), Generation("k")

source = Machine("source", p, r)
sink = Machine("sink", d, r)
engine = Machine("engine", world=True)

sending = source.function("sending", Status)
came = source.relation("came")  # the scheduler has made a sender for this number
owner = source.relation("owner")  # a sender is there, and polls
info = source.relation("info", Sink)  # transfer_infos: the addresses of this decode rank's pages
heard = source.relation("heard", Sink)  # metadata of this room has come, in any use
handed = source.relation("handed", Chunk)  # the scheduler has sent it; the next chunk is another
queued = source.relation("queued", Chunk)  # in the transfer queue
begun = source.relation("begun", Chunk)  # a worker has it
looked = source.relation("looked", Chunk)  # the worker has checked that the room has not failed
counted = source.relation("counted", Chunk)  # its part of _staging_outstanding
owes = source.relation("owes", Chunk)  # the worker will subtract it again
debt = source.relation("debt")  # the count is an integer, and may be minus one
ack_due = source.relation("ack_due", Sink, Generation)  # _deferred_ack_targets
poisoned = source.relation("poisoned")
write = source.function("write", Write, Sink, Chunk)
write.shared_with(engine, writes=(Write.LANDED,))

receiving = sink.function("receiving", Status)
invited = sink.relation("invited")  # the scheduler has made a receiver for this number
found = sink.relation("found")  # bootstrap_infos: the prefill ranks' addresses are known
published = sink.relation("published")  # the metadata has been sent to all of them
page = sink.relation("page")  # the destination pages belong to this room
arrived = sink.relation("arrived", Source)  # prefill_response_tracker
armed = sink.relation("armed", Generation)  # the abort whose answers count
spent = sink.relation("spent", Generation)  # a generation is never used again
acked = sink.relation("acked", Generation, Source)
content = sink.relation("content", Source, Chunk)  # the bytes of the use that published last
content.shared_with(engine, writes=(True,))

metadata = Message("metadata", d, r, p, sender=sink, receiver=source)
abort = Message("abort", d, r, p, k, sender=sink, receiver=source)
# Nothing is published yet, so no answer is asked for.
early_abort = Message("early_abort", d, r, p, sender=sink, receiver=source)
success = Message("success", p, r, d, sender=source, receiver=sink)
failed = Message("failed", p, r, d, sender=source, receiver=sink)
abort_ack = Message("abort_ack", p, r, d, k, sender=source, receiver=sink)

ACTIVE: Final = (Status.BOOTSTRAPPING, Status.WAITING, Status.TRANSFERRING, Status.FAILED)
READY: Final = (Status.WAITING, Status.TRANSFERRING)
OPEN: Final = (Status.BOOTSTRAPPING, *READY)
