"""A run that writes a trace of every process, as the processes of a real cluster do."""

from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from lab.files import naming
from lab.sim.cluster import simulate
from lab.sim.outcome import Roles, RunOutcome
from lab.sim.plan import Plan
from pdproto.testing.chance import Seeded


def traced(plan: Plan, seeded: Seeded, roles: Roles, folder: Path | None) -> RunOutcome:
    """Simulate the plan. folder: where to write a trace of each process; None for no traces.

    Raises OSError if a trace is not whole.
    """
    if folder is None:
        return simulate(plan, seeded, roles=roles)
    into = folder / f"seed-{plan.seed}"
    into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:
        written: list[_File] = []

        def target(process: str) -> _File:
            written.append(_File(into / f"{process}.jsonl", files))
            return written[-1]

        outcome = simulate(plan, seeded, roles=roles, targets=target)
    for one in written:
        if one.error is not None:
            raise one.error
    return outcome


class _File:
    """A file that the first line creates: a process without a step has no file.

    error: of the first line that could not be written. The node goes on without its trace.
    """

    def __init__(self, path: Path, files: ExitStack) -> None:
        self.error: OSError | None = None
        self._path: Final = path
        self._files: Final = files
        self._file: BinaryIO | None = None

    def write(self, data: bytes) -> int:
        try:
            with naming(self._path):
                if self._file is None:
                    self._files.enter_context(naming(self._path))
                    self._file = self._files.enter_context(self._path.open("wb"))
                return self._file.write(data)
        except OSError as error:
            self.error = self.error or error
            raise
