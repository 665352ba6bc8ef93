"""A drain of a node: it refuses new requests, and says when no peer needs it for an old one.

The table decides (SERVER in spec/handoff/drain.py). Its machine is made when the drain begins, with
the requests that the node has then: before that, it would take every request.

A request is over when it has ended here, its pages are free, and no peer may send a message about
it any more (Node.is_awaited): a sink is done with it when the floor of its batches says so.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from pdproto.node.handle import ENDED, Handle
from pdproto.node.node import Node
from pdproto.node.part import Part
from pdproto.runtime.store import Shared
from pdproto.spec.handoff import drain as tables
from pdproto.spec.handoff.roles import Life


class Drain:
    """The drain of one node. Only its loop calls the methods.

    on_leave: called when the drain begins, with the rooms of the requests that the node has.
    emptied: done when every request is over, so that the process may end. left: how many requests
    are not over, for any thread; None until the loop has counted them.
    """

    def __init__(
        self, node: Node, on_leave: Callable[[Sequence[int]], None] = lambda _: None
    ) -> None:
        self.emptied: Final[Future[None]] = Future()
        self.reason: Final = f"node {node.core.name} drains, and takes no new request"
        self.left: int | None = None
        self._taken: list[Any] | None = None  # while they are counted, and after that
        self._rooms: Final[list[int]] = []  # of those that had not ended when they were counted
        self._node: Final = node
        self._on_leave: Final = on_leave
        self._machine: Final = Shared(tables.SERVER, scans=True)

    def begin(self) -> None:
        """Take the requests that the node has, and begin to drain."""
        core = self._node.core
        self._taken = []
        core.backlog.later(self._node.open_ends(), self._count)
        core.backlog.later(iter([self._taken]), self._leave)
        core.backlog.later(iter(self._taken), self._look)
        core.backlog.later(iter([None]), lambda _: self._look_whether_empty())

    def _count(self, owner: Any) -> None:
        """Take this request, if it is not over."""
        if ((owner.settled not in ENDED or self._node.is_awaited(owner))
                and self._is_taken(owner) and self._taken is not None):
            owner.watchers = (*owner.watchers, partial(self._look, owner))
            self._taken.append(owner)
            if owner.settled not in ENDED:
                self._rooms.append(owner.room)

    def _leave(self, taken: Sequence[Any]) -> None:
        """All are counted: refuse the requests that come from now on."""
        core = self._node.core
        core.add(Part("drain", forgotten=lambda endpoint: self._look(endpoint.owner)))
        self.left = len(taken)
        step = self._machine.call("drain")
        core.drain(self.reason)
        if any(message is tables.leave for message, _ in step.sent):
            self._on_leave(self._rooms)

    def told(self) -> str:
        """The reason, and how many requests are left once that is known; for any thread."""
        left = self.left
        return self.reason if left is None else f"{self.reason}; requests left: {left}"

    def meet(self, owner: Handle) -> None:
        """Fail the request of this handle, if it is new. Before all are counted the node takes it.
        """
        if self.left is None:
            if self._taken is not None:
                self._count(owner)
        elif not self._is_taken(owner):
            self._node.give_up(owner, self.reason, transient=True)

    def refusal(self, room: int) -> str | None:
        """The reason why a room is refused that a peer has begun and the application has not.
        Before `begin` none is.
        """
        taken = self.left is None or self._is_taken(("room", room))
        return None if taken else self.reason

    def _is_taken(self, request: Hashable) -> bool:
        step = self._machine.receive(tables.ask, request)
        if any(message is tables.refused for message, _ in step.sent):
            self._machine.forget(Life, request)
            return False
        return True

    def _look(self, owner: Handle) -> None:
        machine = self._machine
        if (machine.value(tables.request, owner) is tables.Taken.OPEN
                and owner.settled in ENDED):
            machine.call("end", owner)
            self._look_whether_empty()
        if (self.left is not None
                and machine.value(tables.request, owner) is tables.Taken.ENDED
                and not self._node.is_awaited(owner)):
            machine.receive(tables.confirmed, owner)
            machine.forget(Life, owner)
            self.left -= 1
            self._look_whether_empty()

    def _look_whether_empty(self) -> None:
        if self._machine.fire("be_empty") is not None:
            self.emptied.set_result(None)
