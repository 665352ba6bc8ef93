"""The house rules of the code base that no linter knows."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from pdproto.cli.main import VERBS
from pdproto.spec.catalogue import CATALOGUE, SYSTEMS
from tests.layers import LAYERS, allowed, arrows, dotted, folder_of, imports
from tests.retired_words import ANYWHERE, IN_NAMES, retired

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
TEST_LINES_MAX = 800  # cases, one after the other

# Functions that are one thing and longer than the rule, each with its reason.
LONG_FUNCTIONS = {
    "kernels/page_cast.py:cast_kernel": "a kernel is one function: Triton inlines what it calls",
}

# Who may look at the world outside: everything else gets it as an argument.
IMPURE = ("os", "time", "random", "threading", "subprocess")
MAY_BE_IMPURE = (
    "pdproto/bench/", "pdproto/cli/", "pdproto/check/", "pdproto/drill/",
    "pdproto/drivers/zeromq.py", "pdproto/engine/",
    "pdproto/group/", "pdproto/items/", "pdproto/node/faults.py", "pdproto/pages/",
    "pdproto/registry/",
    "pdproto/sglang/", "pdproto/transport/", "pdproto/vllm/", "kernels/", "examples/", "tests/",
)


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


def modules() -> list[Path]:
    return [path for path in tracked("*.py") if not path.is_symlink()]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_module_fits(path: Path) -> None:
    """A module rarely passes 400 lines, a function fits a screen, and each says what it is for."""
    text = path.read_text()
    name = relative(path)
    tree = ast.parse(text)
    if name.startswith("tests/"):
        assert len(text.splitlines()) <= TEST_LINES_MAX
        return
    assert len(text.splitlines()) <= MODULE_LINES_MAX
    assert not tree.body or ast.get_docstring(tree), f"{name} does not say what it is for"
    for function in functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        where = f"{name}:{function.name}"
        assert length <= FUNCTION_LINES_MAX or where in LONG_FUNCTIONS, f"{where}: {length} lines"


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_the_pure_parts_are_pure(path: Path) -> None:
    """Clocks, files, chance and threads come in as arguments."""
    name = relative(path)
    if not name.startswith(MAY_BE_IMPURE) and name != "setup.py":
        outside = [module for module in imports(path) if module.split(".")[0] in IMPURE]
        assert not outside, f"{name} imports {outside}"


@pytest.mark.parametrize(
    "path", [p for p in modules() if relative(p).startswith("spec/")], ids=relative
)
def test_spec_imports_only_itself(path: Path) -> None:
    """spec/ is data: the standard library and spec, nothing else."""
    allowed = {"collections", "contextlib", "dataclasses", "enum", "functools", "itertools",
               "pathlib", "sys", "typing"}
    for module in imports(path):
        assert module == "." or module.split(".")[0] in allowed or module.startswith("pdproto.spec")


@pytest.mark.parametrize(
    "path", [p for p in modules() if folder_of(dotted(p)) in LAYERS], ids=relative
)
def test_arrows_go_as_declared(path: Path) -> None:
    """A module imports only what tests/layers.py lets its folder import."""
    may = allowed(folder_of(dotted(path)))
    wrong = [module for folder, module in arrows(path) if folder not in may]
    assert not wrong, f"{relative(path)} imports {wrong}: see tests/layers.py"


def _modules_among(imported: set[str], paths: Collection[str]) -> set[str]:
    """The modules that are imported; not the package of which only a module is imported."""
    found = imported & set(paths)
    return found - {module.rpartition(".")[0] for module in found}


def test_no_import_goes_in_a_circle() -> None:
    """Also none for types only, and none within a function: no module needs itself.

    The classes of spec/language name each other in annotations.
    """
    paths = {f"pdproto.{dotted(path)}": path for path in modules()
             if folder_of(dotted(path)) in LAYERS.keys() - {"spec.language"}}
    needs = {name: _modules_among(set(imports(path)) - {name}, paths)
             for name, path in paths.items()}
    while free := {name for name, others in needs.items() if not others & needs.keys()}:
        for name in free:
            del needs[name]
    assert not needs, f"in a circle, or above one: {', '.join(sorted(needs))}"


def test_every_folder_has_its_arrows_declared() -> None:
    """A new folder needs a row in tests/layers.py."""
    folders = {folder_of(dotted(path)) for path in modules()
               if relative(path).startswith(("pdproto/", "spec/")) and path.name != "__init__.py"}
    assert folders <= LAYERS.keys()


def test_arrows_go_one_way() -> None:
    """The folders stand in one order, and import what stands before them."""
    order = [*LAYERS]
    for place, folder in enumerate(order):
        up = {other for other in allowed(folder) if other not in order[:place]}
        assert not up, folder


@pytest.mark.parametrize(
    "path", [p for p in modules() if relative(p).startswith("pdproto/check/")], ids=relative
)
def test_the_checker_names_no_system(path: Path) -> None:
    """The checker knows no protocol: whoever calls it says which system is meant."""
    text = path.read_text()
    assert "pdproto.spec.handoff" not in text
    names = SYSTEMS.keys() - {"complete"}  # also a word of reports
    named = [name for name in names if f'"{name}"' in text or f"'{name}'" in text]
    assert not named, f"{relative(path)} names {named}"


@pytest.mark.parametrize(
    "path", [p for p in modules() if relative(p).startswith("pdproto/check/report/")], ids=relative
)
def test_reports_run_nothing(path: Path) -> None:
    """A report shows a result: it imports neither the check nor the suite that made it."""
    makers = ("pdproto.check.checking", "pdproto.check.suite", "pdproto.check.worker_pool")
    assert not [module for module in imports(path) if module.startswith(makers)]


def test_every_module_is_used() -> None:
    """A file that nothing imports is either an entry point or dead."""
    entry_points = {"setup.py", "pdproto/cli/main.py", "docs/conf.py"}
    named = {f"pdproto.cli.{verb}" for verb in VERBS}
    for entry in CATALOGUE:
        named |= {entry.target.partition(":")[0], entry.lemma_module, entry.ranking_module}
    used = {module for path in modules() for module in imports(path)} | named
    everything = "\n".join(path.read_text() for path in (*modules(), ROOT / "pyproject.toml"))
    siblings = {*re.findall(r"from \.(\w+) import", everything)}
    quoted = {*re.findall(r'"(pdproto[\w.]*)"', everything)}
    followed = {*re.findall(r"(pdproto[\w.]*):", everything)}
    for path in modules():
        name = relative(path)
        if name.startswith(("tests/", "proofs/", "examples/")) or path.name == "__init__.py":
            continue
        dotted = name.removesuffix(".py").replace("/", ".")
        module = dotted if dotted.startswith("pdproto") else f"pdproto.{dotted}"
        by_name = module in quoted or module in followed
        assert module in used or path.stem in siblings or by_name or name in entry_points, (
            f"nothing uses {name}")


# The table itself, and what tells of the past.
MAY_SAY_RETIRED = ("tests/retired_words.py", "CHANGELOG.md")


@pytest.mark.parametrize(
    "path", [p for p in (*modules(), *tracked("*.md")) if relative(p) not in MAY_SAY_RETIRED],
    ids=relative,
)
def test_no_retired_word_comes_back(path: Path) -> None:
    """Words that were given up for the field's own: tests/retired_words.py says what to write."""
    use = {**ANYWHERE, **IN_NAMES}
    found = [f"{relative(path)}:{line}: {word}, use {use[word]}" for line, word in retired(path)]
    assert not found, "\n".join(found)


