"""`python -m lab study optimistic` over real processes (MISSION row M5.9): one small setting.

What a time must at least contain holds on any machine; how much more it is depends on the machine,
and is not asked here.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.__main__ import main
from lab.sim.study import RETRIES
from lab.study import plan
from lab.study.lanes import Measured, measure
from lab.study.plan import BASE, Cell, arm, planned
from lab.verbs import study

REQUESTS, SEED = 12, 3
SETTING = replace(BASE, skew_s=0.01, allocation_s=0.03, latency_s=0.004, load=0.8, running_slots=2)


class Found:
    """What the command has written, and what its processes have said."""

    def __init__(self, numbers: dict[str, Any], measured: Measured, picture: str) -> None:
        self.numbers, self.measured, self.picture = numbers, measured, picture


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("study")
    said: list[Measured] = []

    def kept(*arguments: Any, **options: Any) -> list[Measured]:
        said.extend(measure(*arguments, **options))
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CELLS", (Cell("handshake latency", "4 ms", SETTING),))
        patch.setattr(study, "measure", kept)
        assert main(["study", "optimistic", "--quiet", "--requests", str(REQUESTS),
                     "--seed", str(SEED), "--json", str(folder / "study.json"),
                     "--plot", str(folder / "study.svg")]) == 0
    (measured,) = said
    return Found(json.loads((folder / "study.json").read_text()), measured,
                 (folder / "study.svg").read_text())


def test_m5_9_every_request_is_answered_with_and_without_optimistic_prefill(found: Found) -> None:
    for ran in (found.measured.without, found.measured.with_it):
        assert ran.answered.first_token_s.keys() == set(range(REQUESTS))
        assert not ran.answered.corrupt
        assert not ran.answered.reasons
        assert not ran.computed.reasons
    assert found.measured.without.computed.reruns == 0
    assert found.measured.with_it.computed.reruns <= REQUESTS * (RETRIES + 1)


def test_m5_9_a_time_is_at_least_that_of_the_steps_before_the_token(found: Found) -> None:
    """Without: the bootstrap, then the forward pass. With: both, but not one after the other."""
    for request in planned(SETTING, SEED, REQUESTS):
        bootstrap = request.decode_at - request.prefill_at + request.allocation_s
        without = found.measured.without.answered.first_token_s[request.room]
        optimistic = found.measured.with_it.answered.first_token_s[request.room]
        assert without > bootstrap + SETTING.latency_s / 2 + SETTING.forward_s
        assert optimistic > max(bootstrap + SETTING.latency_s / 2, SETTING.forward_s)


def test_m5_9_the_table_shows_the_measured_times(found: Found) -> None:
    (row,) = found.numbers["rows"]
    both = {"without": found.measured.without, "optimistic": found.measured.with_it}
    for name, ran in both.items():
        expected = arm(list(ran.answered.first_token_s.values()), ran.computed.reruns)
        assert row["measured"][name] == {
            "median_s": expected.median_s, "p99_s": expected.p99_s, "reruns": expected.reruns}
    assert row["simulated"]["without"]["median_s"] > SETTING.forward_s
    assert "handshake latency" in found.picture


@pytest.mark.slow
def test_a_process_that_dies_ends_the_study(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No running slot at all is refused by the scheduler, in its own process."""
    monkeypatch.setattr(plan, "CELLS", (Cell("load", "80%", replace(SETTING, running_slots=0)),))
    assert main(["study", "optimistic", "--quiet", "--requests", "2"]) == 2
    assert "a prefill rank of the study has ended by itself" in capsys.readouterr().err


def test_the_command_refuses_an_unknown_study(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["study", "weather"]) == 2
    assert "optimistic" in capsys.readouterr().err
    assert main(["study", "optimistic", "--json", str(tmp_path)]) == 2
    assert "it is a folder" in capsys.readouterr().err
