"""CI warns of a ratio that is over 15 % worse than on the page, and `make bench` has every figure.
"""

import re
from typing import Final

import pytest

from tests.bench import ratios
from tests.bench.__main__ import BENCHES, COMMANDS
from tests.bench.ratios import PAGE, RATIOS, Ratio, main, measured, on_page, page, worse

ELSEWHERE: Final = {"tests.bench.bench_sglang"}  # it needs SGLang: docs/how-to/sglang.md


def test_make_bench_measures_every_figure() -> None:
    page = (PAGE.parent / "speed.md").read_text()
    benches = set(re.findall(r"`python -m (tests\.bench\.\w+)", page))
    assert benches - ELSEWHERE <= set(BENCHES)
    commands = re.findall(r"\| `pdproto ([^`]+)` \|$", page, re.MULTILINE)
    assert {tuple(words.split()) for words in commands} <= set(COMMANDS)


def test_the_page_has_every_ratio() -> None:
    assert on_page(PAGE.read_text()).keys() == {ratio.name for ratio in RATIOS}


def test_a_page_is_read_as_it_was_written() -> None:
    now = {ratio.name: 1.25 for ratio in RATIOS}
    assert on_page(page(now)) == now


def test_a_ratio_that_is_over_15_percent_worse_is_told() -> None:
    known = {"a": 2.0, "b": 2.0, "c": 2.0}
    (told,) = worse(known, {"a": 2.29, "b": 2.31, "c": 1.0, "new": 9.0})
    assert told.startswith("b: 2.31, which was 2.00")


@pytest.mark.parametrize(("found", "status", "warned"), [(99.0, 0, True), (0.1, 0, False),
                                                         (None, 1, False)])
def test_the_command_warns(
    found: float | None, status: int, warned: bool, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ratios, "measured", lambda _ratio: found)
    assert main([]) == status
    assert ("::warning::" in capsys.readouterr().out) == warned


def test_a_bench_that_prints_no_ratio_has_none() -> None:
    assert measured(Ratio("version", ("platform",), r"Linux-(\d+)\.")) is not None
    assert measured(Ratio("nothing", ("platform",), r"no ratio ([\d.]+)")) is None