# Classes of one folder that share a name, for a reason: the two ends of one connection.
TWO_ENDS = {"Job", "Line", "OneSidedLine", "Open", "SharedLine", "TcpLine"}


def public_classes() -> Iterator[tuple[str, str, str]]:
    """The name, the module and the folder of each public class of pdproto/."""
    for path in modules():
        if relative(path).startswith("pdproto/"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, f"pdproto.{dotted(path)}", folder_of(dotted(path))


def repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_a_class_has_one_meaning_in_its_folder() -> None:
    classes = list(public_classes())
    for folder in {folder for _, _, folder in classes}:
        assert repeated(name for name, _, of in classes if of == folder) <= TWO_ENDS


def test_a_class_that_others_import_has_one_meaning() -> None:
    """No reader of two modules has to ask which `Request` each of them means."""
    imported = {(module, folder_of(dotted(path))) for path in modules() for module in imports(path)
                if relative(path).startswith("pdproto/")}
    shared = [name for name, module, folder in public_classes()
              if any(found == f"{module}.{name}" and by != folder for found, by in imported)]
    assert not repeated(shared)


def test_links_lead_into_the_tree() -> None:
    """The committed links that make module names equal to paths."""
    for name in ("spec", "kernels"):
        link = ROOT / "pdproto" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name
        assert not (ROOT / name / "__init__.py").exists(), "it would shadow other packages"
