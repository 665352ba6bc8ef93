"""Prefill that begins before its bootstrap: what a scheduler sees of it (MISSION rows M5)."""

import random

import pytest

from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, PrefillRequest
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.sample import retry_is_forced
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.poll import KVPoll
from tests.node.prefills import FakeSender, Toy

READY = KVPoll.WAITING_FOR_INPUT


def toy(*, computes: bool = True, **settings: float) -> Toy:
    given = {"slots": 4, "running_slots": 2, "retries": 2} | settings
    return Toy(OptimisticPrefill(OptimisticSettings(**given)), computes=computes)  # type: ignore[arg-type]  # by name


def turns(scheduler: Toy, most: int = 12) -> None:
    for _ in range(most):
        scheduler.turn()


def stage(request: PrefillRequest) -> Stage:
    return request.stage


def land(scheduler: Toy, *senders: FakeSender) -> None:
    """What has been sent arrives."""
    for sender in senders:
        sender.word = KVPoll.SUCCESS
    scheduler.turn()


def plain_output(name: str, chunks: int = 3) -> str:
    """What the model says when its bootstrap was there from the first."""
    scheduler, sender = toy(), FakeSender(READY)
    scheduler.submit(name, sender, chunks=chunks)
    turns(scheduler)
    land(scheduler, sender)
    return scheduler.outputs[name]


@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
def test_m5_1_it_starts_before_the_bootstrap_and_is_parked_until_then(chunks: int) -> None:
    scheduler, sender = toy(), FakeSender()
    request = scheduler.submit("r", sender, chunks=chunks)
    turns(scheduler)
    assert stage(request) is Stage.PARKED
    assert request.slot is not None
    assert "r" not in scheduler.sent
    sender.word = READY
    scheduler.turn()
    assert stage(request) is Stage.SENDING
    assert len(scheduler.sent["r"]) == chunks * 4
    land(scheduler, sender)
    assert scheduler.outputs == {"r": plain_output("r", chunks)}
    assert scheduler.idle()


@pytest.mark.parametrize("after", range(5))
def test_m5_1_the_bootstrap_is_polled_before_every_further_chunk(after: int) -> None:
    """As soon as it is there, all that has been computed is sent, and then chunk by chunk."""
    scheduler, sender = toy(computes=False), FakeSender()
    request = scheduler.submit("r", sender, chunks=5)
    scheduler.turn()
    for chunk in range(5):
        assert request.chunk == chunk
        if chunk == after:
            sender.word = READY
        scheduler.compute()
        assert len(scheduler.sent.get("r", ())) == (4 * (chunk + 1) if chunk >= after else 0)
    assert stage(request) is Stage.SENDING
    land(scheduler, sender)
    assert scheduler.outputs == {"r": plain_output("r", 5)}
    assert scheduler.idle()


def test_m5_1_a_retracted_request_waits_for_its_bootstrap() -> None:
    scheduler, sender = toy(), FakeSender()
    request = scheduler.submit("r", sender, retracted=True)
    turns(scheduler)
    assert (request.stage, request.passes) == (Stage.QUEUED, 0)
    sender.word = READY
    turns(scheduler)
    assert stage(request) is Stage.SENDING


def crossed(scheduler: Toy) -> tuple[PrefillRequest, FakeSender, FakeSender]:
    """One request is parked in the only running slot, and another could go on in its place."""
    first, second = FakeSender(), FakeSender()
    parked = scheduler.submit("parked", first)
    turns(scheduler, 4)
    assert stage(parked) is Stage.PARKED
    scheduler.submit("other", second)
    second.word = READY
    return parked, first, second


def test_m5_2_it_yields_to_one_that_can_go_on_and_runs_again_from_the_head() -> None:
    scheduler = toy(running_slots=1)
    parked, first, second = crossed(scheduler)
    late = scheduler.submit("late", FakeSender())
    slot = parked.slot
    scheduler.computes = False
    scheduler.turn()
    assert parked.prefill_retry_count == 1
    assert parked.slot == slot, "it is kept across a retry"
    # It has waited longest, so it has the running slot before the one it has yielded to.
    assert (parked.stage, parked.passes) == (Stage.RUNNING, 2)
    assert late.stage is Stage.WAITING
    scheduler.computes = True
    turns(scheduler)
    land(scheduler, second)
    assert "other" in scheduler.outputs
    first.word = READY
    turns(scheduler)
    land(scheduler, first)
    assert scheduler.outputs["parked"] == plain_output("parked")
    assert ("DROP", "parked") in scheduler.happened


