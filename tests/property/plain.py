"""The hand-over written down once more, plainly, by hand: what the conformance kit is tried on.

One prefill rank and one decode rank for rooms that are met once. No table is read here. `defects`
switches on mistakes that real systems have made, by the names of spec/bugs.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from pdproto.spec.handoff.poll import KVPoll
from pdproto.testing.adapter import GONE, WRITE, Said, Side
from pdproto.testing.observer import CHUNKS


@dataclass(slots=True)
class Sender:
    state: str = "unknown"
    opened: bool = False
    known: bool = False
    address: bool = False
    handed: int = 0
    posted: int = 0
    landed: int = 0
    drain: str = "unasked"


@dataclass(slots=True)
class Receiver:
    state: str = "unknown"
    claim: str = "none"
    page: int | None = None


@dataclass(slots=True)
class Plain:
    """See the top of the file."""

    defects: Collection[str] = ()
    senders: dict[int, Sender] = field(default_factory=lambda: {0: Sender(), 1: Sender()})
    receivers: dict[int, Receiver] = field(default_factory=lambda: {0: Receiver(), 1: Receiver()})
    waiting: list[int] = field(default_factory=list)
    lease: int | None = None
    out: list[Said] = field(default_factory=list)

    def said(self) -> list[Said]:
        out, self.out = self.out, []
        return out

    def say(self, kind: str, room: int, chunk: int = 0) -> None:
        self.out.append(Said(kind, room, chunk))

    # What the application asks

    def open(self, side: Side, room: int) -> list[Said]:
        if side is Side.DECODE:
            self.receivers[room].state = "bootstrapping"
            self.receivers[room].claim = "told"
            self.say("introduce", room)
        elif self.senders[room].state == "unknown":
            self.senders[room].state = "bootstrapping"
            self.senders[room].opened = True
        return self.said()

    def publish(self, room: int) -> list[Said]:
        if self.receivers[room].state == "bootstrapping":
            self.waiting.append(room)
            self.grant()
        return self.said()

    def send(self, room: int, chunk: int, last: bool) -> list[Said]:
        sender = self.senders[room]
        assert last == (chunk == CHUNKS - 1)
        if sender.state in ("bootstrapping", "transferring"):
            sender.state = "transferring"
            sender.handed = chunk + 1
            self.post(room)
        return self.said()

    def poll(self, side: Side, room: int) -> KVPoll:
        state = (self.senders if side is Side.PREFILL else self.receivers)[room].state
        if side is Side.PREFILL and state == "bootstrapping" and self.senders[room].address:
            return KVPoll.WAITING_FOR_INPUT
        return {
            "unknown": KVPoll.BOOTSTRAPPING, "bootstrapping": KVPoll.BOOTSTRAPPING,
            "waiting": KVPoll.WAITING_FOR_INPUT, "transferring": KVPoll.TRANSFERRING,
            "success": KVPoll.SUCCESS, "failed": KVPoll.FAILED, "gone": KVPoll.FAILED,
        }[state]

    def pages(self, side: Side, room: int) -> list[int]:
        if side is Side.DECODE:
            page = self.receivers[room].page
            return [] if page is None else [page]
        sender = self.senders[room]
        read = sender.posted > sender.landed and "B62" not in self.defects
        return [room] if sender.opened and (
            sender.state in ("bootstrapping", "transferring") or read) else []

    def close(self, room: int) -> list[Said]:
        self.receivers[room].page = None
        return self.said()

    def abort(self, side: Side, room: int) -> list[Said]:
        if side is Side.DECODE:
            self.fail_receiver(room)
        elif self.senders[room].state in ("bootstrapping", "transferring"):
            self.fail_sender(room)
        return self.said()

    def crash(self, side: Side) -> list[Said]:
        for room in (0, 1):
            sender, receiver = self.senders[room], self.receivers[room]
            if side is Side.PREFILL:
                if sender.state != "unknown" or receiver.state != "unknown":
                    sender.state = "gone"
            elif receiver.state != "unknown":
                receiver.state, receiver.page = "gone", None
                self.look_for_the_dead(room)
        if side is Side.DECODE:
            self.waiting.clear()
            self.lease = None
        return self.said()

    # What comes over the wire

    def deliver(self, said: Said) -> list[Said]:
        room, sender = said.room, self.senders[said.room]
        if said.kind == WRITE:
            self.end_write(room)
        elif said.kind == "introduce":
            if sender.state == "bootstrapping" and sender.known:
                self.say("expecting", room)  # it waits for memory, and for the request no more
            elif sender.state in ("unknown", "bootstrapping", "transferring"):
                sender.known = True
            elif sender.state != "success":
                self.say("failed" if sender.state == "failed" else GONE, room)
        elif said.kind == "publish":
            if sender.state in ("unknown", "bootstrapping", "transferring"):
                if not sender.address:
                    sender.address = sender.known = True
                self.post(room)
            else:
                self.say({"success": "done", "failed": "failed", "gone": GONE}[sender.state], room)
        elif said.kind == "abort":
            self.stop(room)
        else:
            self.hear(said.kind, room, self.receivers[room])
        self.look_for_the_dead(room)
        return self.said()

    def look_for_the_dead(self, room: int) -> None:
        """Fail a request whose sink is gone: its address will not come."""
        sender = self.senders[room]
        if (self.receivers[room].state == "gone" and sender.known
                and sender.state in ("unknown", "bootstrapping")):
            self.fail_sender(room)

    # Prefill

    def post(self, room: int) -> None:
        sender = self.senders[room]
        while sender.state == "transferring" and sender.address and sender.posted < sender.handed:
            self.say(WRITE, room, sender.posted)
            sender.posted += 1

    def end_write(self, room: int) -> None:
        sender, receiver = self.senders[room], self.receivers[room]
        if receiver.state == "gone" or receiver.claim == "fenced":
            # What was refused is not under way any more either.
            sender.posted -= 1
            sender.handed = sender.posted
            if sender.state == "transferring":
                self.fail_sender(room)
        else:
            sender.landed += 1
        if sender.landed == CHUNKS and (
                sender.state == "transferring"
                or (sender.state == "failed" and "B10" in self.defects)):
            sender.state = "success"
            self.say("done", room)
        self.drain(room)

    def fail_sender(self, room: int) -> None:
        sender = self.senders[room]
        sender.state = "failed"
        if sender.known and "B31" not in self.defects:
            self.say("failed", room)
        sender.known = False
        self.drain(room)

    def stop(self, room: int) -> None:
        sender = self.senders[room]
        if sender.state == "gone":
            self.say(GONE, room)
        elif sender.drain == "said":
            self.say("drained", room)
        elif sender.drain == "asked":
            self.say("abort_ack", room)
        else:
            sender.drain = "asked"
            sender.known = False
            if sender.state != "success":
                sender.state = "failed"
            self.say("abort_ack", room)
            self.drain(room)

    def drain(self, room: int) -> None:
        sender = self.senders[room]
        quiet = sender.posted == sender.landed or "B54" in self.defects
        if sender.drain == "asked" and sender.state in ("success", "failed") and quiet:
            sender.drain = "said"
            self.say("drained", room)

    # Decode

    def hear(self, kind: str, room: int, receiver: Receiver) -> None:
        if receiver.state == "gone":
            return
        if kind == "failed":
            self.fail_receiver(room)
        elif kind == "done" and receiver.claim == "out" and receiver.state == "waiting":
            receiver.claim, receiver.state = "landed", "success"
            self.release(room)
        elif receiver.state == "failed" and kind == "done":
            if receiver.claim in ("out", "stopping"):
                receiver.claim = "landed"
                self.release(room)
        elif receiver.state == "failed" and kind == "abort_ack":
            receiver.claim = {"out": "stopping", "told": "drained"}.get(
                receiver.claim, receiver.claim)
        elif receiver.state == "failed" and kind == "drained":
            if receiver.claim in ("told", "out", "stopping"):
                receiver.claim = "drained"
                self.release(room)
        elif kind == GONE:
            if receiver.claim != "landed":
                self.fail_receiver(room)
            if receiver.state == "failed" and receiver.claim in ("told", "out", "stopping"):
                receiver.claim = "fenced"
                self.release(room)

    def fail_receiver(self, room: int) -> None:
        receiver = self.receivers[room]
        if receiver.state not in ("bootstrapping", "waiting"):
            return
        receiver.state = "failed"
        if "B46" not in self.defects:
            receiver.page = None
        if room in self.waiting:
            self.waiting.remove(room)
        self.say("abort", room)
        if "B22" in self.defects:
            self.release(room)

    def release(self, room: int) -> None:
        if self.lease == room:
            self.lease = None
            self.grant()

    def grant(self) -> None:
        if self.lease is None and self.waiting:
            room = self.lease = self.waiting.pop(0)
            self.receivers[room].state = "waiting"
            self.receivers[room].claim = "out"
            taken = {receiver.page for receiver in self.receivers.values()}
            self.receivers[room].page = next(page for page in (0, 1) if page not in taken)
            self.say("publish", room)
