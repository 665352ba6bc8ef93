"""Progress on stderr: one line that is rewritten on a terminal, or a line every 10 s in a log."""

import os
import shutil
import sys
from types import TracebackType
from typing import Final, Self, TextIO

from pdproto.check.explore import Progress

FIRST_AFTER: Final = 0.5  # seconds; a quick answer needs no progress
ON_TERMINAL: Final = 0.2
IN_LOG: Final = 10.0


class Reporter:
    """Shows the progress of a long task. quiet: show none, only the lines of `say`."""

    def __init__(self, stream: TextIO = sys.stderr, *, quiet: bool = False) -> None:
        self._stream: Final = stream
        self._quiet: Final = quiet
        # A dumb terminal cannot go back to the start of a line, so it is treated like a log.
        self._terminal: Final = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._next = FIRST_AFTER
        self._what = ""
        self._width = 0

    def show(self, progress: Progress) -> None:
        """A monitor for explore()."""
        if progress.what != self._what:
            self._what, self._next = progress.what, FIRST_AFTER
        self.line(
            f"{progress.what}: {progress.states:,} states, depth {progress.depth}, "
            f"frontier {progress.frontier:,}, {progress.states_per_second / 1e6:.2f} M states/s",
            progress.seconds,
        )

    def line(self, text: str, seconds: float) -> None:
        """Show a line of progress, unless the last one is too recent.

        seconds: since the beginning of the task.
        """
        if self._quiet or seconds < self._next:
            return
        self._next = seconds + (ON_TERMINAL if self._terminal else IN_LOG)
        if self._terminal:
            self._rewrite(text)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def say(self, line: str) -> None:
        """Print a line that is not rewritten."""
        self.clear()
        self._stream.write(f"pdproto: {line}\n")
        self._stream.flush()

    def remark(self, line: str) -> None:
        """Print a line about the progress that is not rewritten."""
        if not self._quiet:
            self.say(line)

    def clear(self) -> None:
        """Take the line of progress away, so that others may print."""
        self._rewrite("")

    def _rewrite(self, line: str) -> None:
        if self._terminal and (line or self._width):
            # A line that wraps could not be rewritten.
            line = line[: self._columns() - 1]
            self._stream.write("\r" + line.ljust(self._width) + ("" if line else "\r"))
            self._stream.flush()
            self._width = len(line)

    def _columns(self) -> int:
        """The width of this stream's own terminal; standard output may be another one."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            return shutil.get_terminal_size().columns

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()
