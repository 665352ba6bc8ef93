"""SGLang's own classes over the backend, in processes: `make test-sglang` installs it.

Every case compares every byte of every item, and every row of metadata, and ends with all counts
of the nodes back at nothing.
"""

import socket
from typing import Any

import pytest

WHY = "make test-sglang installs SGLang, 2.3 GB, and runs this"
pytest.importorskip("sglang", reason=WHY)

from examples.sglang_handoff.__main__ import summary  # noqa: E402 - needs SGLang
from examples.sglang_handoff.cluster import run  # noqa: E402 - needs SGLang
from examples.sglang_handoff.load import Load  # noqa: E402 - needs SGLang

REQUESTS = 24


def drill(**asked: Any) -> dict[str, Any]:
    load = Load(**{"requests": REQUESTS, "port": free_port()} | asked)
    found = summary(load, run(load, seconds=60))
    assert found["wrong"] == []
    assert found["left"] == {}
    return found


def free_port() -> int:
    """Of the bootstrap server; groups of ranks meet at those that follow."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


CASES: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": 3},
    "shared memory": {"chunks": 3, "engine": "shm"},
    "large pages": {"page_bytes": 32_768, "states": ("mamba",), "prefix": 2},
    "large pages, shared memory": {"page_bytes": 32_768, "chunks": 3, "engine": "shm"},
    "large pages, wider decode": {"page_bytes": 65_536, "decode_tp": 2},
    "large pages, pipeline": {"page_bytes": 32_768, "pp": 2},
    "decode prefix": {"prefix": 4, "chunks": 2},
    "states": {"states": ("mamba", "swa"), "prefix": 2, "chunks": 2},
    "latent states": {"states": ("dsa",), "latent": True},
    "pipeline": {"pp": 2, "states": ("mamba", "swa"), "chunks": 2},
    "pipelines on both sides": {"pp": 2, "decode_pp": 2, "states": ("mamba", "swa"), "chunks": 2},
    "pipelines of several ranks": {"pp": 2, "decode_pp": 2, "prefill_tp": 2, "decode_tp": 2},
    "large pages, pipelines on both sides": {"page_bytes": 32_768, "pp": 2, "decode_pp": 2},
    "data parallel": {"dp": 2},
    "data parallel by query": {"dp": 2, "query": True},
    "wider decode": {"decode_tp": 2, "states": ("swa",)},
    "wider prefill": {"prefill_tp": 2, "states": ("swa",), "prefix": 2},
    "wider decode, latent": {"decode_tp": 2, "latent": True, "states": ("dsa",)},
    "wider prefill, latent": {"prefill_tp": 2, "latent": True, "states": ("dsa",)},
    "context parallel": {"cp": 2},
    "pipeline and wider decode": {"pp": 2, "decode_tp": 2, "chunks": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_every_byte_and_every_row_of_metadata_is_right(case: str) -> None:
    assert drill(**CASES[case])["succeeded"] == REQUESTS


@pytest.mark.parametrize("shape", [
    {}, {"pp": 2}, {"pp": 2, "decode_pp": 2}, {"decode_tp": 2}, {"prefill_tp": 2},
    {"page_bytes": 32_768}], ids=str)
def test_either_side_aborts_and_all_ranks_are_told_why(shape: dict[str, int]) -> None:
    found = drill(abort_every=4, **shape)
    assert found["succeeded"] >= REQUESTS * 3 // 4
    assert 0 < found["failed"] <= REQUESTS // 4
    assert any("aborted by the prefill scheduler" in why for why in found["reasons"])
    assert any("aborted by the decode scheduler" in why for why in found["reasons"])
