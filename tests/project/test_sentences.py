"""No sentence claims a result without a test in which it would be false, and is not printed."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.project.sentences import of_page, printed, sentences

ROOT: Final = Path(__file__).resolve().parents[2]
ROWS: Final = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text(encoding="utf-8"))
REASONS: Final = ROWS["claims nothing"]
LISTED: Final = {(file, sentence): row for file, rows in ROWS["sentences"].items()
                 for sentence, row in rows.items()}


def test_every_sentence_is_listed() -> None:
    """A new sentence needs a row, and a row its sentence."""
    found = {*printed(ROOT)}
    assert found - {*LISTED} == set(), "want a row in sentences.toml"
    assert {*LISTED} - found == set(), "no program says this any more"


def test_every_row_names_a_test_or_a_reason() -> None:
    wrong = [row for row in LISTED.values() if row not in REASONS and not exists(row)]
    assert wrong == []
    assert {*REASONS} <= {*LISTED.values()}, "a reason without a sentence"


def exists(row: str) -> bool:
    """Whether it is the name of a test, as pytest writes it, or a file of claims that it proves."""
    path, _, name = row.partition("::")
    if path.startswith("proofs/") and not name:
        return (ROOT / path).is_file()
    return (ROOT / path).is_file() and name in names_of_tests(ROOT / path)


def names_of_tests(path: Path) -> Iterator[str]:
    """The names of the tests of a module; those of a class after its name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        yield from (f"{prefix}{one.name}" for one in inside
                    if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))


def test_a_sentence_is_a_string_with_a_verdict() -> None:
    source = '''"""It holds."""
def tell(name, size):
    "It is proved."
    add(name, help="it is proved", why="it holds")
    print(f"{name} holds for {size}", "it is " "proved")
    raise ValueError("it never holds")
'''
    assert Counter(sentences(source)) == Counter(
        ["{} holds for {}", "it is proved", "it never holds"])


def test_a_sentence_of_a_page_is_found_however_its_lines_are_broken() -> None:
    page = """# Every page holds

It explores, and never
guesses. A table | is left out. `pdproto prove` runs.

| it holds |

* An item that `holds`
* Each size is **proved**.
  No other one is.

    pdproto check   # every state

```
it is proved
```

<!-- generated: x -->
Every line is generated.
<!-- end -->
"""
    assert [*of_page(page)] == ["It explores, and never guesses.", "Each size is **proved**."]