@pytest.mark.parametrize("retries", [1, 2, 3])
def test_m5_2_after_so_many_passes_it_falls_back_and_gives_up_its_slot(retries: int) -> None:
    scheduler = toy(running_slots=1, retries=retries)
    parked, first, second = crossed(scheduler)
    turns(scheduler, 40)
    assert stage(parked) is Stage.DEFERRED
    numbers = scheduler.prefill.metrics.read()
    # SGLang counts passes that are queued again at once, and not requests that wait from now on.
    assert numbers["prefill_retries"] - numbers["sglang:num_prefill_retries"] == 1
    assert parked.passes == retries + 1
    assert parked.slot is None
    land(scheduler, second)
    turns(scheduler)
    assert parked.passes == retries + 1, "it is not run again before its bootstrap"
    first.word = READY
    turns(scheduler)
    assert parked.passes == retries + 2
    land(scheduler, first)
    assert scheduler.outputs["parked"] == plain_output("parked")
    assert scheduler.idle()


def test_m5_2_no_retries_is_off() -> None:
    scheduler, sender = toy(retries=0), FakeSender()
    request = scheduler.submit("r", sender)
    turns(scheduler)
    assert (request.stage, request.passes) == (Stage.QUEUED, 0)
    sender.word = READY
    turns(scheduler)
    land(scheduler, sender)
    assert (request.passes, scheduler.outputs) == (1, {"r": plain_output("r")})


def test_m5_2_it_yields_between_chunks_but_never_under_a_launched_one() -> None:
    scheduler = toy(running_slots=1, computes=False)
    running = scheduler.submit("running", FakeSender(), chunks=5)
    scheduler.turn()
    scheduler.submit("other", FakeSender(READY))
    for _ in range(3):
        scheduler.turn()
        assert scheduler.kv["running"] == []
    scheduler.compute()
    assert ("DROP", "running") in scheduler.happened
    assert running.prefill_retry_count == 1
    assert scheduler.happened.count(("COMPUTE", "running")) == 1


@pytest.mark.parametrize("chunk", range(3))
def test_m5_2_a_failure_under_a_launched_chunk_waits_for_it(chunk: int) -> None:
    scheduler, sender = toy(computes=False), FakeSender()
    request = scheduler.submit("r", sender)
    scheduler.turn()
    for _ in range(chunk):
        scheduler.compute()
    sender.word, sender.failure = KVPoll.FAILED, "d0: the client has gone"
    turns(scheduler, 3)
    assert stage(request) is Stage.FAILED
    assert request.running_slot is not None
    scheduler.compute()
    assert scheduler.happened[-1] == ("END", "r")
    assert request.reason == "d0: the client has gone"
    assert scheduler.idle()


def test_m5_2_kv_that_is_being_read_outlives_a_failure() -> None:
    scheduler, sender = toy(), FakeSender(READY)
    request = scheduler.submit("r", sender)
    turns(scheduler, 4)
    assert stage(request) is Stage.SENDING
    sender.word, sender.held = KVPoll.FAILED, True
    turns(scheduler)
    assert request.running_slot is not None
    sender.held = False
    scheduler.turn()
    assert scheduler.idle()


def test_m5_3_the_steps_are_separate_and_finalize_happens_once() -> None:
    settings = OptimisticSettings(slots=1, running_slots=1, retries=1)
    prefill, sender = OptimisticPrefill(settings), FakeSender()
    request = prefill.create_sender("r", [sender], chunks=2, now=0.0)
    assert request.slot is None
    assert prefill.ensure_metadata_buffer(request)
    assert prefill.ensure_metadata_buffer(request), "it may be asked again"
    assert not prefill.finalize_bootstrap(request)
    assert prefill.start(1.0) is request
    prefill.chunk_done(request, 2.0)
    assert not prefill.finalize_bootstrap(request)
    sender.word = READY
    prefill.chunk_done(request, 3.0)
    assert request.finalized
    assert prefill.finalize_bootstrap(request), "it stays, and is not done again"
    finals = [o for o in prefill.orders() if o.last]
    assert len(finals) == 1
    with pytest.raises(LocalProtocolError, match="no chunk"):
        prefill.chunk_done(request, 4.0)


