"""Traces of real runs against the tables: what conforms, and that no altered line does.

The golden trace is of `pdproto handoff --requests 6 --pp 2 --abort-rate 0.5 --seed 7`. Where the
tables or the form of a trace change, write a new one with `--trace tests/check/trace/golden`.
"""

from pathlib import Path

import pytest

from pdproto.cli.systems import load
from tests.check.trace.alterations import Replayer, alterations, golden
from tests.check.trace.oracle import Oracle
from tests.tiers import examples

TRANSFER = load("transfer")
# What is left when these are dropped is a run too: the message came late, or never; a call was not
# made; a resend was not needed. With its numbers the file shows that a line is missing.
DROPPED = {"finish", "ignore_failed_success_failed", "learn", "meet", "note_stopping",
           "refuse_address", "refuse_meeting"}

ONE_OF = examples(4, 2)  # one of so many alterations is tried, of each kind


@pytest.fixture
def replayer(tmp_path: Path) -> Replayer:
    return Replayer(TRANSFER, tmp_path)


def test_the_golden_trace_conforms(replayer: Replayer) -> None:
    assert replayer.verdict(golden()) == "holds"
    assert Oracle(TRANSFER, golden()).verdict() == "holds"


@pytest.mark.parametrize("kind", ["dropped", "swapped"])
def test_a_line_that_is_missing_or_out_of_order_is_found(replayer: Replayer, kind: str) -> None:
    """All of them: a file counts its lines. Its last line is missed where rows or peers need it."""
    files = golden()
    tried = 0
    for altered in alterations(TRANSFER, files, renumber=False):
        if altered.kind != kind:
            continue
        tried += 1
        if replayer.verdict(altered.files) == "holds":
            short = [lines for lines, whole in zip(altered.files, files, strict=True)
                     if lines == whole[:-1]]
            assert short, f"{altered.what} {kind}"
            assert altered.what in DROPPED
    assert tried > 150


@pytest.mark.parametrize("kind", ["dropped", "swapped", "row", "parameter"])
def test_lines_are_compared_with_the_tables(replayer: Replayer, kind: str) -> None:
    """Numbered anew, an altered trace is accepted only where it is a run of the tables all the
    same: so says the oracle. It agrees where a trace is refused, too.
    """
    every = [altered for altered in alterations(TRANSFER, golden()) if altered.kind == kind]
    accepted = set()
    for number, altered in enumerate(every):
        if number % ONE_OF:
            continue
        verdict = replayer.verdict(altered.files)
        if verdict == "holds" or number % 20 == 0:
            oracle = Oracle(TRANSFER, altered.files).verdict()
            assert verdict == oracle, f"{altered.what} {kind}"
        if verdict == "holds":
            accepted.add(altered.what)
    assert len(every) > 150
    assert accepted <= {
        "dropped": DROPPED,
        # Lines that have nothing to do with each other.
        "swapped": {
            "begin_send", "device", "elements", "ignore_failed_success_failed", "meet",
            "note_drained", "post", "refuse_address", "refuse_meeting", "release_kv",
            "say_drained", "send", "send_more", "take_part"},
        "row": set(),
        # The same message from the other source; the life that an endpoint will belong to.
        "parameter": {"begin_send", "hear_failure", "ignore_failed_success_failed"},
    }[kind]
