"""The table of model families claims no more than tests and cells that there are."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import families
from tests.families import Answer, Family
from tests.servers import cells as of_sglang
from tests.servers.record import Record
from tests.vllm_servers import cells as of_vllm

ROOT = Path(__file__).parents[2]
ENGINES = pytest.mark.parametrize(("of", "record", "guide"), [
    (families.VLLM, of_vllm.RECORD, "vllm.md"), (families.SGLANG, of_sglang.RECORD, "sglang.md"),
], ids=["vLLM", "SGLang"])


def of_answer(of: tuple[Family, ...], *answers: Answer) -> Iterator[Family]:
    return (one for one in of if one.answer in answers)


@ENGINES
def test_an_equal_family_has_cells_that_were_seen_red(
    of: tuple[Family, ...], record: Record, guide: str
) -> None:
    del guide
    for one in of_answer(of, Answer.EQUAL):
        assert one.shown, one
        for name in one.shown:
            row = re.search(rf"^\| {re.escape(name)} \|.*$", record.text(), re.MULTILINE)
            assert row, f"{name}: there is no such cell"
            assert not row[0].endswith("| not yet |"), f"{name} was not seen red"


@ENGINES
def test_any_other_answer_names_tests_that_there_are(
    of: tuple[Family, ...], record: Record, guide: str
) -> None:
    del record, guide
    for one in of_answer(of, Answer.BY_SCHEDULER, Answer.REFUSED):
        assert one.shown, one
        for path, _, name in (test.partition("::") for test in one.shown):
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@ENGINES
def test_a_refusal_has_a_reason(of: tuple[Family, ...], record: Record, guide: str) -> None:
    del record, guide
    assert all(one.why for one in of_answer(of, Answer.REFUSED, Answer.NOT_SHOWN))


@ENGINES
def test_the_guide_counts_them(of: tuple[Family, ...], record: Record, guide: str) -> None:
    del record
    head = (ROOT / "docs/how-to" / guide).read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"[Models](../reference/models.md): {families.summary(of)}." in head
