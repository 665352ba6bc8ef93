"""`pdproto check --watch`: it checks again what was saved, and nothing else."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.check.stepping.serving import INTERRUPTIBLE
from tests.cli.test_stepping import SPEC

WAIT_S = 60


@contextmanager
def watching(folder: Path, *given: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The verb over job.py of the folder, with its results in the folder, too."""
    file = folder / "job.py"
    file.write_text(SPEC)
    command = [sys.executable, "-c", INTERRUPTIBLE, "check", "job.py:SYSTEM", "--watch", "--quiet"]
    with subprocess.Popen(
        [*command, *given], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    ) as process:
        try:
            yield process, file
        finally:
            process.kill()


class Output:
    """The lines of a process, each within WAIT_S seconds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        self.stream = process.stdout
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.stream:
            self.lines.put(line)

    def answer(self) -> str:
        """The lines up to the one that says that it waits."""
        told = ""
        while "waiting for a change" not in told:
            told += self.lines.get(timeout=WAIT_S)
        return told


@pytest.mark.slow
def test_a_saved_file_is_checked_again_and_a_mistake_is_told(tmp_path: Path) -> None:
    with watching(tmp_path) as (process, file):
        output = Output(process)
        assert "never_done violated after 1 step" in output.answer()
        file.write_text(SPEC.replace("SYSTEM = ", "SYSTEM == "))
        told = output.answer()
        assert "── job.py has changed" in told
        assert "job.py:" in told
        assert "Traceback" not in told
        file.write_text(SPEC.replace("to=Phase.DONE", "to=Phase.IDLE"))
        told = output.answer()
        assert "never_done violated" not in told
        assert "rows that never fired" not in told
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=WAIT_S) == 1  # a row without an effect: a deadlock


@pytest.mark.slow
def test_an_unchanged_system_is_recalled(tmp_path: Path) -> None:
    with watching(tmp_path) as (process, file):
        output = Output(process)
        assert "from an earlier run" not in output.answer()
        os.utime(file, ns=(1, 1))
        assert "from an earlier run" in output.answer()
        other = tmp_path / "unrelated.py"
        other.write_text("x = 1")
        with pytest.raises(queue.Empty):
            output.lines.get(timeout=1)


@pytest.mark.slow
def test_a_file_that_the_spec_imports_is_watched(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text('NAME = "end"\n')
    with watching(tmp_path) as (process, file):
        output = Output(process)
        output.answer()
        file.write_text("from names import NAME\n" + SPEC.replace('Row("end"', "Row(NAME"))
        output.answer()
        (tmp_path / "names.py").write_text('NAME = "finish"\n')
        assert "finish  call end" in " ".join(output.answer().split(" ")).replace("()", "")
