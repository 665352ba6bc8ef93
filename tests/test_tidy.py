"""The house rules of the code base that no linter knows."""

import ast
import gc
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lab.catalogue import LAB, PEERS
from pdproto.spec.catalogue import CATALOGUE, SYSTEMS
from tests.layers import (
    KINDS_OF_NODES,
    LAYERS,
    OUTSIDE,
    allowed,
    arrows,
    dotted,
    folder_of,
    imports,
    statements,
)
from tests.retired_words import ANYWHERE, IN_NAMES, retired

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
TEST_LINES_MAX = 800  # cases, one after the other

# Functions that are one thing and longer than the rule, each with its reason.
LONG_FUNCTIONS = {
    "lab/casts/kernel.py:cast_kernel": "a kernel is one function: Triton inlines what it calls",
}

# Who may look at the world outside: everything else gets it as an argument.
IMPURE = ("os", "time", "random", "threading", "subprocess")
MAY_BE_IMPURE = (
    "pdproto/cli/", "pdproto/check/", "pdproto/drill/",
    "pdproto/drivers/zeromq.py", "pdproto/engine/",
    "pdproto/group/", "pdproto/items/", "pdproto/net/rests.py",
    "pdproto/net/threads.py", "pdproto/node/faults.py",
    "pdproto/pages/",
    "pdproto/registry/",
    "pdproto/sglang/", "pdproto/transport/", "pdproto/vllm/", "kernels/", "lab/", "examples/",
    "tests/",
)


@pytest.fixture(autouse=True, scope="module")
def trees_are_no_garbage() -> Iterator[None]:
    """The syntax trees of all modules have no circles: to look for some takes longer than to parse.
    """
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


@cache
def modules() -> tuple[Path, ...]:
    return tuple(path for path in tracked("*.py") if not path.is_symlink())


def modules_in(folder: str) -> list[Path]:
    return [path for path in modules() if relative(path).startswith(folder)]


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def none_of(found: Iterable[str]) -> None:
    """Fails with all that was found, one on a line."""
    told = "\n".join(found)
    assert not told, told


def test_every_module_fits() -> None:
    """A module rarely passes 400 lines, a function fits a screen, and each says what it is for."""
    none_of(wrong for path in modules() for wrong in misfits(path))


def misfits(path: Path) -> Iterator[str]:
    """What is too long in a module, or missing."""
    name = relative(path)
    lines = len(text(path).splitlines())
    most = TEST_LINES_MAX if name.startswith("tests/") else MODULE_LINES_MAX
    if lines > most:
        yield f"{name}: {lines} lines"
    if name.startswith("tests/"):
        return
    tree = parsed(path)
    if tree.body and not ast.get_docstring(tree):
        yield f"{name} does not say what it is for"
    for one in statements(tree.body):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (one.end_lineno or 0) - one.lineno + 1
            where = f"{name}:{one.name}"
            if length > FUNCTION_LINES_MAX and where not in LONG_FUNCTIONS:
                yield f"{where}: {length} lines"


def test_the_pure_parts_are_pure() -> None:
    """Clocks, files, chance and threads come in as arguments."""
    pure = [path for path in modules()
            if not relative(path).startswith(MAY_BE_IMPURE) and relative(path) != "setup.py"]
    assert pure
    none_of(f"{relative(path)} imports {module}" for path in pure for module in imports(path)
            if module.split(".")[0] in IMPURE)


def test_spec_imports_only_itself() -> None:
    """spec/ is data: the standard library and spec, nothing else."""
    may = {"ast", "collections", "contextlib", "dataclasses", "difflib", "enum", "functools",
           "itertools", "pathlib", "sys", "types", "typing"}
    assert modules_in("spec/")
    none_of(f"{relative(path)} imports {module}"
            for path in modules_in("spec/") for module in imports(path)
            if module != "." and module.split(".")[0] not in may
            and not module.startswith("pdproto.spec"))


def test_arrows_go_as_declared() -> None:
    """A module imports only what tests/layers.py lets its folder import."""
    layered = [path for path in modules() if folder_of(dotted(path)) in LAYERS]
    assert layered
    none_of(f"{relative(path)} imports {module}: see tests/layers.py"
            for path in layered for folder, module in arrows(path)
            if folder not in allowed(folder_of(dotted(path))))


