"""The modules of spec/ take rows, tables and properties by name, never by their place."""

import ast
from pathlib import Path

import pytest

SPEC = Path(__file__).resolve().parents[2] / "spec"
ORDERED = {"rows", "tables", "properties"}


def by_place(tree: ast.AST) -> list[str]:
    """`TABLE.rows[0]`, and `claim.name.startswith("L4_")`: an edit elsewhere changes both."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Attribute(attr=name)) if name in ORDERED:
                found.append(f"{ast.unparse(node)} in line {node.lineno}")
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="name"),
                                             attr="startswith" | "endswith")):
                found.append(f"{ast.unparse(node)} in line {node.lineno}")
    return found


@pytest.mark.parametrize(
    "path", [path for path in sorted(SPEC.rglob("*.py")) if path.parent.name != "language"],
    ids=lambda path: str(path.relative_to(SPEC)))
def test_no_row_is_taken_by_position(path: Path) -> None:
    assert by_place(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("code", [
    "ENGINE.rows[0]", "passes.HOST.rows[1:]", "SYSTEM.properties[-1]",
    "[c for c in claims if c.name.startswith('L4_')]",
])
def test_the_check_notices_a_position(code: str) -> None:
    assert len(by_place(ast.parse(code))) == 1
