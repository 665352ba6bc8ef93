"""What a search shows of itself: nothing if it is quick, one line on a terminal, few in a log."""

import fcntl
import os
import pty
import struct
import termios
from io import StringIO

import pytest

from pdproto.check.explore import Progress
from pdproto.check.report.progress import Reporter


class Terminal(StringIO):
    """Keeps what a terminal would have been sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def look(seconds: float, *, what: str = "lock", states: int = 2_000_000) -> Progress:
    return Progress(what, states, frontier=1_000, depth=7, seconds=seconds)


LINE = "lock: 2,000,000 states, depth 7, frontier 1,000, 2.00 M states/s"


def test_a_quick_search_shows_nothing() -> None:
    stream = StringIO()
    with Reporter(stream) as reporter:
        for seconds in (0.0, 0.1, 0.49):
            reporter.show(look(seconds))
    assert stream.getvalue() == ""


def test_a_log_gets_a_line_now_and_then() -> None:
    stream = StringIO()
    with Reporter(stream) as reporter:
        for seconds in (0.4, 1.0, 5.0, 10.9, 11.0, 20.0):
            reporter.show(look(seconds))
    lines = stream.getvalue().splitlines()
    assert lines == [LINE, LINE.replace("2.00 M", "0.18 M")]


def test_each_search_is_shown_from_its_own_start() -> None:
    stream = StringIO()
    with Reporter(stream) as reporter:
        reporter.show(look(1.0))
        reporter.show(look(0.1, what="lock, again"))
        reporter.show(look(1.0, what="lock, again"))
    assert [line.split(":")[0] for line in stream.getvalue().splitlines()] == [
        "lock", "lock, again",
    ]  # fmt: skip


def test_a_terminal_shows_one_line_and_clears_it() -> None:
    stream = Terminal()
    with Reporter(stream) as reporter:
        reporter.show(look(1.0))
        reporter.show(look(1.1))  # too soon
        reporter.show(look(1.25, states=5))
    first, second, blank, end = stream.getvalue().split("\r")[1:]
    assert first == LINE
    assert second.rstrip() == "lock: 5 states, depth 7, frontier 1,000, 0.00 M states/s"
    assert len(second) == len(first)  # it covers the one before
    assert blank == " " * len(second.rstrip())
    assert end == ""


def test_a_narrow_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    Reporter(stream).show(look(1.0))
    assert stream.getvalue() == "\r" + LINE[:29]


def test_a_terminal_is_asked_for_its_own_width() -> None:
    """Not standard output's, which may be a pipe."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(slave, "w", encoding="utf-8") as stream:
        Reporter(stream).show(look(1.0))
        shown = os.read(master, 1_000).decode()
    os.close(master)
    assert shown == "\r" + LINE[:39]


def test_a_dumb_terminal_gets_the_lines_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Reporter(stream) as reporter:
        reporter.show(look(1.0))
    assert stream.getvalue() == LINE + "\n"


def test_quiet_is_quiet() -> None:
    stream = Terminal()
    with Reporter(stream, quiet=True) as reporter:
        reporter.show(look(100.0))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [StringIO(), Terminal()])
def test_messages_stay(stream: StringIO) -> None:
    with Reporter(stream) as reporter:
        reporter.say("the portable engine is slow")
        reporter.show(look(1.0))
        reporter.say("done")
    said = [line.split("\r")[-1] for line in stream.getvalue().splitlines()]
    assert said[0] == "pdproto: the portable engine is slow"
    assert said[-1] == "pdproto: done"
