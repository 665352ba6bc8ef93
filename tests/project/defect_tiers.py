"""The tests that see each historical defect, tier by tier, as pytest collects them.

    python -m tests.project.defect_tiers        # as a table

A test sees a defect when a parameter of it is the defect, its id, or the name of its system.
"""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("tests/check/test_bmc.py", "tests/handoff", "tests/property", "tests/sim")
PLUGIN: Final = "tests.project.defect_tiers"
LINE: Final = "defect:"


class Tier(StrEnum):
    """The first tier that runs a test; every later one runs it too."""

    QUICK = "make quick"
    TEST = "make test"
    NIGHTLY = "make test-all"


Seen: TypeAlias = Mapping[str, Mapping[Tier, frozenset[str]]]  # by id and tier: the test modules


def pytest_collection_finish(session: pytest.Session) -> None:
    """As a plugin: print a line for each defect that a test sees."""
    for line in _lines(session.items):
        sys.stdout.write(f"{LINE} {line}\n")


def _lines(items: Iterable[pytest.Item]) -> Iterator[str]:
    for item in items:
        for bug in _defects(item):
            module = item.nodeid.split("::")[0].removeprefix("tests/").removesuffix(".py")
            yield f"{_tier(item).name} {bug.id} {module}"


def _defects(item: pytest.Item) -> Iterator[Bug]:
    call = getattr(item, "callspec", None)
    for value in call.params.values() if call else ():
        yield from (bug for bug in BUGS if value in (bug, bug.id, bug.system.name))


def _tier(item: pytest.Item) -> Tier:
    if item.get_closest_marker("nightly"):
        return Tier.NIGHTLY
    return Tier.TEST if item.get_closest_marker("slow") else Tier.QUICK


def seen_by(collected: Collection[pytest.Item]) -> Seen:
    """By these tests, if they are all; else a process of its own collects them."""
    folders = [ROOT / folder for folder in FOLDERS]
    items = [item for item in collected if any(map(item.path.is_relative_to, folders))]
    modules = {path for folder in folders for path in (folder, *folder.rglob("test_*.py"))
               if path.is_file()}
    return _of(_lines(items)) if modules == {item.path for item in items} else seen()


def seen() -> Seen:
    """What pytest collects, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", PLUGIN, *FOLDERS],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)})
    return _of(line.removeprefix(LINE) for line in done.stdout.splitlines()
               if line.startswith(LINE))


def _of(lines: Iterable[str]) -> Seen:
    found: dict[str, dict[Tier, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in lines:
        tier, bug, module = line.split()
        found[bug][Tier[tier]].add(module)
    return {bug: {tier: frozenset(modules) for tier, modules in tiers.items()}
            for bug, tiers in found.items()}


def page(found: Seen) -> str:
    """The table, in Markdown. A column has the test modules that begin to see the defect in that
    tier.
    """
    rows = [
        f"| `{bug}` | " + " | ".join(
            ", ".join(sorted(found.get(bug, {}).get(tier, ()))) for tier in Tier) + " |"
        for bug in dict.fromkeys(bug.id for bug in BUGS)
    ]
    return "\n".join([
        "| defect | " + " | ".join(f"`{tier}`" for tier in Tier) + " |", "|---|---|---|---|", *rows,
        ""])


if __name__ == "__main__":
    sys.stdout.write(page(seen()))