def test_kinds_of_nodes_are_above_their_common_modules_and_apart() -> None:
    """pdproto/node, below it prefill, decode and optimistic: one arrow, to what they share."""
    def kind(module: str) -> str:
        return next((one for one in KINDS_OF_NODES if f"{module}.".startswith(f"{one}.")), "")
    found = {path: kind(dotted(path)) for path in modules()
             if dotted(path).startswith("node.")}
    assert {*found.values()} == {"", *KINDS_OF_NODES}
    none_of(f"{relative(path)} imports {module}" for path, own in found.items()
            for module in imports(path)
            if kind(module.removeprefix("pdproto.")) not in ("", own))


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


def test_the_product_imports_nothing_of_the_laboratory() -> None:
    """What is installed needs nothing that is not: neither the laboratory nor tests."""
    product = [path for path in modules() if not relative(path).startswith(
        (*(f"{folder}/" for folder in OUTSIDE), "docs/", "setup.py"))]
    assert len(product) > 500
    none_of(f"{relative(path)} imports {module}"
            for path in product for module in imports(path) if module.split(".")[0] in OUTSIDE)


def test_every_folder_has_its_arrows_declared() -> None:
    """A new folder needs a row in tests/layers.py."""
    folders = {folder_of(dotted(path)) for path in modules()
               if relative(path).startswith(("pdproto/", "spec/"))
               and path.stem not in ("__init__", "__main__")}
    assert folders <= LAYERS.keys()


def test_arrows_go_one_way() -> None:
    """The folders stand in one order, and import what stands before them."""
    order = [*LAYERS]
    for place, folder in enumerate(order):
        up = {other for other in allowed(folder) if other not in order[:place]}
        assert not up, folder


def test_tests_wait_in_one_place() -> None:
    """A function that asks again and again is `until` of tests/waiting.py."""
    names = re.compile("_?(until|eventually|wait|wait_until|wait_for)")
    none_of(f"{relative(path)}:{found.lineno} {found.name}: see tests/waiting.py"
            for path in modules() if relative(path).startswith("tests/")
            and path.name != "waiting.py" and re.search(f"def {names.pattern}\\b", text(path))
            for found in parsed(path).body
            if isinstance(found, ast.FunctionDef) and names.fullmatch(found.name)
            and any(isinstance(inner, ast.While) for inner in ast.walk(found)))


def test_what_forgets_its_oldest_element_is_ordered() -> None:
    """A dict that has lost its first keys passes by their places to find the next one: 13 us for
    16,384 rooms (decision 117).
    """
    first = re.compile(r"del ([\w.]+)\[next\(iter\(\1\)\)\]")
    none_of(f"{relative(path)}: {found[0]}: want an OrderedDict and popitem(last=False)"
            for path in modules() for found in first.finditer(path.read_text()))


# Fields by which a request of SGLang or vLLM is known, and who may make one by hand: see its tests.
OF_REQUESTS = {"rid", "bootstrap_host", "origin_input_ids", "kv_receiver", "disagg_kv_sender",
               "request_id", "prompt_token_ids"}
WITHOUT_VLLM = "tests/vllm/pair.py"  # held to vLLM's class by tests/vllm/test_prompts.py


def test_no_object_made_by_hand_stands_for_a_request_of_an_engine() -> None:
    """A field that the product begins to read would be missing there, and only later: the engine's
    own class is made by examples/sglang_handoff/request.py and tests/vllm/engine.py.
    """
    none_of(f"{relative(path)}:{call.lineno}: an object made by hand has {sorted(found)}"
            for path in modules() if relative(path) != WITHOUT_VLLM
            and re.search("Namespace|Mock", text(path))
            for call in ast.walk(parsed(path)) if isinstance(call, ast.Call)
            and ast.unparse(call.func).endswith(("Namespace", "Mock"))
            and (found := OF_REQUESTS & {str(word.arg) for word in call.keywords}))


