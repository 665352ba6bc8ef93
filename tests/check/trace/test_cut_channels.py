"""A trace is cut, and its messages are in a channel: the replay comes to an end."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.spec.language import (
    TRUE,
    Call,
    Configuration,
    Machine,
    Message,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
)


class Value(Sort):
    """A value."""


class Place(Sort, ordered=True):
    """A place in a channel."""


v = Value("v")
writer, reader = Machine("writer"), Machine("reader")
got = reader.relation("got", Value)
item = Message("item", v, sender=writer, receiver=reader, fifo=Place)
SYSTEM = System("numbers", "One channel.", tables=(
    Table(writer, rows=(Row("write", on=Call("write", v), send=item(v)),)),
    Table(reader, rows=(Row("read", on=item(v), do=got(v).to(True)),)),
), properties=(Sometimes("some", got(v)),), final=TRUE,
    configurations={"default": Configuration({Value: 2, Place: 2})})
WROTE, READ = ("write", "call write(v)"), ("read", "item(v)")


def told(folder: Path, machine: str, kind: tuple[str, str], values: str, *, cut: bool = False
         ) -> Path:
    """The trace of a machine that takes its row with each of these values. cut: within the last."""
    about = {"node": machine, "machine": machine, "end": 1}
    lines = [{"n": 1, **about, "begins": {}, "own": {}}]
    lines += [{"n": n, **about, "row": kind[0], "on": kind[1], "with": {"v": value}}
              for n, value in enumerate(values, start=2)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path = folder / f"{machine}.jsonl"
    path.write_text(text[:-20] if cut else text)
    return path


def verdict(folder: Path, written: str, read: str, *, cut: bool) -> Verdict:
    paths: Sequence[Path] = [told(folder, "writer", WROTE, written, cut=cut),
                             told(folder, "reader", READ, read)]
    return verify(SYSTEM, paths).verdict


@pytest.mark.parametrize(("written", "read", "cut", "answer"), [
    ("ab", "ab", False, Verdict.HOLDS),
    ("ab", "ab", True, Verdict.UNKNOWN),  # b may have been written after the cut
    ("ab", "aba", True, Verdict.UNKNOWN),  # and a once more after it
    ("ab", "ba", True, Verdict.VIOLATED),  # b overtakes a
    ("ab", "aa", False, Verdict.VIOLATED),
    ("ab", "aab", False, Verdict.VIOLATED),
])
def test_what_a_cut_trace_may_have_sent(
    written: str, read: str, cut: bool, answer: Verdict, tmp_path: Path
) -> None:
    assert verdict(tmp_path, written, read, cut=cut) is answer


def test_a_message_is_not_of_another_trace_that_is_cut(tmp_path: Path) -> None:
    """The trace of the reader is cut, and the writer's is whole: the writer has not sent it."""
    paths = [told(tmp_path, "writer", WROTE, "a"),
             told(tmp_path, "reader", READ, "abb", cut=True)]
    assert verify(SYSTEM, paths).verdict is Verdict.VIOLATED


def test_a_process_without_a_trace_is_noticed(tmp_path: Path) -> None:
    verified = verify(SYSTEM, [told(tmp_path, "reader", READ, "ab")])
    assert verified.verdict is Verdict.UNKNOWN
    assert verified.assumes == ("writer did what others tell of it: no trace of it is given",)
