"""The page of a variant: its base and the printed difference determine it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.check.difference import applied, base_of, difference, parts
from pdproto.check.page import row_heading, row_text
from pdproto.check.variant_page import variant_document
from pdproto.cli.export import page
from pdproto.cli.main import main
from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.examples import lock_server
from pdproto.spec.language import (
    Always,
    Fairness,
    LeadsTo,
    OnRow,
    Row,
    System,
    forall,
)
from pdproto.spec.language.edit import (
    AddClause,
    DropRow,
    Edit,
    ReplaceProperties,
    ReplaceRow,
    edited,
)

LOCK = lock_server.SYSTEM
ROWS = [row for _, row in LOCK.rows()]
VARIANTS = [name for name in BUILT_IN if base_of(load(name), BUILT_IN) is not None]


def base(name: str) -> System:
    found = base_of(load(name), BUILT_IN)
    assert found is not None
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_the_base_and_the_difference_are_the_variant(name: str) -> None:
    change = difference(base(name), load(name))
    assert applied(parts(base(name)), change) == parts(load(name))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_page_prints_every_part_of_the_difference(variant: str) -> None:
    change, text = difference(base(variant), load(variant)), page(variant)
    for key, part in change.removed.items():
        told = f"- {row_heading(part)}\n" if isinstance(part, Row) else key[-1]
        layer_is_told = key[0] == "row" and f"### {key[1]}\n\nThis layer is removed." in text
        assert told in text or layer_is_told or key[0] in ("table", "configuration")
    for key, part in change.added.items():
        # A table of the world goes by its fault layer.
        name = key[1] or key[-1] if key[0] == "table" else key[-1]
        assert (row_text(part) if isinstance(part, Row) else name) in text
    for key, (_, part) in change.changed.items():
        lines = row_text(part).splitlines() if isinstance(part, Row) else [key[-1]]
        assert key == ("final",) or all(line in text for line in lines)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_page_of_a_variant_is_the_shorter_one(name: str) -> None:
    assert len(page(name)) < len(page(name, full=True))


TRUE_OF_ALL = forall(lock_server.d, lock_server.d.same(lock_server.d))
CHANGES: list[Callable[[Row], Edit]] = [
    lambda row: DropRow(row.name),
    lambda row: AddClause(row.name, TRUE_OF_ALL),
    lambda row: ReplaceRow(row.name, replace(row, why=f"{row.why}, really")),
    lambda row: ReplaceRow(row.name, replace(row, name=f"other_{row.name}")),
]


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(CHANGES)), unique_by=lambda c: c[0].name
    ),
    kept=st.sets(st.sampled_from([c for c in LOCK.properties if not isinstance(c, OnRow)])),
    layers=st.sets(st.sampled_from(sorted(LOCK.faults))),
)
def test_any_edit_is_determined_by_its_difference(
    changes: list[tuple[Row, Callable[[Row], Edit]]], kept: set[Always], layers: set[str]
) -> None:
    edits = [change(row) for row, change in changes]
    ours = tuple(claim for claim in LOCK.properties if claim in kept)
    without = replace(
        edited(LOCK, "between", *edits, ReplaceProperties(ours)), configurations={}, final=None
    )
    variant = replace(without, faults={name: without.faults[name] for name in layers})
    change = difference(LOCK, variant)
    assert applied(parts(LOCK), change) == parts(variant)
    assert not parts(LOCK).keys() & change.added.keys()
    assert all(before != after for before, after in change.changed.values())
    variant_document(variant, LOCK)


def test_assumptions_of_properties_are_told_in_one_line() -> None:
    claims = [claim for claim in LOCK.properties if isinstance(claim, LeadsTo)]
    (before,) = {"; when ".join(claim.under) for claim in claims}
    variant = edited(LOCK, "calm", ReplaceProperties(tuple(
        replace(claim, under=(Fairness.NO_TIMERS,)) if isinstance(claim, LeadsTo) else claim
        for claim in LOCK.properties
    )))  # fmt: skip
    names = ", ".join(f"**{claim.name}**" for claim in claims)
    told = f"* {names}: when there are no timers (in lock-server: when {before})"
    assert told in variant_document(variant, LOCK).splitlines()


def test_a_page_shows_only_the_differences() -> None:
    variant = edited(LOCK, "renamed", about="Another name.")
    assert variant_document(variant, LOCK) == (
        "# renamed\n\nAnother name.\n\n"
        "This page says how the system differs from [lock-server](lock-server.md). Everything else "
        "is the same.\n`pdproto export --markdown renamed --full` writes the whole system.\n\n"
        "Generated from the spec by `pdproto export --markdown`; change the spec, not this file.\n"
    )


def test_the_base_is_the_nearest_system_that_has_a_page() -> None:
    private = edited(LOCK, "private", DropRow("ask_again"))
    # What goes between them bears the name of the system that it comes from.
    between = replace(private, configurations={}, like=private)
    variant = edited(between, "variant", DropRow("give_again"))
    assert base_of(variant, {"lock-server", "private"}) is private
    assert base_of(variant, {"lock-server"}) is LOCK
    assert base_of(variant, {"variant"}) is None
    assert base_of(LOCK, {"lock-server"}) is None


OWN = """
from dataclasses import replace
from pdproto.spec.examples.lock_server import SYSTEM as LOCK
from pdproto.spec.language.edit import DropRow, edited
_STEP = edited(LOCK, "step", DropRow("ask_again"))
OURS = edited(_STEP, "ours", DropRow("give_again"))
THEIRS = edited(OURS, "theirs", DropRow("leave"))
"""


def test_the_verb_takes_a_base_from_the_users_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    name = f"{tmp_path / 'own.py'}:"
    assert main(["export", "--markdown", f"{name}OURS"]) == 0
    assert "differs from [lock-server](lock-server.md)" in capsys.readouterr().out
    assert main(["export", "--markdown", f"{name}THEIRS"]) == 0
    assert "differs from [ours](ours.md)" in capsys.readouterr().out
    assert main(["export", "--markdown", f"{name}THEIRS", "--full"]) == 0
    full = capsys.readouterr().out
    assert "differs from" not in full
    assert "## Sorts" in full
