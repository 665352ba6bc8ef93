"""How fast an endpoint takes events: the plain path of a sender, guards and effects included.

    python -m tests.bench.bench_dispatch [RUNS]

prints millions of events a second on one core, the best of RUNS runs (default: 9) that take turns:

    endpoint      Endpoint.take over an automaton of the source's table, as a node calls it
    if / elif     the same path written by hand, as a method that tests its state and assigns it
    dict          the same path as a mapping from (state, event) to the next state and what is sent
    with look-up  finding each event by its name and arguments, and then taking it

The path is: opened by the scheduler, introduced to and told where to write by the sink, handed its
only chunk, given room, landed; which ends with Success, a message, and the pages released.
"""

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Final

from pdproto.runtime.automaton import Automaton, Event
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.role import SOURCE_ROLE
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Sending, Write

RUNS: Final = 9
HANDOVERS: Final = 20_000
PEERS: Final = ("sink",)


def path(automaton: Automaton) -> list[Event]:
    """The events of one hand-over, in their order."""
    here = 0, 0, 0
    return [
        automaton.call("open_sender"),
        automaton.message(ends.introduce, here),
        automaton.message(ends.publish, here, automaton.bits(ends.address, here)),
        automaton.call("send", (0,)),
        automaton.pace("post"),
        automaton.device((ends.write, (0, 0, 0, 0), Write.LANDED)),
    ]


def by_endpoint() -> int:
    """All hand-overs, each with an endpoint of its own. Returns how many events there were."""
    automaton = SOURCE_ROLE.automaton_for(sinks=1, chunks=1)
    events = path(automaton)
    for _ in range(HANDOVERS):
        endpoint = Endpoint(automaton, None, PEERS, None)
        for event in events:
            endpoint.take(event)
        assert endpoint.state
    assert endpoint.value(ends.sending, (0, 0)) is Sending.SUCCESS
    return HANDOVERS * len(events)


def found_and_taken() -> int:
    """The same, with each event found first."""
    automaton = SOURCE_ROLE.automaton_for(sinks=1, chunks=1)
    for _ in range(HANDOVERS):
        endpoint = Endpoint(automaton, None, PEERS, None)
        for event in path(automaton):
            endpoint.take(event)
    assert endpoint.value(ends.sending, (0, 0)) is Sending.SUCCESS
    return HANDOVERS * len(path(automaton))


HEARD: Final = ("open", "introduce", "publish", "send", "room", "landed")


class ByHand:
    """What somebody would write who has no table: this path, and nothing else."""

    __slots__ = ("addressed", "handed", "held", "known", "state", "written")

    def __init__(self) -> None:
        self.state, self.written = "unknown", "none"
        self.held = self.known = self.addressed = self.handed = False

    def take(self, heard: str) -> tuple[str, ...]:
        """Returns what is to be done."""
        if heard == "open" and self.state == "unknown":
            self.state, self.held = "bootstrapping", True
        elif heard == "introduce" and self.state == "bootstrapping":
            self.known = True
        elif heard == "publish" and not self.addressed:
            self.addressed = self.known = True
        elif heard == "send" and self.state == "bootstrapping" and self.addressed:
            self.state, self.handed = "transferring", True
        elif heard == "room" and self.handed and self.written == "none":
            self.written = "posted"
            return ("post",)
        elif heard == "landed" and self.written == "posted":
            self.written, self.state, self.held = "landed", "success", False
            return ("done", "release")
        else:
            raise ValueError(f"{heard} in {self.state}")
        return ()


def by_hand() -> int:
    """The same with the method."""
    for _ in range(HANDOVERS):
        one = ByHand()
        for event in HEARD:
            one.take(event)
    assert one.state == "success"
    return HANDOVERS * len(HEARD)


DONE: Final = {"room": ("post",), "landed": ("done", "release")}
NEXT: Final = {
    (state, heard): (state + 1, DONE.get(heard, ())) for state, heard in enumerate(HEARD)
}


class ByDict:
    """A mapping, as small libraries for state machines have."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = 0

    def take(self, heard: str) -> tuple[str, ...]:
        """Returns what is to be done."""
        self.state, done = NEXT[self.state, heard]
        return done


def by_dict() -> int:
    """The same with the mapping."""
    for _ in range(HANDOVERS):
        one = ByDict()
        for event in HEARD:
            one.take(event)
    assert one.state == len(HEARD)
    return HANDOVERS * len(HEARD)


WAYS: Final[dict[str, Callable[[], int]]] = {
    "endpoint": by_endpoint, "if / elif": by_hand, "dict": by_dict, "with look-up": found_and_taken,
}


def main(arguments: list[str]) -> int:
    best = dict.fromkeys(WAYS, 0.0)
    for _ in range(int(arguments[0]) if arguments else RUNS):
        for name, way in WAYS.items():
            began = perf_counter()
            events = way()
            best[name] = max(best[name], events / (perf_counter() - began))
    for name, rate in best.items():
        ratio = f"{rate / best['endpoint']:6.2f} times the endpoint's" if name != "endpoint" else ""
        print(f"{name:12}  {rate / 1e6:6.2f} M events/s  {ratio}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
