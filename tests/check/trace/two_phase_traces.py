"""The traces of a two-phase commit, as two processes write them."""

from pathlib import Path

from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.examples.two_phase_commit import (
    COORDINATOR,
    PARTICIPANT,
    Participant,
    commit,
    prepared,
)


def record(folder: Path) -> list[Path]:
    """Ann and Bob prepare, the coordinator hears both and decides, and both commit."""
    paths = [folder / name for name in ("coordinator.jsonl", "participants.jsonl")]
    with paths[0].open("wb") as one, paths[1].open("wb") as two:
        chief_trace, trace = SharedTrace("chief", one), SharedTrace("others", two)
        chief = shared(COORDINATOR, (), {Participant: ("ann", "bob")}, trace=chief_trace)
        ann, bob = (shared(PARTICIPANT, (name,), trace=trace) for name in ("ann", "bob"))
        ann.call("prepare")
        bob.call("prepare")
        chief.receive(prepared, "ann")
        chief.receive(prepared, "bob")
        chief.fire("decide_commit")
        ann.receive(commit)
        bob.receive(commit)
    return paths
