"""What a node counts, under the names that dashboards know, and what its log says in fields."""

import logging
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from pdproto.engine.contract import SinkCounts, SourceCounts
from pdproto.node import metrics
from pdproto.node.metrics import COUNTERS, Metrics
from pdproto.pages.engine_counts import SINK_COUNTS, SOURCE_COUNTS
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.incarnation import new_incarnation
from tests.engine.engines import BUILT_IN
from tests.node.data_paths import cluster, polls, published
from tests.transport.victim import PAGE_BYTES, PAGES, pools, sink, source
from tests.waiting import until


def test_prometheus_reads_every_number_once() -> None:
    numbers = Metrics({"node": "p0", "side": "prefill"})
    numbers.add("handoffs_opened", 2)
    for state in ("waiting", "running"):
        numbers.gauge("num_toys", "Toys", lambda state=state: len(state), state=state)  # type: ignore[misc]  # bound at once
    numbers.counter("played", "Games", lambda: 3.0)
    text = numbers.text()
    assert 'handoffs_opened_total{node="p0",side="prefill"} 2.0' in text
    assert 'num_toys{node="p0",side="prefill",state="waiting"} 7.0' in text
    assert 'played_total{node="p0",side="prefill"} 3.0' in text
    assert re.findall(r"# TYPE num_toys (\w+)", text) == ["gauge"]
    read = numbers.read()
    assert (read["num_toys{state=\"running\"}"], read["played"]) == (7, 3)
    assert len(read) == len(COUNTERS) + 3


@pytest.mark.parametrize(("ours", "theirs"), [
    (SOURCE_COUNTS, SourceCounts()), (SINK_COUNTS, SinkCounts()),
])
def test_every_count_of_an_engine_is_told(
    ours: dict[str, object], theirs: SourceCounts | SinkCounts
) -> None:
    assert ours.keys() == {field.name for field in fields(theirs)}


@pytest.mark.parametrize("engine", BUILT_IN)
def test_a_hand_over_adds_to_the_counters(engine: str) -> None:
    """Bytes, chunks and seconds at both ends, and gauges that return to zero."""
    prefill = source(engine, pools(1))
    decode = sink(engine, pools())
    try:
        sender, receiver = prefill.open(7), decode.open(7, {"p0": prefill.endpoint})
        receiver.publish(range(PAGES))
        until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
        at_decode = decode.metrics.read()
        assert at_decode['num_handoffs{state="waiting"}'] == at_decode["engine_leases"] == 1
        assert at_decode["num_decode_leases"] == at_decode["num_decode_transfer_queue_reqs"] == 1
        assert prefill.metrics.read()["num_prefill_bootstrap_queue_reqs"] == 1
        sender.send(range(PAGES // 2), last=False)
        sender.send(range(PAGES // 2, PAGES))
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        until(lambda: not decode.metrics.read()["engine_leases"])
        for node in (prefill, decode):
            until(lambda node=node: not any(  # type: ignore[misc]  # bound at once
                value for name, value in node.metrics.read().items() if name.startswith("num_")))
            numbers = node.metrics.read()
            assert numbers["landed_chunks"] == 2
            assert numbers["transfer_bytes"] >= PAGES * PAGE_BYTES
            assert numbers["transfer_seconds"] > 0
            assert numbers["engine_refused_writes"] == numbers["turn_errors"] == 0
            assert f'transfer_bytes_total{{node="{node.name}"' in node.metrics.text()
        assert decode.metrics.read()["held_chunk_seconds"] > 0
    finally:
        prefill.close()
        decode.close()


def test_every_counter_is_counted() -> None:
    """By some module of net: a number that nobody adds to tells a dashboard that all is well."""
    modules = Path(metrics.__file__).parent.rglob("*.py")
    text = "".join(module.read_text() for module in modules if module.name != "metrics.py")
    assert [name for name in COUNTERS if f'"{name}"' not in text] == []


def test_a_failure_is_logged_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Room, incarnation, generation and rank, for whoever reads logs by their fields."""
    with caplog.at_level(logging.WARNING, "pdproto"), cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        alone = nodes.prefills[0].open(8)
        alone.abort("nobody came")
        receiver.abort("the client has left")
        until(polls([sender, alone], KVPoll.FAILED))
        assert nodes.decodes[0].metrics.read()["aborts_sent"] >= 1
    said = {r.getMessage(): r.__dict__ for r in caplog.records if "has failed" in r.getMessage()}
    assert said.keys() == {
        "node d0: room 7 (11.0) with p0 has failed: the client has left",
        "node p0: room 7 (11.0) with d0 has failed: d0: the client has left",
        "node p0: room 8 has failed: nobody came",
    }
    for message, told in said.items():
        assert told["rank"] == message[5:7]
        assert told["room"] == int(message[14])
        if told["room"] == 7:
            assert (told["incarnation"], told["generation"]) == (17, 0)


def test_incarnations_grow() -> None:
    """From one restart to the next; within one step of the clock they are only told apart."""
    drawn = [new_incarnation() for _ in range(8)]  # few: of many in one step two may be alike
    assert len(set(drawn)) == 8
    steps = [number >> 20 for number in drawn]
    assert all(before <= after for before, after in pairwise(steps))
    two_steps_on = drawn[-1] + (2 << 20)
    until(lambda: two_steps_on < new_incarnation() < 1 << 63)
