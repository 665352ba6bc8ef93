"""Rows of the mission and safety promises, and the tests that have been seen red for them."""

import re
from pathlib import Path

import pytest

from lab.__main__ import main
from tests.e2e.defects import DEFECTS
from tests.e2e.seen import PAIRS, ROOT, Pair, page, ran, recorded, wanted


def test_every_row_and_promise_has_a_test() -> None:
    assert {name for pair in PAIRS for name in pair.of} == {*wanted()}


def test_every_test_has_been_seen_red() -> None:
    assert recorded().keys() == {pair.key for pair in PAIRS}


def test_every_defect_and_every_test_of_a_pair_exists() -> None:
    assert {pair.defect for pair in PAIRS} <= DEFECTS.keys()
    for pair in PAIRS:
        path, _, name = pair.test.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), pair.test


def test_the_page_matches_the_record() -> None:
    written = Path(ROOT / "docs/tests-see-defects.md").read_text()
    assert written == page(), "run python -m tests.e2e.seen --table > docs/tests-see-defects.md"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: pair.key)
def test_a_test_fails_with_its_defect(pair: Pair) -> None:
    assert ran(pair) is not None


@pytest.mark.slow
def test_a_drill_refuses_a_defect_that_no_process_of_it_runs(
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["soak", "--bug", "B04"]) == 2
    assert "--bug B04: the processes of this verb run no table with such a defect" in (
        capsys.readouterr().err)
