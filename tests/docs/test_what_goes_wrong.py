"""Each line of docs/reference/what-goes-wrong.md names tests, and they exist."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/reference/what-goes-wrong.md").read_text(encoding="utf-8")
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
# A line of a table that is neither its head nor the rule below it.
LINES: Final = [line for line, after in zip(PAGE.split("\n"), [*PAGE.split("\n")[1:], ""],
                                            strict=True)
                if line.startswith("| ") and not after.startswith("|---")]


def is_there(path: str, name: str) -> bool:
    """Whether the file has a test of this name."""
    file = ROOT / path
    return name.startswith("test_") and file.is_file() and any(
        isinstance(node, ast.FunctionDef) and node.name == name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("line", LINES, ids=[line.split(" | ")[0][2:40] for line in LINES])
def test_every_line_names_tests_that_exist(line: str) -> None:
    named = NAMED.findall(line)
    assert named, "a line without a test"
    assert line.count("::") == len(named), "a test that is not written as `path::name`"
    for path, name in named:
        assert is_there(path, name), f"{path}::{name}: there is no such test"


def test_every_part_is_there() -> None:
    """Defects seen from outside, strangers, and faults: none is lost when the page is edited."""
    assert len(LINES) >= 45
    assert not is_there("tests/docs/test_what_goes_wrong.py", "test_that_is_not_there")
    assert not is_there("tests/docs/test_nowhere.py", "test_every_part_is_there")
