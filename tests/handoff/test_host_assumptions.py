"""Each call of a host on which a promise rests is an assumption with its place and its test."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from pdproto.cli.systems import load
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.handoff.host_assumptions import ASSUMPTIONS, Assumption, By
from pdproto.spec.language import Call, Row, Table

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = {By.SGLANG: "sglang", By.VLLM: "vllm", By.NODES: "pdproto"}
ANSWERS: Final = ("decode-scheduler", "decode-load", "prefill-offer")  # to an engine's scheduler
each = pytest.mark.parametrize("one", ASSUMPTIONS, ids=lambda one: one.id)


def called_rows() -> Iterator[tuple[Table, Row, bool]]:
    """Each row on a call of the hand-over, and whether it must be an assumption."""
    for name in HANDOFF:
        for table in load(name).tables:
            for row in table.rows:
                if isinstance(row.on, Call) and row.kind == "row":
                    yield table, row, row.is_fair or name in ANSWERS


def defined_in(path: Path) -> set[str]:
    """The functions and classes of a file, each with its classes in front."""
    def below(node: ast.AST, before: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{before}{child.name}"
                yield from below(child, f"{before}{child.name}.")
    return set(below(ast.parse(path.read_text(encoding="utf-8")), ""))


def test_each_row_that_a_caller_makes_due_is_of_an_assumption() -> None:
    """Seen red without `view.leave` in the list."""
    due = {f"{table.machine.name}.{row.name}" for table, row, assumed in called_rows() if assumed}
    assert due - {row for one in ASSUMPTIONS for row in one.rows} == set()


@each
def test_its_rows_are_there(one: Assumption) -> None:
    there = {f"{table.machine.name}.{row.name}" for table, row, _ in called_rows()}
    assert one.rows
    assert set(one.rows) - there == set()


def not_there(by: By) -> list[str]:
    """The places that are not in the source that is installed. Called under SGLang and vLLM too."""
    spec = find_spec(PACKAGES[by])
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    places = [place.partition(":") for one in ASSUMPTIONS if one.by is by for place in one.places]
    assert places
    return [f"{file}:{name}" for file, _, name in places if name not in defined_in(package / file)]


def test_the_places_of_nodes_are_there() -> None:
    """Seen red with `Drain._watch`."""
    assert not_there(By.NODES) == []


@each
def test_each_has_a_place_but_those_of_the_router(one: Assumption) -> None:
    assert bool(one.places) == (one.by is not By.ROUTER)


@each
def test_its_tests_are_there(one: Assumption) -> None:
    assert one.tests
    for test in one.tests:
        file, _, name = test.partition("::")
        assert name in defined_in(ROOT / file), test


def test_its_names_are_different() -> None:
    assert len({one.id for one in ASSUMPTIONS}) == len(ASSUMPTIONS)
