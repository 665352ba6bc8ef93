"""SGLang's own classes over the backend, in processes: `make test-sglang` installs it.

Every case compares every byte of every item, and every row of metadata, and ends with all counts
of the nodes back at nothing.
"""

from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.servers.serving import free_port
from examples.sglang_handoff.__main__ import summary
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import Load

REQUESTS = 24
BYSTANDER_S = 2.0  # of a request beside long ones; it takes some 0.02 s where nothing holds it up


def drill(**asked: Any) -> dict[str, Any]:
    load = Load(**{"requests": REQUESTS, "port": free_port()} | asked)
    found = summary(load, run(load, seconds=60))
    assert found["wrong"] == []
    assert found["left"] == {}
    return found


CASES: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": 3},
    "shared memory": {"chunks": 3, "engine": "shm"},
    "large pages": {"page_bytes": 32_768, "states": ("mamba",), "prefix": 2},
    "large pages, shared memory": {"page_bytes": 32_768, "chunks": 3, "engine": "shm"},
    "large pages, wider decode": {"page_bytes": 65_536, "decode_tp": 2},
    "large pages, pipeline": {"page_bytes": 32_768, "pp": 2},
    "64 chunks": {"chunks": 64, "pages": 64, "layers": 1},
    "decode prefix": {"prefix": 4, "chunks": 2},
    "states": {"states": ("swa", "mamba"), "prefix": 2, "chunks": 2},
    "latent": {"latent": True, "chunks": 2},
    "latent states": {"states": ("dsa",), "latent": True},
    "drafts": {"drafts": ("prefill", "decode"), "chunks": 2},
    "pipeline": {"pp": 2, "chunks": 3},
    "pipeline, drafts": {"pp": 2, "drafts": ("prefill", "decode")},
    "pipeline, latent": {"pp": 2, "latent": True},
    "pipeline, latent states": {"pp": 2, "latent": True, "states": ("dsa",)},
    "pipeline, states": {"pp": 2, "states": ("mamba",), "chunks": 2},
    "pipelines on both sides": {"pp": 2, "decode_pp": 2, "chunks": 2},
    "pipelines on both sides, states": {"pp": 2, "decode_pp": 2, "states": ("swa", "mamba")},
    "pipelines of several ranks": {"pp": 2, "decode_pp": 2, "prefill_tp": 2, "decode_tp": 2},
    "large pages, windows": {"page_bytes": 32_768, "states": ("swa",)},
    "large pages, pipelines on both sides": {"page_bytes": 32_768, "pp": 2, "decode_pp": 2},
    "data parallel": {"dp": 2},
    "data parallel by query": {"dp": 2, "query": True},
    "data parallel by name": {"dp": 2, "named": (1, 0), "placed": (1, 0)},
    "wider decode": {"decode_tp": 2, "states": ("swa",)},
    "wider prefill": {"prefill_tp": 2, "states": ("swa",), "prefix": 2},
    "wider decode, latent": {"decode_tp": 2, "latent": True, "states": ("dsa",)},
    "wider prefill, latent": {"prefill_tp": 2, "latent": True, "states": ("dsa",)},
    "context parallel": {"cp": 2},
    "roles that have changed": {"switched": True, "chunks": 2},  # enable_pd_role_switch
    "pipeline and wider decode": {"pp": 2, "decode_tp": 2, "chunks": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_every_byte_and_every_row_of_metadata_is_right(case: str) -> None:
    assert drill(**CASES[case])["succeeded"] == REQUESTS


@pytest.mark.parametrize("chunks", [64, 200])
def test_requests_of_many_chunks_hold_up_no_other(chunks: int) -> None:
    """Every sixth request is sent in that many chunks, and the others in one."""
    load = Load(requests=48, layers=1, pages=chunks, chunks=chunks, long_every=6,
                port=free_port())
    outcomes = run(load, seconds=60)
    found = summary(load, outcomes)
    assert (found["wrong"], found["left"]) == ([], {})
    assert found["succeeded"] == load.requests, found["reasons"]
    took = outcomes["decode0"].latencies
    slowest = max(seconds for room, seconds in took.items() if load.chunks_of(room) == 1)
    assert slowest < BYSTANDER_S, f"a request of one chunk took {slowest:.1f} s"


def test_failures_that_sglang_makes_up_end_both_sides_and_spoil_no_other_request() -> None:
    """SGLang frees the pages of such a request while its hand-over goes on."""
    asked = tuple((side, "SGLANG_TEST_DISAGG_FAILURE_PROB", "0.002")
                  for side in ("prefill", "decode"))
    found = drill(requests=60, chunks=3, environment=asked)
    assert 0 < found["failed"] < 60
    assert any("scheduler has given the request up" in why for why in found["reasons"])


def test_decode_asks_where_prefill_publishes_whatever_its_own_setting_says() -> None:
    asked = (("decode", "SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK", "1"),)
    found = drill(requests=8, environment=asked, dp=2)
    assert found["succeeded"] == 8


@pytest.mark.parametrize(("asked", "why"), [
    ({"named": (0,), "placed": (1,)},
     "was put on data-parallel rank 1, and the request names rank 0"),
    ({"placed": (1, 0)}, "decode looks for it on rank"),
], ids=["named", "by rule"])
def test_a_room_that_is_put_elsewhere_fails_on_both_sides_at_once_with_both_ranks(
    asked: dict[str, Any], why: str
) -> None:
    """M2.2, M2.3: nobody waits for a time-out."""
    load = Load(requests=6, port=free_port(), dp=2, **asked)
    found = run(load, seconds=60)
    for side in ("prefill", "decode"):
        failed = {room: reason for name, outcome in found.items() if name.startswith(side)
                  for room, reason in outcome.failed.items()}
        assert failed.keys() == set(range(1, 7))
        assert all(why in reason for reason in failed.values()), failed
    assert summary(load, found)["left"] == {}


@pytest.mark.parametrize(("asked", "why"), [
    ({"pp": 2, "states": ("swa",)},
     "kv: 2 buffers there and 4 here, of layers without names: want the same model and pipeline "),
    ({"drafts": ("decode",)},
     "no source sends kv of draft buffer 0: the sources send layer 0 to layer 3, and decode has "),
    ({"drafts": ("prefill", "decode"), "decode_tp": 2},
     "tensor parallelism 2 there and 1 here: the pdproto backend does not split the KV of a "),
    ({"decode_tp": 2, "states": ("mamba",)},
     "tensor parallelism 2 there and 1 here: the pdproto backend does not split mamba states yet"),
], ids=str)
def test_a_mismatch_of_two_servers_fails_the_requests_by_name(
    asked: dict[str, Any], why: str
) -> None:
    found = drill(requests=4, **asked)
    assert found["succeeded"] == 0
    assert any(why in reason for reason in found["reasons"]), found["reasons"]


def test_a_pipeline_of_another_size_fails_the_requests_at_prefill_with_both_sizes() -> None:
    found = run(Load(requests=4, port=free_port(), decode_pp=2), seconds=60)
    failed = found["prefill0"].failed
    assert failed.keys() == {1, 2, 3, 4}
    want = "stages of the pipeline: 1 at prefill and 2 at decode"
    assert all(want in why for why in failed.values()), failed


@pytest.mark.parametrize("shape", [
    {}, {"pp": 2}, {"pp": 2, "decode_pp": 2}, {"decode_tp": 2}, {"prefill_tp": 2},
    {"page_bytes": 32_768}], ids=str)
def test_either_side_aborts_and_all_ranks_are_told_why(shape: dict[str, int]) -> None:
    found = drill(abort_every=4, **shape)
    assert found["succeeded"] >= REQUESTS * 3 // 4
    assert 0 < found["failed"] <= REQUESTS // 4
    assert any("aborted by the prefill scheduler" in why for why in found["reasons"])
    assert any("aborted by the decode scheduler" in why for why in found["reasons"])