def test_m5_3_every_pass_is_finalized_with_a_slot() -> None:
    """Whatever happens, what is sent has its slot: finalize cannot fail for want of one."""
    random_ = random.Random(5)  # noqa: S311 - nothing secret
    scheduler = toy(slots=2, running_slots=2, retries=2)
    slots: list[int | None] = []
    scheduler.on_send = lambda ordered: slots.append(ordered.request.slot)
    senders = [FakeSender() for _ in range(30)]
    for number, sender in enumerate(senders):
        scheduler.submit(f"r{number}", sender)
    waiting = list(senders)
    for _ in range(3_000):
        if scheduler.idle():
            break
        for sender in random_.sample(waiting, min(1, len(waiting))):
            sender.word = READY
            waiting.remove(sender)
        scheduler.turn()
        for request in list(scheduler.prefill._steps.stages.at[Stage.SENDING]):
            sender = senders[int(request.id[1:])]
            sender.word = KVPoll.SUCCESS
    assert scheduler.idle()
    assert len(scheduler.outputs) == 30
    assert None not in slots


def test_m5_4_a_request_without_a_slot_is_passed_over() -> None:
    """Two early ones hold the slots; the third, whose bootstrap is there, gets through."""
    scheduler = toy(slots=2, running_slots=2, retries=1)
    early = [scheduler.submit(f"early{n}", FakeSender()) for n in range(2)]
    turns(scheduler, 4)
    assert {request.stage for request in early} == {Stage.PARKED}
    sender = FakeSender(READY)
    scheduler.submit("ready", sender)
    turns(scheduler, 40)
    land(scheduler, sender)
    assert "ready" in scheduler.outputs
    assert Stage.DEFERRED in {request.stage for request in early}


def test_m5_4_both_sides_short_of_room_still_come_to_an_end() -> None:
    """The sink has a page for one request at a time, and gives it to the last: no deadlock."""
    scheduler = toy(slots=1, running_slots=1, retries=2)
    senders = {f"r{n}": FakeSender() for n in range(5)}
    for name, sender in senders.items():
        scheduler.submit(name, sender)
    for name in reversed(senders):
        senders[name].word = READY
        for _ in range(60):
            scheduler.turn()
            if scheduler.sent.get(name, ()) and len(scheduler.sent[name]) == 12:
                break
        land(scheduler, senders[name])
        assert name in scheduler.outputs
    assert scheduler.idle()


@pytest.mark.parametrize("retries", [1, 2])
def test_m5_5_a_forced_retry_is_sampled_by_the_id_and_happens_once(retries: int) -> None:
    scheduler = toy(force_retry_probability=0.5, slots=40, running_slots=40, retries=retries)
    requests = [scheduler.submit(f"r{n}", FakeSender(READY)) for n in range(40)]
    turns(scheduler, 20)
    forced = {r.id for r in requests if r.prefill_retry_count == 1}
    assert forced == {r.id for r in requests if retry_is_forced(r.id, 0.5)}
    assert 0 < len(forced) < 40
    assert {r.prefill_retry_count for r in requests} == {0, 1}
    assert {r.stage for r in requests} == {Stage.SENDING}


def test_m5_5_neither_a_retracted_request_nor_a_server_without_attempts_is_forced() -> None:
    for retries, retracted in ((0, False), (1, True)):
        scheduler = toy(force_retry_probability=1.0, retries=retries)
        request = scheduler.submit("r", FakeSender(READY), retracted=retracted)
        turns(scheduler)
        assert (request.stage, request.prefill_retry_count) == (Stage.SENDING, 0)


def test_m5_6_a_retry_resets_the_times_and_is_counted() -> None:
    scheduler = toy(running_slots=1)
    parked, first, _ = crossed(scheduler)
    before = parked.times.computed
    assert before is not None
    scheduler.computes = False
    scheduler.turn()
    assert parked.prefill_retry_count == 1
    assert parked.times.started is not None
    assert parked.times.started > before
    assert parked.times.computed is None
    numbers = scheduler.prefill.metrics.read()
    assert numbers["prefill_retries"] == numbers["sglang:num_prefill_retries"] == 1
    assert first.aborted == []


