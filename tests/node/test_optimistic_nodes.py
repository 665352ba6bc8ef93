"""Optimistic prefill over real nodes: the bootstrap comes before, in the middle, late or never."""

from collections.abc import Callable

import pytest

from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, Ordered, PrefillRequest
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.node.prefills import Toy
from tests.waiting import until

CHUNKS = 4


def scheduler(**settings: int) -> Toy:
    """A scheduler whose orders to send are carried out on every rank: one page a chunk."""
    # The clock of a test's scheduler runs a second a turn.
    given = {"slots": 4, "running_slots": 2, "retries": 2, "bootstrap_timeout_s": 1e9} | settings
    toy = Toy(OptimisticPrefill(OptimisticSettings(**given)), computes=False)  # type: ignore[arg-type]  # by name
    toy.on_send = send
    return toy


def send(ordered: Ordered) -> None:
    for sender in ordered.request.senders:
        assert isinstance(sender, Sender)
        sender.send(list(ordered.chunks), last=ordered.last, metadata=b"row" * ordered.last)


def run(toy: Toy, done: Callable[[], bool], *, computes: bool = True) -> None:
    """Let the scheduler go round until it has come about."""
    def turned() -> bool:
        if not done():
            toy.turn()
            return False
        return True

    toy.computes = computes
    until(turned, lambda: str(toy.prefill))


def ends(toy: Toy, nodes: Cluster) -> None:
    """Everything comes back, on both sides."""
    run(toy, toy.idle)
    nodes.settled()
    for node in nodes.nodes:
        assert node._core.mistakes == 0


def submit(toy: Toy, nodes: Cluster, room: int) -> PrefillRequest:
    return toy.submit(f"r{room}", *nodes.senders(room), chunks=CHUNKS)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("after", [None, *range(CHUNKS), "parked"])
def test_m5_1_the_bootstrap_comes_after_so_many_chunks(ranks: int, after: int | str | None) -> None:
    """None: before the first. What has been computed is sent as soon as it is there."""
    toy = scheduler()
    with cluster(ranks) as nodes:
        if after is None:
            receivers = published(nodes.receivers(7), CHUNKS)
        request = submit(toy, nodes, 7)
        run(toy, lambda: request.computing, computes=False)
        for chunk in range(CHUNKS):
            if after == chunk:
                receivers = published(nodes.receivers(7), CHUNKS)
                until(lambda: request.poll() is KVPoll.WAITING_FOR_INPUT)
                assert "r7" not in toy.sent
            toy.compute()
        if after == "parked":
            assert request.stage is Stage.PARKED
            receivers = published(nodes.receivers(7), CHUNKS)
        run(toy, lambda: "r7" in toy.outputs)
        until(polls(receivers, KVPoll.SUCCESS))
        assert receivers[0].metadata == {f"p{rank}": b"row" for rank in range(ranks)}
        for receiver in receivers:
            receiver.close()
        assert request.passes == 1
        ends(toy, nodes)


def test_m5_2_a_retry_hands_over_what_a_first_pass_would_have() -> None:
    """The only running slot goes to a request whose sink is there; the one before it is run again.
    """
    toy = scheduler(running_slots=1, retries=1)
    with cluster() as nodes:
        first = submit(toy, nodes, 7)
        run(toy, lambda: first.stage is Stage.PARKED)
        waiting = published(nodes.receivers(8), CHUNKS)
        second = submit(toy, nodes, 8)
        run(toy, lambda: "r8" in toy.outputs)
        assert first.prefill_retry_count == 2
        assert second.passes == 1
        waiting += published(nodes.receivers(7), CHUNKS)
        run(toy, lambda: "r7" in toy.outputs)
        until(polls(waiting, KVPoll.SUCCESS))
        for receiver in waiting:
            receiver.close()
        ends(toy, nodes)
        assert toy.outputs["r7"] == toy.sent["r7"][-1]
        assert len(toy.sent["r7"]) == 4 * CHUNKS


def test_m5_2_a_sink_that_gives_up_under_a_launched_chunk() -> None:
    """The KV is freed when the chunk has been computed, and the reason has come across."""
    toy = scheduler()
    with cluster() as nodes:
        request = submit(toy, nodes, 7)
        (receiver,) = published(nodes.receivers(7), CHUNKS)
        run(toy, lambda: request.ready and request.computing, computes=False)
        receiver.abort("the client has gone")
        run(toy, lambda: request.stage is Stage.FAILED, computes=False)
        assert toy.prefill.metrics.read()["num_optimistic_running_slots_taken"] == 1
        assert "the client has gone" in request.reason
        ends(toy, nodes)
        assert toy.sent == {}


def test_m5_2_a_failure_while_bytes_are_under_way_frees_nothing_that_is_read() -> None:
    toy = scheduler()
    with cluster(prefill={"at_once": False}) as nodes:
        (receiver,) = published(nodes.receivers(7), CHUNKS)
        request = submit(toy, nodes, 7)
        run(toy, lambda: request.stage is Stage.SENDING)
        until(lambda: nodes.writing.under_way)
        toy.prefill.abort(request, "shutting down")
        run(toy, lambda: receiver.poll() is KVPoll.FAILED)
        for _ in range(20):
            toy.turn()
        assert request.running_slot is not None
        nodes.writing.at_once = True

        def end_writes() -> None:
            nodes.writing.end()

        nodes.prefills[0]._core.ask(end_writes)
        ends(toy, nodes)
        assert receiver.failure == "p0: shutting down"


def test_m5_3_no_send_is_ordered_before_the_pass_is_finalized() -> None:
    """A sender refuses a send before its bootstrap: none is ever tried, by any of many requests."""
    toy = scheduler(slots=3, running_slots=2, retries=2)
    with cluster() as nodes:
        requests = {room: submit(toy, nodes, room) for room in range(12)}
        for room in reversed(requests):
            (receiver,) = published(nodes.receivers(room), CHUNKS)
            run(toy, lambda r=room: f"r{r}" in toy.outputs)  # type: ignore[misc]  # bound at once
            until(polls([receiver], KVPoll.SUCCESS))
            receiver.close()
        assert len(toy.outputs) == len(requests)
        ends(toy, nodes)
