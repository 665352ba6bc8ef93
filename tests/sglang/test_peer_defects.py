"""What SGLang's hand-over does wrong: the tables say it, and its own classes do it."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from lab.peers import sglang, sglang_registry
from lab.peers.defects import DEFECTS, Defect
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import SearchLimits
from pdproto.check.result import Finding, Verdict
from pdproto.check.trace.verify import verify
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.language import Configuration, System
from tests.skips import SGLANG

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "lab" / "peer_defects"
PAGE = (ROOT / "docs" / "peer.md").read_text(encoding="utf-8")
STATES_MAX = 2_000_000

each_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.script)


def found(system: System, configuration: Configuration, name: str) -> Finding:
    settings = CheckSettings(properties=(name,), limits=SearchLimits(states_max=STATES_MAX))
    result = check(system, configuration, settings)
    return next(finding for finding in result.findings if finding.name == name)


@each_defect
def test_the_description_breaks_the_property(defect: Defect) -> None:
    assert found(defect.system, defect.configuration, defect.violates).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    "defect", [defect for defect in DEFECTS if defect.repaired], ids=lambda defect: defect.script)
def test_the_repair_holds(defect: Defect) -> None:
    assert defect.repaired is not None
    finding = found(defect.repaired, defect.configuration, defect.violates)
    assert finding.verdict is Verdict.HOLDS


def rows_of_the_page() -> list[list[str]]:
    """The table of divergences: its cells, row by row."""
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def test_the_page_names_every_script_and_no_other() -> None:
    named = {row[0].strip("`") for row in rows_of_the_page()}
    scripts = {path.stem for path in SCRIPTS.glob("*.py")}
    assert named == scripts - {"__main__", "pair", "plain", "script", "steps"}


def test_the_page_names_defects_that_there_are() -> None:
    named = {name for row in rows_of_the_page() for name in re.findall(r"`([^`]+)`", row[-1])}
    assert named
    assert named <= {bug.id for bug in BUGS}


def test_the_page_names_properties_that_there_are() -> None:
    shown = {defect.script: defect.violates for defect in DEFECTS}
    for script, *_, violates, _ in rows_of_the_page():
        assert violates.strip("`") == shown.get(script.strip("`"), "")


@cache
def played() -> dict[str, tuple[bool, list[Path]]]:
    """Whether each defect shows, and the traces of the scene; SGLang is imported once for all."""
    done = subprocess.run(
        [sys.executable, "-m", "lab.peer_defects"],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    scenes = {}
    for part in done.stdout.split("# ")[1:]:
        name, told = part.split("\n", 1)
        folder = Path(re.findall("^traces: (.*)$", told, re.MULTILINE)[0])
        scenes[name] = "the defect shows" in told.split("traces: ")[0], sorted(
            path for path in folder.glob("*.jsonl") if path.stat().st_size)
    return scenes


@pytest.fixture
def scenes() -> dict[str, tuple[bool, list[Path]]]:
    pytest.importorskip("sglang", reason=SGLANG)
    return played()


def of_ranks(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.name != "registry.jsonl"]


def test_every_defect_shows(scenes: dict[str, tuple[bool, list[Path]]]) -> None:
    assert {name for name, (shows, _) in scenes.items() if not shows} == {"plain"}


def test_every_run_conforms_to_the_description(
    scenes: dict[str, tuple[bool, list[Path]]]
) -> None:
    """Also one that shows a defect: the tables say what SGLang does, and not what it should."""
    told = 0
    for _, paths in scenes.values():
        for system, files in ((sglang.SYSTEM, of_ranks(paths)),
                              (sglang_registry.SYSTEM, paths[len(of_ranks(paths)):])):
            if files:
                verified = verify(system, files)
                assert verified.verdict is Verdict.HOLDS, verified.rejection or verified.missing
                told += 1
    assert told > len(scenes)


@pytest.mark.parametrize(
    "defect", [defect for defect in DEFECTS if defect.rejected], ids=lambda defect: defect.script)
def test_the_repaired_tables_reject_the_run(
    defect: Defect, scenes: dict[str, tuple[bool, list[Path]]]
) -> None:
    assert defect.repaired is not None
    _, paths = scenes[defect.script]
    of_registry = defect.system.name.startswith("sglang-registry")
    files = paths[len(of_ranks(paths)):] if of_registry else of_ranks(paths)
    assert verify(defect.repaired, files).verdict is Verdict.VIOLATED
