"""The arrows of the architecture: which folder may import which. ARCHITECTURE.md shows this table.

From the bottom to the top: a folder imports only what stands above it here. So servers never
import the checker, the checker knows no protocol, and nothing imports a command.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

OUTSIDE: Final = ("lab", "proofs", "examples", "tests")  # the folders that are not in the wheel

# By folder or module below pdproto/, or folder of the project: what its modules may import.
LAYERS: Final = {
    "spec.language": "",
    "spec.handoff": "spec.language",
    "spec.examples": "spec.language",
    "spec.bugs": "spec.handoff, spec.language",
    "spec.lemmas": "spec.examples, spec.handoff, spec.language",
    "spec.entry": "",
    "spec.catalogue": "spec.entry",
    "kernels": "",
    "ground": "spec.language",
    "check": "ground, spec.language",
    "runtime": "ground, spec.handoff, spec.language",
    "drivers": "runtime",
    "net": "",
    "engine": "net, runtime",
    "node": "engine, ground, net, runtime, spec.handoff, spec.language",
    "pages": "engine, kernels, node, runtime",
    "transport": "engine, ground, net, node, runtime, spec.handoff, spec.language",
    "group": "node, runtime, spec.handoff, spec.language, transport",
    "registry": "net, node, runtime, spec.handoff, transport",
    "items": "engine, kernels, node, pages, runtime",
    "sglang": "engine, items, net, node, pages, registry, runtime, spec.handoff, transport",
    "vllm": "engine, items, net, node, pages, runtime, spec.handoff, transport",
    "testing": "check, ground, runtime, spec.handoff, spec.language",
    "drill": "engine, group, net, node, pages, registry, runtime, spec.handoff, transport",
    "cli": "check, drill, engine, ground, net, registry, runtime, spec.bugs, spec.catalogue, "
           "spec.entry, spec.handoff, spec.language, testing, transport",
    "proofs": "check, cli, spec.bugs, spec.examples, spec.handoff, spec.language, spec.lemmas",
    "examples": "drivers, engine, runtime, sglang, spec.language",
    "lab": "check, cli, drill, engine, examples, ground, group, kernels, net, node, pages, "
           "registry, runtime, spec.bugs, spec.catalogue, spec.entry, spec.handoff, spec.language, "
           "testing, transport",
}

# Inside pdproto/node: its own modules import none of these, and these not each other.
KINDS_OF_NODES: Final = ("node.decode", "node.optimistic", "node.prefill")


def allowed(folder: str) -> frozenset[str]:
    """What the table lets a folder import."""
    return frozenset(filter(None, LAYERS[folder].split(", ")))


def folder_of(module: str) -> str:
    """The folder of the table that a module is in: of `pdproto.engine.tcp_sink` it is `engine`."""
    parts = module.removeprefix("pdproto.").split(".")
    return ".".join(parts[: 2 if parts[0] == "spec" else 1])


def dotted(path: Path) -> str:
    """The name by which a module of the project is imported, without `pdproto.`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "pdproto" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, also inside others; expressions, which are most of a tree, are left out."""
    for one in body:
        yield one
        inside = [one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())]
        for holder in inside:
            for name in ("body", "orelse", "finalbody"):
                yield from statements(getattr(holder, name, []))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every name that a module imports, each `from` with both its module and its names."""
    package = ("pdproto." + dotted(path)).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    found: list[str] = []
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found += (module, *(f"{module}.{alias.name}" for alias in node.names))
    return tuple(found)


def arrows(path: Path) -> Iterator[tuple[str, str]]:
    """The arrows of a module: from its folder to another of the project, with the import."""
    here = folder_of(dotted(path))
    for module in imports(path):
        first = module.split(".")[0]
        if (first == "pdproto" and module.count(".")) or first in OUTSIDE:
            there = folder_of(module)
            if there != here and (there in LAYERS or there == "tests"):
                yield there, module