def test_the_checker_names_no_system() -> None:
    """The checker knows no protocol: whoever calls it says which system is meant."""
    names = SYSTEMS.keys() - {"complete"}  # also a word of reports
    named = re.compile("pdproto[.]spec[.]handoff|" + "|".join(
        f"\"{name}\"|'{name}'" for name in sorted(names)))
    assert modules_in("pdproto/check/")
    none_of(f"{relative(path)} names {found}" for path in modules_in("pdproto/check/")
            for found in named.findall(text(path)))


def test_reports_run_nothing() -> None:
    """A report shows a result: it imports neither the check nor the suite that made it."""
    makers = ("pdproto.check.checking", "pdproto.check.suite", "pdproto.check.worker_pool")
    assert modules_in("pdproto/check/report/")
    none_of(f"{relative(path)} imports {module}"
            for path in modules_in("pdproto/check/report/") for module in imports(path)
            if module.startswith(makers))


def test_every_module_is_used() -> None:
    """A file that nothing imports is either an entry point or dead."""
    entry_points = {"setup.py", "docs/conf.py", "lab/__main__.py", "pdproto/__main__.py",
                    "pdproto/cli/main.py", "lab/vllm_lease/late_read.py"}
    named = {verb.module for verb in LAB.verbs.values()}
    named |= {target.partition(":")[0] for target in PEERS.values()}
    for entry in CATALOGUE:
        named |= {entry.target.partition(":")[0], entry.lemma_module, entry.ranking_module}
    used = {module for path in modules() for module in imports(path)} | named
    everything = "\n".join(map(text, (*modules(), ROOT / "pyproject.toml")))
    siblings = {*re.findall(r"from \.(\w+) import", everything)}
    quoted = {*re.findall(r'"((?:pdproto|lab)[\w.]*)"', everything)}
    followed = {*re.findall(r"((?:pdproto|lab)[\w.]*):", everything)}
    for path in modules():
        name = relative(path)
        if name.startswith(("tests/", "proofs/", "examples/", "lab/peer_defects/")):
            continue
        if path.name == "__init__.py":
            continue
        dotted = name.removesuffix(".py").replace("/", ".")
        module = dotted if dotted.startswith(("pdproto", "lab")) else f"pdproto.{dotted}"
        by_name = module in quoted or module in followed
        assert module in used or path.stem in siblings or by_name or name in entry_points, (
            f"nothing uses {name}")


# The table itself, and what tells of the past.
MAY_SAY_RETIRED = ("tests/retired_words.py", "CHANGELOG.md")


def test_no_retired_word_comes_back() -> None:
    """Words that were given up for the field's own: tests/retired_words.py says what to write."""
    use = {**ANYWHERE, **IN_NAMES}
    pages = [path for path in (*modules(), *tracked("*.md"))
             if relative(path) not in MAY_SAY_RETIRED]
    none_of(f"{relative(path)}:{line}: {word}, use {use[word]}"
            for path in pages for line, word in retired(path))


# Classes of one folder that share a name, for a reason: the two ends of one connection.
TWO_ENDS = {"Job", "Line", "OneSidedLine", "Open", "SharedLine", "TcpLine"}


# The folders of the checker and of drills have many small classes of their own.
CHECKS = ("check", "cli", "drill", "spec.examples", "testing")


def public_classes(*roots: str) -> Iterator[tuple[str, str, str]]:
    """The name, the module and the folder of each public class of these, by default of pdproto/."""
    for path in modules():
        if relative(path).startswith(roots or ("pdproto/",)):
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, f"pdproto.{dotted(path)}", folder_of(dotted(path))


def repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_a_class_has_one_meaning_in_its_folder() -> None:
    classes = list(public_classes())
    for folder in {folder for _, _, folder in classes}:
        assert repeated(name for name, _, of in classes if of == folder) <= TWO_ENDS


def test_no_class_has_three_meanings() -> None:
    """In the tables and in all that runs in a server: a reader looks it up once, or twice."""
    names = Counter(name for name, _, folder in public_classes("pdproto/", "spec/", "kernels/")
                    if folder not in CHECKS)
    assert {name for name, count in names.items() if count > 2} == set()


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