def test_m5_6_the_hit_rate_is_as_if_nothing_were_run_again() -> None:
    rates: list[float] = []
    for probability in (0.0, 1.0):
        scheduler = toy(force_retry_probability=probability, slots=8, running_slots=8)
        prefill = scheduler.prefill
        for n in range(8):
            scheduler.submit(f"r{n}", FakeSender(READY))
        cached: dict[str, int] = {}
        passes = 0
        for _ in range(10):
            prefill.turn(0.0)
            while (request := prefill.start(0.0)) is not None:
                passes += 1
                prefill.count_tokens(request, input_tokens=12,
                                     hit_tokens=cached.get(request.id, 3))
                cached[request.id] = 12  # a pass leaves its whole prefix in the cache
            scheduler.obey()
            scheduler.compute()
        assert passes == (8 if probability == 0.0 else 16)
        assert prefill.hit_rate.input_tokens == 12 * passes
        numbers = prefill.metrics.read()
        again = numbers["repeated_input_tokens"], numbers["repeated_hit_tokens"]
        assert {*again} == {12.0 * (passes - 8)}
        rates += [numbers["cache_hit_rate"], numbers["sglang:cache_hit_rate"]]
    assert rates == [0.25] * 4


def test_m5_6_hits_that_cannot_be_are_refused() -> None:
    scheduler = toy()
    request = scheduler.submit("r", FakeSender())
    assert scheduler.prefill.hit_rate.rate == 0.0
    with pytest.raises(ValueError, match="5 hits of 4 tokens"):
        scheduler.prefill.count_tokens(request, input_tokens=4, hit_tokens=5)


@pytest.mark.parametrize(("setting", "names"), [
    ("hierarchical_cache", "hierarchical cache"), ("mamba_radix_cache", "Mamba radix cache"),
])
def test_m5_7_settings_that_do_not_go_together_are_refused(setting: str, names: str) -> None:
    with pytest.raises(ValueError, match=rf"{names}.*Set retries=0"):
        OptimisticSettings(slots=1, running_slots=1, retries=1, **{setting: True})
    assert OptimisticSettings(slots=1, running_slots=1, retries=0, **{setting: True}).attempts == 0


@pytest.mark.parametrize("bad", [
    {"slots": 0}, {"running_slots": 0}, {"retries": -1}, {"force_retry_probability": 2.0},
])
def test_m5_7_nonsense_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="want"):
        OptimisticSettings(**({"slots": 1, "running_slots": 1} | bad))  # type: ignore[arg-type]  # by name


def test_a_bootstrap_that_never_comes_ends_by_the_clock() -> None:
    scheduler, sender = toy(bootstrap_timeout_s=20.0), FakeSender()
    request = scheduler.submit("r", sender)
    turns(scheduler, 40)
    assert stage(request) is Stage.FAILED
    assert sender.aborted == [request.reason] == ["bootstrap_timeout after 20 s"]
    assert scheduler.idle()


@pytest.mark.parametrize("word", [KVPoll.BOOTSTRAPPING, READY])
def test_an_abort_frees_the_resources_of_the_request(word: KVPoll) -> None:
    scheduler, sender = toy(), FakeSender(word)
    request = scheduler.submit("r", sender)
    turns(scheduler, 4)
    scheduler.prefill.abort(request, "shutting down")
    scheduler.prefill.abort(request, "again")
    scheduler.obey()
    assert sender.aborted == ["shutting down"]
    assert scheduler.idle()


def test_a_request_stands_where_its_slowest_rank_stands() -> None:
    scheduler, senders = toy(), [FakeSender(READY), FakeSender()]
    request = scheduler.submit("r", *senders)
    turns(scheduler)
    assert stage(request) is Stage.PARKED
    senders[1].word = READY
    scheduler.turn()
    land(scheduler, senders[0])
    assert stage(request) is Stage.SENDING
    land(scheduler, senders[1])
    assert scheduler.idle()


def test_a_request_without_senders_or_chunks_is_refused() -> None:
    for senders, chunks in (([], 1), ([FakeSender()], 0)):
        with pytest.raises(ValueError, match="want a sender"):
            toy().prefill.create_sender("r", senders, chunks=chunks, now=0.0)
