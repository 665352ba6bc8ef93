"""Runs for tests: a seed, a shape, and what became of it."""

import re
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

from lab.sim.cluster import simulate
from lab.sim.outcome import SHIPPED, Roles, RunOutcome
from lab.sim.plan import Kind, Shape, planned


def ran(
    seed: int, *faults: Kind, roles: Roles = SHIPPED, requests: int = 40, **shape: Any
) -> RunOutcome:
    """The outcome of a seed."""
    plan = planned(seed, Shape(requests=requests, faults=faults, **shape), Random)
    return simulate(plan, Random, roles=roles)


class Traces:
    """Every trace of a run, in memory."""

    def __init__(self) -> None:
        self.bytes_of: dict[str, bytearray] = {}

    def open(self, process: str) -> "Traces.File":
        assert process not in self.bytes_of, "two processes have one trace"
        return Traces.File(self.bytes_of.setdefault(process, bytearray()))

    def digest(self) -> str:
        """Of every byte of every trace, but the digests of the tables, which any edit changes."""
        digest = sha256()
        for process, written in self.bytes_of.items():
            data = re.sub(rb',"tables":"[0-9a-f]{16}"', b"", written)
            digest.update(f"{process} {len(data)}\n".encode() + data)
        return digest.hexdigest()

    class File:
        def __init__(self, data: bytearray) -> None:
            self._data = data

        def write(self, data: bytes) -> int:
            self._data += data
            return len(data)


def traced(seed: int, *faults: Kind, **shape: Any) -> tuple[RunOutcome, Traces]:
    """The outcome of a seed, and its traces."""
    traces = Traces()
    plan = planned(seed, Shape(faults=faults, **shape), Random)
    return simulate(plan, Random, targets=traces.open), traces


def without(outcome: RunOutcome, *rooms: int) -> RunOutcome:
    """The same run without these requests."""
    plan = outcome.plan
    kept = tuple(request for request in plan.requests if request.room not in rooms)
    return simulate(replace(plan, requests=kept), Random)
