"""`pdproto handoff`: real processes, real sockets, a registry, every byte verified."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from pdproto.registry.client import TIMEOUT_S
from tests.e2e.drill import handoff, run

NIXL = pytest.mark.skipif(find_spec("nixl_cu12") is None, reason="NIXL is not installed")


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    return handoff("--requests", "120", "--abort-rate", "0.2")


def test_m3_4_every_byte_is_right_while_a_fifth_is_aborted(numbers: dict[str, Any]) -> None:
    """Both sides agree, nothing is left, and nobody fails but who was aborted."""
    assert 0 < numbers["failed"] < 60
    assert set(numbers["reasons"]) <= {
        "the client has left", "prefill-0-0-0: the client has left",
        "decode-0: the client has left",
    }


@pytest.mark.slow
def test_m1_3_context_ranks_fill_their_own_pages_over_tcp() -> None:
    numbers = handoff("--requests", "60", "--cp", "2", "--engine", "tcp", "--abort-rate", "0")
    assert numbers["succeeded"] == 60


@pytest.mark.slow
def test_m1_4_a_killed_rank_is_noticed_and_comes_back() -> None:
    """What was under way fails with the reason; what comes after the restart succeeds."""
    numbers = handoff("--requests", "300", "--abort-rate", "0", "--kill")
    assert numbers["restarted"] == ["prefill-0-0-0"]
    assert any("lost connection to prefill-0-0-0" in reason for reason in numbers["reasons"])
    assert numbers["succeeded"] > 120


@pytest.mark.slow
def test_a_rank_is_drained_and_replaced_and_no_request_fails() -> None:
    """It drains with hand-overs under way, and says when it is empty."""
    numbers = handoff("--requests", "80", "--abort-rate", "0", "--drain")
    assert numbers["succeeded"] == 80
    assert numbers["restarted"] == []
    assert numbers["drained"]["prefill-0-0-0"]["open"] > 0


@pytest.mark.slow
@pytest.mark.nightly
def test_hand_overs_go_on_while_the_registry_is_cut_off_and_a_new_rank_waits_for_it() -> None:
    """The cut takes longer than some registrations, and the rank that is replaced comes in it."""
    numbers = handoff("--requests", "120", "--abort-rate", "0", "--drain", "--cut", "3")
    cut = numbers["cut"]
    assert numbers["succeeded"] == 120
    assert cut["ended"] > 0
    assert "TimeoutError('timed out')" in cut["refusal"]
    assert cut["refused_s"] < TIMEOUT_S + 2.0
    assert cut["back_s"] is not None


def test_m4_3_with_no_traffic_every_gauge_is_zero(numbers: dict[str, Any]) -> None:
    """Queue depths, leases and pages return to zero on every rank."""
    for rank in numbers["ranks"].values():
        assert {name: value for name, value in rank.items() if name.startswith("num_") and value} \
            == {}


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    ("late", "--requests", "90", "--kill", "--engine", "tcp"),
    ("late", "--requests", "90", "--kill", "--engine", "cuda-ipc"),
    pytest.param(("late", "--requests", "90", "--kill", "--engine", "nixl-gpu"), marks=NIXL),
    *(("interpreter", "--requests", "12", "--layers", "1", "--page-bytes", "256", "--pages", "2",
       "--in-flight", "4", "--kill", "--engine", engine) for engine in ("tcp", "shm", "cuda-ipc")),
], ids=["late", "from device to device", "over nixl-gpu", "interpreter over tcp",
        "interpreter over shm", "interpreter over cuda-ipc"])
def test_pools_on_a_device_are_handed_over(options: tuple[str, ...]) -> None:
    """The device does all work late: who reads or frees a page too early, spoils it."""
    pytest.importorskip("torch")
    numbers = handoff("--device", *options)
    assert numbers["succeeded"] > 2
    assert numbers["restarted"] == ["prefill-0-0-0"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    ("16:64", "--engine", "tcp", "--kill"), ("6:4", "--engine", "shm"), ("8:4", "--direct"),
], ids=["a part is a page of prefill", "a part is a page of neither", "straight into pages"])
def test_pages_of_different_sizes_are_handed_over(options: tuple[str, ...]) -> None:
    if "--direct" in options:
        options += ("--engine", "tcp")
    numbers = handoff("--requests", "60", "--page-tokens", *options)
    assert numbers["succeeded"] > 2


def test_the_command_names_a_device_that_does_not_exist() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "handoff", "--device", "cuda"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 2
    assert re.fullmatch(r"pdproto: --device cuda: cuda:0: torch .* finds 0 GPUs here: use --device "
                        r"interpreter, which needs no GPU, or leave it out\n", done.stderr)


def test_a_bad_option_gives_one_clear_line() -> None:
    done = run("--page-bytes", "12")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "multiple of 8" in done.stderr


@pytest.mark.slow
def test_m1_4_a_server_restarts_all_its_ranks_when_one_is_killed() -> None:
    """The others of a killed rank's server notice, give everything back, and end by themselves.

    Decode may see for itself that the rank is gone, or be told so by the first rank of its group.
    """
    numbers = handoff("--requests", "60", "--abort-rate", "0", "--kill", "--pp", "2",
                      "--in-flight", "8", "--seed", "1")
    assert numbers["restarted"] == ["prefill-0-0-0", "prefill-1-0-0"]
    seen = "lost connection to prefill-1-0-0", "prefill-0-0-0: prefill.1 is gone"
    assert all(reason.startswith(seen) for reason in numbers["reasons"])
    assert 0 < sum(numbers["reasons"].values()) < 40


def test_the_drill_reports_a_kill_that_did_not_take_place() -> None:
    """Every client leaves before decode has given memory, so that no rank sends anything."""
    done = run("--kill", "--requests", "6", "--abort-rate", "1", "--publish-ms", "1000")
    assert done.returncode == 2
    assert "prefill-0-0-0 sent none of the requests after the first 2" in done.stderr


def test_a_drill_in_which_every_client_leaves_shows_no_byte() -> None:
    """Nothing went wrong, and no byte was compared: that is no success."""
    done = run("--requests", "4", "--abort-rate", "1", "--publish-ms", "1000")
    assert json.loads(done.stdout)["verified_bytes"] == 0
    assert done.returncode == 3
