"""The sentences of the programs and of the README that claim a result, collected from their text.

A sentence is a string with one of the words of a verdict, or such a line of the README. An f-string
is its text, with {} for each value.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CLAIMS: Final = re.compile(
    r"\b(holds?|proved|refuted?|conforms?|right|survive[sd]?|killed|exhaustive(ly)?|inductive"
    r"|suffices?|verified|agrees?|identical|unreachable|vacuous|complete|sound|equal|healthy"
    r"|every (byte|size|state|run|step|row)|all sizes|nothing (to remark|is|was|within)"
    r"|as it (is|was)|everything back"
    r"|no (counterexample|contradiction|run|way|interpretation|promise|complaints)"
    r"|(can never|never[- ]fires?d?|never holds)|seen for|does not follow)\b",
    re.IGNORECASE,
)
# Arguments that describe a command, or the reason for a row of a table, before anything has run.
NO_RESULT: Final = frozenset({"help", "description", "epilog", "why", "justify"})
FOLDERS: Final = ("pdproto", "lab")
README: Final = "README.md"
VALUE: Final = "{}"


def sentences(source: str) -> Iterator[str]:
    """The sentences of a module, each once; without docstrings, and without help."""
    module = ast.parse(source)
    left_out = {id(part) for node in ast.walk(module) for part in _left_out(node)}
    texts = (_text(node) for node in ast.walk(module) if id(node) not in left_out)
    yield from dict.fromkeys(" ".join(text.split()) for text in texts if CLAIMS.search(text))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or VALUE for part in node.values)
    return ""


def _left_out(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value  # a docstring
    elif isinstance(node, ast.keyword) and node.arg in NO_RESULT:
        yield from ast.walk(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield from node.values  # its text is that of the whole


def printed(root: Path) -> Iterator[tuple[str, str]]:
    """Every sentence, after the file that has it."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for sentence in sentences(path.read_text(encoding="utf-8")):
                yield path.relative_to(root).as_posix(), sentence
    for line in (root / README).read_text(encoding="utf-8").splitlines():
        if CLAIMS.search(line) and not line.startswith("|"):  # figures: tests/docs/test_readme.py
            yield README, line.strip()
