"""Two elements of a sort under loss: liveness one size up."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.spec.handoff.transfer_two import TWO_LIVES, TWO_SINKS, TWO_SOURCES
from pdproto.spec.language import DropRow, System, edited
from tests.handoff.exploring import EXPECTED, counts, explored, failing, name_of


@pytest.mark.slow
@pytest.mark.parametrize("system", [
    TWO_LIVES, pytest.param(TWO_SINKS, marks=pytest.mark.nightly)], ids=name_of)
def test_everything_comes_about_at_the_pinned_counts(system: System) -> None:
    found = explored(system.name, "deep")
    assert failing(found) == []
    assert [f.name for f in found.findings if "vacuous" in f.note] == []
    assert counts(found) == EXPECTED[system.name, "deep"]


@pytest.mark.slow
@pytest.mark.nightly
def test_two_sources_that_come_back_are_safe_at_the_pinned_counts() -> None:
    """A minute of two idle cores. Other sizes have two chunks, and an engine that strays."""
    found = explored(TWO_SOURCES.name, "deep")
    assert failing(found) == []
    assert counts(found) == EXPECTED[TWO_SOURCES.name, "deep"]


@pytest.mark.parametrize(("name", "edit"), [
    *(pytest.param("a_chunk_goes_from_life_to_life", DropRow(row), marks=pytest.mark.nightly)
      for row in ("end_lease", "abort_again")),
    ("a_chunk_passes_to_the_waiting_life", DropRow("grant")),
], ids=lambda value: value if isinstance(value, str) else value.row)
def test_each_row_is_needed_where_two_lives_share_one_chunk(name: str, edit: DropRow) -> None:
    wrong = edited(TWO_LIVES, "needed", edit)
    settings = CheckSettings(properties=(name,))
    assert failing(check(wrong, wrong.configurations["deep"], settings)) == [name]
