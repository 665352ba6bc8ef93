"""What vLLM hears of loads and of blocks that are kept, whatever happens, between real nodes."""

from collections.abc import Iterator
from contextlib import ExitStack
from time import sleep

import pytest

from pdproto.node.prefill.keeps import Places
from pdproto.runtime import batches
from pdproto.spec.handoff import load
from pdproto.spec.handoff.load import Handoff
from pdproto.transport.sockets import Dealer
from pdproto.vllm.blocks import LayerGroup
from pdproto.vllm.loading import DECLINE, LOAD, OPEN, REFUSE, Loading, LoadingWorker, Loads
from pdproto.vllm.offer import KEY, VERSION
from pdproto.vllm.orders import Fill
from pdproto.vllm.rooms import Rooms
from tests.vllm.pair import FULL, LAYOUT, NULL_BLOCK, Decode, Prefill, Servers
from tests.waiting import until

TOKENS = 10  # of a prompt: three blocks of four
THERE, HERE = [3, 9, 4], [7, 1, 8]


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_request_is_loaded(closing: ExitStack) -> None:
    servers = Servers(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    assert servers.decode.place("r", HERE) == TOKENS
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    assert servers.decode.heard == {"r": False}
    servers.check(dict(zip(THERE, HERE, strict=True)))
    servers.decode.finish("r")
    servers.settle()
    assert servers.decode.heard == {"r": False}


def test_tokens_made_by_prefill_are_not_sent(closing: ExitStack) -> None:
    servers = Servers(closing)
    params = servers.prefill.finish("r", 8, THERE)
    servers.decode.arrive("r", 8, params)
    servers.decode.place("r", HERE)
    servers.until(lambda: not servers.decode.awaited)
    servers.check({3: 7, 9: 1})


def test_blocks_that_decode_has_are_not_sent(closing: ExitStack) -> None:
    servers = Servers(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    assert servers.decode.place("r", HERE, computed=8) == 2
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    servers.check({4: 8})


def test_a_request_that_vllm_does_not_load_frees_prefill(closing: ExitStack) -> None:
    """vLLM ignores what is matched where the prompt's log probabilities are asked for."""
    servers = Servers(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.scheduler.placed(servers.decode._requests["r"], [HERE], 0,
                                    servers.decode._orders)
    servers.until(lambda: not servers.prefill.kept)
    assert servers.decode.heard == {}
    servers.check({})


def test_several_groups_are_loaded(closing: ExitStack) -> None:
    """Prefill has let go of blocks that have left the window, and decode has none for them."""
    servers = Servers(closing, (LayerGroup(4), LayerGroup(4, window=4)))
    params = servers.prefill.finish("r", TOKENS, THERE, [NULL_BLOCK, 11, 12])
    servers.decode.arrive("r", TOKENS, params)
    assert servers.decode.place("r", HERE, [NULL_BLOCK, 21, 22]) == TOKENS
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    assert servers.decode.heard == {"r": False}
    servers.check(dict(zip(THERE, HERE, strict=True)))
    servers.check({11: 21, 12: 22}, group=1)


def test_decode_computes_a_prompt_whose_window_has_left_a_block_that_it_needs(
    closing: ExitStack
) -> None:
    """Decode computes the last token again, so it looks back one token more than prefill kept."""
    servers = Servers(closing, (LayerGroup(4), LayerGroup(4, window=7)))
    params = servers.prefill.finish("r", TOKENS, THERE, [NULL_BLOCK, 11, 12])
    servers.decode.arrive("r", TOKENS, params)
    assert servers.decode.place("r", HERE, [20, 21, 22]) == 0
    servers.until(lambda: not servers.prefill.kept)
    assert servers.decode.heard == {}


@pytest.mark.parametrize("steps", range(4))
def test_a_request_that_ends_while_it_is_loaded_is_told_once(
    closing: ExitStack, steps: int
) -> None:
    servers = Servers(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.place("r", HERE)
    for _ in range(steps):
        servers.step()
    servers.decode.finish("r")
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    servers.settle()


def test_a_request_that_ends_without_blocks_is_never_told(closing: ExitStack) -> None:
    servers = Servers(closing)
    for name, steps in (("early", 0), ("later", 3)):
        params = servers.prefill.finish(name, TOKENS, THERE)
        servers.decode.arrive(name, TOKENS, params)
        for _ in range(steps):
            servers.step()
        servers.decode.finish(name)
        servers.until(lambda: not servers.prefill.kept)
    servers.settle()
    assert servers.decode.heard == {}


def test_prefill_waits_while_a_request_waits_for_blocks(closing: ExitStack) -> None:
    """Its clock is for requests that never come to decode."""
    servers = Servers(closing, bootstrap_timeout=0.5, no_news=0.1)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    with pytest.raises(AssertionError):
        servers.until(lambda: not servers.prefill.kept, seconds=1.5)
    servers.decode.place("r", HERE)
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    assert servers.decode.heard == {"r": False}


def test_a_request_that_comes_too_late_fails_at_once(closing: ExitStack) -> None:
    """Prefill has given the blocks to others: decode hears so, and waits for no clock."""
    servers = Servers(closing)
    servers.prefill = Prefill(closing, waits={"bootstrap_timeout": 2.0})
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.until(lambda: not servers.prefill.kept)
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.place("r", HERE)
    servers.until(lambda: not servers.decode.awaited, seconds=1.5)
    assert servers.decode.heard == {"r": True}
    assert servers.decode.bad_blocks == set(HERE)
    servers.check({})


ALSO_HERE = [20, 21, 22]


@pytest.mark.parametrize("early", [0, 1, 2], ids=["both late", "one early", "both early"])
@pytest.mark.parametrize("stages", [(1, 1), (2, 1), (2, 2)],
                         ids=["one rank", "two of prefill", "stage to stage"])
def test_a_request_that_two_ask_for_is_given_to_both(
    closing: ExitStack, early: int, stages: tuple[int, int]
) -> None:
    """Before prefill's workers have opened the room, or after. No clock runs. Seen red with
    a second stage that serves the first of them only.
    """
    servers = Servers(closing, stages=stages, places=Places(1, 3), keep=600.0, no_news=600.0,
                      no_bytes=600.0)
    params = servers.prefill.finish("r", TOKENS, THERE)
    for place, (name, blocks) in enumerate((("r1", HERE), ("r2", ALSO_HERE))):
        if place == early:
            servers.prefill.step()
        servers.decode.arrive(name, TOKENS, params)
        servers.decode.place(name, blocks)
        servers.decode.step()
    servers.until(lambda: not servers.decode.awaited)
    assert servers.decode.heard == {"r1": False, "r2": False}
    servers.check(*(dict(zip(THERE, blocks, strict=True)) for blocks in (HERE, ALSO_HERE)))
    assert servers.prefill.kept == {"r"}
    other = servers.prefill.finish("other", TOKENS, [5, 6, 7])  # it gets the only place
    servers.decode.arrive("other", TOKENS, other)
    servers.decode.place("other", [10, 11, 12])
    servers.until(lambda: not servers.decode.awaited and servers.prefill.kept == {"other"})


@pytest.mark.parametrize("early", [0, 1, 2], ids=["both late", "one early", "both early"])
def test_where_nothing_is_kept_each_is_served_or_refused_at_once(
    closing: ExitStack, early: int
) -> None:
    """Seen red with the second one early before a room had legs: it waited for 120 s."""
    servers = Servers(closing, no_news=600.0, no_bytes=600.0)
    params = servers.prefill.finish("r", TOKENS, THERE)
    for place, (name, blocks) in enumerate((("r1", HERE), ("r2", ALSO_HERE))):
        if place == early:
            servers.until(lambda: not servers.decode.awaited)
        servers.decode.arrive(name, TOKENS, params)
        servers.decode.place(name, blocks)
        servers.decode.step()
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept, seconds=5.0)
    assert servers.decode.heard["r1"] is False


def test_a_request_that_comes_after_the_keep_is_refused_at_once(closing: ExitStack) -> None:
    servers = Servers(closing, places=Places(8, 3), keep=0.1)
    params = servers.prefill.finish("r", TOKENS, THERE)
    for name, blocks in (("r1", HERE), ("r2", ALSO_HERE)):
        servers.decode.arrive(name, TOKENS, params)
        servers.decode.place(name, blocks)
        servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept, seconds=5.0)
    assert servers.decode.heard == {"r1": False, "r2": True}


def test_another_decode_server_takes_over_from_one_that_has_died(closing: ExitStack) -> None:
    """Before it has loaded, with the same params, and without a clock."""
    servers = Servers(closing, places=Places(8, 3), keep=600.0)
    other = Decode(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    servers.step()
    for worker in servers.decode.workers:
        worker.node.close()
    other.arrive("again", TOKENS, params)
    other.place("again", HERE)

    def is_loaded() -> bool:
        servers.prefill.step()
        return bool(other.step().over)

    until(is_loaded)
    assert other.heard == {"again": False}
    assert servers.prefill.kept == {"r"}


def test_a_room_of_an_earlier_run_of_prefill_is_refused(closing: ExitStack) -> None:
    servers = Servers(closing)
    params = servers.prefill.finish("r", TOKENS, THERE)
    assert params is not None
    servers.prefill.step()
    earlier = Rooms()
    params[KEY]["room"] = str(max(earlier.draw() for _ in range(3)))
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.place("r", HERE)
    servers.until(lambda: not servers.decode.awaited, seconds=5.0)
    assert servers.decode.heard == {"r": True}


def test_decode_may_come_before_prefill_has_told_its_workers(closing: ExitStack) -> None:
    servers = Servers(closing)
    servers.prefill.finish("earlier", TOKENS, THERE)
    servers.prefill.step()  # from now on it refuses rooms that it does not know
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.place("r", HERE)
    with pytest.raises(AssertionError):
        until(lambda: bool(servers.decode.step().over), within_s=0.3)
    servers.until(lambda: not servers.decode.awaited)
    assert servers.decode.heard == {"r": False}


@pytest.mark.parametrize(("spoilt", "words"), [
    ({}, "kv_transfer_params have no 'pdproto', but ['do_remote_prefill'"),
    ({KEY: None}, "kv_transfer_params have no 'pdproto'"),
    ({KEY: {"version": VERSION + 1}}, f"of version {VERSION + 1}, and {VERSION} is known here"),
    ({KEY: {"version": VERSION, "room": "1"}}, "missing required field `tokens`"),
])  # fmt: skip
def test_half_a_request_fails_alone(
    closing: ExitStack, caplog: pytest.LogCaptureFixture, spoilt: dict[str, object], words: str
) -> None:
    servers = Servers(closing)
    servers.decode.arrive("r", TOKENS, {"do_remote_prefill": True, **spoilt})
    servers.decode.place("r", HERE)
    servers.decode.step()
    assert servers.decode.heard == {"r": True}
    assert words in caplog.text
    servers.decode.finish("r")
    servers.decode.step()


@pytest.mark.parametrize(("layout", "tokens", "words"), [
    (LAYOUT, TOKENS - 1, ("10 tokens at prefill", "9 at decode")),
    ({**LAYOUT, "KV cache dtype": "bfloat16"}, TOKENS,
     ("KV cache dtype is float32 at prefill and bfloat16 at decode",)),
    ({**LAYOUT, "KV cache layout": "LBNHC"}, TOKENS,
     ("KV cache layout is LBHNC at prefill and LBNHC at decode",)),
    ({**LAYOUT, "engine": "SGLang"}, TOKENS, ("engine is not said at prefill and SGLang",)),
])  # fmt: skip
def test_servers_that_differ_say_both_values(
    closing: ExitStack, caplog: pytest.LogCaptureFixture, layout: dict[str, str], tokens: int,
    words: tuple[str, ...],
) -> None:
    servers = Servers(closing)
    odd = Decode(closing, layout=layout)
    params = servers.prefill.finish("r", TOKENS, THERE)
    odd.arrive("r", tokens, params)
    odd.step()
    servers.until(lambda: not servers.prefill.kept, seconds=5.0)  # while decode has no memory yet
    assert odd.step() == Loads()
    odd.place("r", HERE)
    until(lambda: bool(odd.step().over))
    assert odd.heard == {"r": True}
    for word in words:
        assert word in caplog.text
    assert "decode did not take its KV cache" in caplog.text, "prefill hears of it too"


def test_a_request_is_declined_whose_hand_over_has_failed_already() -> None:
    """The node runs beside the worker, and may be first."""
    told: list[Loading] = []
    loading = Loading("r", told.append)
    loading.take(OPEN)
    loading.take(LOAD.device((load.handoff, (0,), Handoff.BROKEN)))
    loading.take(DECLINE, "another model")
    assert not told
    loading.take(REFUSE, "another model")
    assert told == [loading]


def test_blocks_without_a_request_to_keep_them_are_freed(closing: ExitStack) -> None:
    servers = Servers(closing)
    assert servers.prefill.finish("r", TOKENS, THERE, complete=False) is None
    assert servers.prefill.finish("r", TOKENS, []) is None
    assert not servers.prefill.kept


def test_the_end_of_prefill_fails_waiting_requests() -> None:
    with ExitStack() as closing:
        servers = Servers(closing)
        params = servers.prefill.finish("r", TOKENS, THERE)
        servers.decode.arrive("r", TOKENS, params)
        servers.decode.place("r", HERE)
        servers.prefill.workers[0].node.close()
        until(lambda: bool(servers.decode.step().over))
        assert servers.decode.heard == {"r": True}


def test_groups_that_differ_are_refused(closing: ExitStack) -> None:
    servers = Servers(closing, FULL)
    odd = Decode(closing, (LayerGroup(4), LayerGroup(4, window=8)))
    odd.arrive("r", TOKENS, servers.prefill.finish("r", TOKENS, THERE))
    odd.place("r", HERE, HERE)
    until(lambda: bool(odd.step().over))
    assert odd.heard == {"r": True}


def test_a_request_that_gets_blocks_at_once_is_told_in_one_batch(
    closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM gives most requests their blocks in the step in which they come."""
    servers, sent = Servers(closing), list[list[str]]()
    send, place = Dealer.send, LoadingWorker._place

    def placed(worker: LoadingWorker, order: Fill) -> None:
        sleep(0.05)  # a busy machine: the node's loop could begin without the blocks
        place(worker, order)

    def noted(dealer: Dealer, data: bytes) -> bool:
        batch = batches.decode(data)
        if batch.node == servers.decode.workers[0].node.name:
            sent.append([type(frame).__name__ for frame in batch.frames])
        return send(dealer, data)

    for name in ("first", "second"):  # with the first one the nodes meet
        params = servers.prefill.finish(name, TOKENS, THERE)
        servers.prefill.step()
        servers.decode.arrive(name, TOKENS, params)
        servers.decode.place(name, HERE)
        servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
        servers.decode.finish(name)
        servers.settle()
        monkeypatch.setattr(Dealer, "send", noted)
        monkeypatch.setattr(LoadingWorker, "_place", placed)
    assert sent[0] == ["Publish"], "which introduces it, too"


@pytest.mark.parametrize("here", [1, 2], ids=["into one", "stage to stage"])
def test_the_stages_of_a_pipeline_hand_over_their_layers(closing: ExitStack, here: int) -> None:
    """Each rank of prefill has one of the two layers."""
    servers = Servers(closing, stages=(2, here))
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.decode.arrive("r", TOKENS, params)
    assert servers.decode.place("r", HERE) == TOKENS
    servers.until(lambda: not servers.decode.awaited and not servers.prefill.kept)
    assert servers.decode.heard == {"r": False}
    servers.check(dict(zip(THERE, HERE, strict=True)))
    servers.decode.finish("r")
    servers.settle()


@pytest.mark.parametrize("here", [1, 2], ids=["into one", "stage to stage"])
def test_the_end_of_one_stage_fails_the_request(closing: ExitStack, here: int) -> None:
    """And the other stage has its blocks back."""
    servers = Servers(closing, stages=(2, here))
    params = servers.prefill.finish("r", TOKENS, THERE)
    servers.prefill.step()
    servers.prefill.workers[1].node.close()
    servers.decode.arrive("r", TOKENS, params)
    servers.decode.place("r", HERE)
    until(lambda: bool(servers.decode.step().over))
    assert servers.decode.heard == {"r": True}
    servers.decode.finish("r")
    left = servers.prefill.workers[0]
    until(lambda: (servers.decode.step(), "r" in left.over())[1])
