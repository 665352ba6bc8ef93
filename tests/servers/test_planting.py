"""A defect whose place has gone is an error, and those of vLLM's servers have their places.

tests/sglang/test_server_defects.py puts each defect of SGLang's servers in. Those of vLLM cannot be
put in without vLLM, so their places are looked up in the sources.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from tests.servers.planting import replace, wrap

ROOT: Final = Path(__file__).resolve().parents[2]
DEFECTIVE: Final = ROOT / "tests" / "vllm_servers" / "defective.py"


def test_a_place_that_has_gone_is_an_error() -> None:
    place = SimpleNamespace()
    with pytest.raises(AttributeError, match="gone"):
        replace(place, "gone", None)
    with pytest.raises(AttributeError, match="gone"):
        wrap(place, "gone", lambda old, self: old(self))
    assert vars(place) == {}


def test_a_name_that_a_module_has_is_replaced() -> None:
    place = SimpleNamespace(there=1)
    replace(place, "there", 2)
    assert place.there == 2


def replaced(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The modules and the names of `planting.replace(module, "name", ...)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="planting"), attr="replace"),
                          args=[ast.Name(id=module), ast.Constant(value=str(name)), *_]):
                yield module, name


def imported(tree: ast.Module) -> dict[str, Path]:
    """The files of the modules of ours that it imports by name."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                path = ROOT.joinpath(*node.module.split("."), f"{alias.name}.py")
                if path.exists():
                    found[alias.asname or alias.name] = path
    return found


def names(path: Path) -> set[str]:
    """The names that a module has at its top."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name for alias in node.names}
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def test_the_names_that_defects_of_vllm_replace_are_there() -> None:
    tree = ast.parse(DEFECTIVE.read_text(encoding="utf-8"))
    files, places = imported(tree), list(replaced(tree))
    assert places, "want at least one: otherwise this test sees nothing"
    for module, name in places:
        assert name in names(files[module]), f"{files[module].name} has no {name} any more"
