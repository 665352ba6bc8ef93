"""The documents: every link leads somewhere, and what they name is there."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from pdproto.cli.main import VERBS
from tests.docs import api_reference, reference_pages
from tests.docs.documents import ROOT, broken, links, pages, prose, read
from tests.layers import LAYERS, OUTSIDE, allowed, arrows

DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "explanation" / "decisions").glob("[0-9]*.md"))
ARCHITECTURE = read(ROOT / "ARCHITECTURE.md")
GLOSSARY = read(DOCS / "reference" / "glossary.md")
BYTES_MAX = 8_192

# Words in a sense of our own. One that no longer occurs in the code goes from here too.
PRIVATE = (
    "binding", "claim", "desk", "early", "floor", "generation", "incarnation", "life", "turn",
    "use",
)  # fmt: skip


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", pages(), ids=relative)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.documents.ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# A heading, twice\n\n## A heading, twice\n")
    (tmp_path / "folder").mkdir()
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[1](other.md) [2](other.md#a-heading-twice-1) [3](#here) [4](https://a.b/c)\n"
        "[5](none.md) [6](other.md#none) [7](#none) [8](../none.md) [10](folder)\n"
        "\n    [9](in-code.md)\n"
    )
    assert broken(page) == ["none.md", "other.md#none", "#none", "../none.md", "folder"]


def test_every_page_is_reached_from_the_list_of_documents() -> None:
    """Nobody finds a page to which nothing links."""
    reached, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            ahead += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)
                      if not link.startswith("#")]  # fmt: skip
    assert [relative(path) for path in pages() if path not in reached] == []


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_the_first_pages_are_short(name: str) -> None:
    assert len(read(ROOT / name).encode()) <= BYTES_MAX


# ARCHITECTURE.md


@cache
def defined(path: Path) -> frozenset[str]:
    """What a module defines: its names, and `Class.name` of what its classes define."""
    return frozenset(_names(ast.parse(path.read_text(encoding="utf-8")).body))


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield name
                yield from (f"{name}.{inner}" for inner in _names(node.body))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", ARCHITECTURE)))
# A class whose module was named already may stand without it.
MODULES = {name.partition(".")[0]: path for path, name in NAMED}
SHORT = sorted(set(re.findall(r"`(([A-Z]\w*[a-z])\.\w+)`", ARCHITECTURE)))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_name_in_the_architecture_exists(path: str, name: str) -> None:
    assert name in defined(ROOT / path)


@pytest.mark.parametrize(("name", "kind"), SHORT)
def test_every_short_name_in_the_architecture_exists(name: str, kind: str) -> None:
    assert name in defined(ROOT / MODULES[kind])


def test_the_architecture_walks_every_path() -> None:
    walks = ("a message enters", "a row is taken", "a page is written", "a system is declared")
    titles = [*(f"Where {walk}" for walk in walks), "Add a row", "Add a test", "Add a setting"]
    assert re.findall(r"^## (.*)", ARCHITECTURE, re.MULTILINE) == ["Folders", *titles]
    for part in ARCHITECTURE.split("\n## ")[2:]:
        assert re.search(r"`[\w/]+\.py:[\w.]+`", part), part.splitlines()[0]


FOLDERS = dict(re.findall(
    r"^\| `(?:pdproto/)?([\w/]+)` \|.*\| ([a-z., ]+) \|$", ARCHITECTURE, re.MULTILINE))


def test_the_architecture_shows_the_declared_imports() -> None:
    """The table of folders is that of tests/layers.py, in its order; spec is one folder there."""
    declared: dict[str, set[str]] = {"spec": set()}
    for folder in LAYERS:
        if not folder.startswith("spec."):
            declared[folder] = {other.split(".")[0] for other in allowed(folder)}
    told = {folder: set(imports.split(", ")) - {"nothing"} for folder, imports in FOLDERS.items()}
    assert [*told.items()] == [*declared.items()]


@pytest.mark.parametrize("folder", LAYERS)
def test_no_arrow_is_declared_in_vain(folder: str) -> None:
    """Each import that tests/layers.py lets a folder have, the folder has."""
    below = ROOT if folder in OUTSIDE else ROOT / "pdproto"
    start = below / folder.replace(".", "/")
    paths = start.rglob("*.py") if start.is_dir() else [start.with_suffix(".py")]
    assert {there for path in paths for there, _ in arrows(path)} == allowed(folder)


# The pages of docs/


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_four_parts_and_is_listed(path: Path) -> None:
    text = read(path)
    parts = ["Context", "Decision", "Counterexample", "Consequence"]
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == parts
    assert all(part.partition("\n")[2].strip() for part in text.split("\n## ")[1:])
    title = text.splitlines()[0].removeprefix("# ")
    assert title.startswith(f"{path.stem[:3]}: ")
    assert f"* [{title}]({path.name})\n" in read(path.with_name("index.md"))


def test_the_numbers_of_decisions_are_their_own() -> None:
    assert [int(path.stem[:3]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


ROWS = re.findall(r"^\| (?!word|ending|---)(.*?) \|.*\| `([\w/.]+)` \|$", GLOSSARY, re.MULTILINE)
TERMS = [(term.strip("`"), where) for terms, where in ROWS for term in terms.split(", ")]


@pytest.mark.parametrize(("term", "where"), TERMS)
def test_a_word_of_the_glossary_is_used_where_it_says(term: str, where: str) -> None:
    before = "" if term.startswith("-") else r"(?<![^\W_])"
    assert re.search(f"(?i){before}{re.escape(term)}", read(ROOT / where))


def test_every_private_word_has_a_row() -> None:
    assert sorted(set(PRIVATE) - {term for term, _ in TERMS}) == []


@pytest.fixture(scope="module")
def wanted() -> dict[Path, str]:
    return {path.resolve(): text for path, text in reference_pages.wanted()}


@pytest.mark.parametrize("name", sorted(
    {*reference_pages.PAGES, *(name for name, _ in reference_pages.SECTIONS)}))
def test_the_reference_agrees_with_the_code(name: str, wanted: dict[Path, str]) -> None:
    """If this fails, run `python -m tests.docs.reference_pages` and look at it."""
    path = (DOCS / "reference" / name).resolve()
    assert read(path) == wanted[path]


def test_every_public_object_has_a_docstring() -> None:
    assert api_reference.without_docstring() == []


def test_a_missing_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdproto.runtime.store.Shared.__doc__", "See above.")
    monkeypatch.setattr("pdproto.check.load.load.__doc__", None)
    assert api_reference.without_docstring() == [
        "pdproto.check.load.load", "pdproto.runtime.store.Shared"]  # fmt: skip


# What else calls the same commands


@pytest.mark.parametrize(("file", "least"), [
    ("ci.yml", {"lint", "types", "tests", "docs-site"}), ("release.yml", {"test-wheel"}),
])
def test_the_workflow_calls_targets_of_make(file: str, least: set[str]) -> None:
    workflow = (ROOT / ".github" / "workflows" / file).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = set(re.findall(r"run: make ([a-z-]+)", workflow))
    assert least <= called
    assert [name for name in called if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


NOT_ALONE: Final = {
    "a GPU": ("test-servers-gpu", "test-servers-vllm-gpu", "test-gpu", "bench-gpu"),
    "hours": ("test-all", "test-servers", "bench", "bench-servers", "bench-servers-vllm",
              "soak-million", "soak-day"),
    "Ctrl-C": ("serve-sglang", "serve-vllm"),
    "a release": ("tag",),
}  # what the others need


def test_every_week_each_target_runs_alone() -> None:
    """`make test-sglang` lacked packages that only the servers' tests installed."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    _, _, job = workflow.partition("\n  alone:\n")
    targets = re.findall(r"^          - ([a-z-]+)", job.partition("    steps:")[0], re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    helped = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    others = [name for names in NOT_ALONE.values() for name in names]
    assert sorted([*targets, *others]) == sorted(helped)


def test_the_hooks_for_users_are_verbs() -> None:
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^  entry: pdproto (\w+)$", hooks, re.MULTILINE)
    assert entries == ["lint", "check"]
    for verb in entries:
        assert verb in VERBS
        assert hasattr(importlib.import_module(f"pdproto.cli.{verb}"), "configure")
        assert f"- id: pdproto-{verb}\n" in hooks
        assert f"- id: pdproto-{verb}\n" in read(DOCS / "how-to" / "ci.md")


def test_prose_is_told_from_code() -> None:
    assert prose("a\n\n    b\n\nc\n```\nd\n```\ne\n") == "a\n\nc\n\ne\n"
