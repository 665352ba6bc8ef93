"""Logs as JSON: what a log pipeline reads of a hand-over that fails."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.json_logs import JsonFormatter, log_as_json, lost_lines
from tests.node.data_paths import cluster, polls, published
from tests.waiting import until


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged, while the test runs."""
    ours, text = logging.getLogger("pdproto"), io.StringIO()
    before = list(ours.handlers), ours.level, ours.propagate
    log_as_json(text)
    yield text
    ours.handlers[:], ours.propagate = before[0], before[2]
    ours.setLevel(before[1])


def test_a_failure_is_one_object_with_its_hand_over(written: io.StringIO) -> None:
    with cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(7), nodes.receivers(7)
        receiver.abort("a \"line\"\nand another")
        until(polls([sender, receiver], KVPoll.FAILED))
        lines = [json.loads(line) for line in written.getvalue().splitlines()]
    (at_decode,) = (line for line in lines if line.get("rank") == "d0" and "room" in line)
    assert at_decode.keys() == {
        "time", "level", "logger", "message", "rank", "room", "incarnation", "generation"}
    assert (at_decode["room"], at_decode["incarnation"], at_decode["generation"]) == (7, 17, 0)
    assert at_decode["message"] == (
        'node d0: room 7 (11.0) with p0 has failed: a "line"\nand another')
    assert at_decode["time"].endswith("Z")


def test_an_exception_is_a_field() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        record = logging.LogRecord("pdproto.node", logging.ERROR, "", 0, "failed", (),
                                   (type(error), error, error.__traceback__))
    told = json.loads(JsonFormatter().format(record))
    assert told["exception"].endswith("ValueError: broken")


@pytest.mark.usefixtures("written")
def test_a_full_disk_loses_lines_and_no_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the errors of logging itself go to that disk. The metric counts the lines."""
    disk = open("/dev/full", "w")  # noqa: SIM115 - to close it fails
    monkeypatch.setattr(sys, "stderr", disk)
    log_as_json(disk)
    before = lost_lines()
    with cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(7), nodes.receivers(7)
        receiver.abort("which is a line of the log")
        until(polls([sender, receiver], KVPoll.FAILED))
        (sender,), (receiver,) = nodes.senders(8), published(nodes.receivers(8))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        assert [node._loop.turn_errors for node in nodes.nodes] == [0, 0]
        assert lost_lines() > before
        assert {node.metrics.read()["lost_log_lines"] for node in nodes.nodes} == {lost_lines()}
    with suppress(OSError):
        disk.close()
