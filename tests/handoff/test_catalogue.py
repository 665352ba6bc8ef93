"""Every system of spec/ has one complete entry in the catalogue."""

import importlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pdproto.check.lint.resend import losing_layers
from pdproto.check.result import Verdict
from pdproto.cli.systems import expected, load, subject
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.catalogue import CATALOGUE, SYSTEMS
from pdproto.spec.entry import Entry
from pdproto.spec.handoff import ends
from pdproto.spec.language import LeadsTo, System
from pdproto.spec.language.symbols import Message
from tests.handoff.exploring import judged, name_of

ROOT = Path(__file__).resolve().parents[2]


def systems_of(module: str) -> Iterator[tuple[str, System]]:
    """The public systems that stand in a module, imported ones included."""
    for attribute, value in vars(importlib.import_module(f"pdproto.spec.{module}")).items():
        if isinstance(value, System) and not attribute.startswith("_"):
            yield f"{module}:{attribute}", value


def modules() -> list[str]:
    """The modules with systems to check; a defect has its place in a list of defects."""
    paths = [path.relative_to(ROOT / "spec") for path in (ROOT / "spec").rglob("*.py")]
    names = [".".join(path.with_suffix("").parts) for path in sorted(paths)]
    return [name for name in names if not re.match(r"bugs\.|language\.|peers\..*defects", name)]


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_a_configuration_of_its_system_refutes_a_defect(bug: Bug) -> None:
    """The catalogue names the smallest sizes. A check of the system finds the defect, too."""
    chosen = {name: sizes for name, sizes in bug.system.configurations.items() if name != "deep"}
    chosen = chosen or dict(bug.system.configurations)
    assert any(judged(bug.system, bug.violates, sizes).verdict is Verdict.VIOLATED
               for sizes in chosen.values())


RECORD = "`pdproto check {} --configuration {} --record spec/counts.json`"


def missing(entry: Entry) -> list[str]:
    """The parts that the entry lacks, each with what to do."""
    system = load(entry.target)
    found = []
    if system.name != entry.name:
        found.append(f"{entry.at} calls itself {system.name}")
    if not system.about.endswith("."):
        found.append("`about` of the system: say in one sentence what it is")
    if not system.configurations:
        found.append("`configurations` of the system: name at least one size")
    if entry.of_the_handoff:
        found += [f"no counts of {name}: {RECORD.format(entry.name, name)}"
                  for name in system.configurations if (entry.name, name) not in expected()]
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_nothing_is_missing(name: str) -> None:
    assert missing(SYSTEMS[name]) == []


def test_every_system_has_one_entry() -> None:
    assert len(SYSTEMS) == len(CATALOGUE) == len({entry.at for entry in CATALOGUE})
    known = {id(load(entry.target)) for entry in CATALOGUE}
    assert len(known) == len(CATALOGUE)
    assert [at for name in modules() for at, system in systems_of(name)
            if id(system) not in known] == []


@pytest.mark.parametrize(
    "name", [entry.name for entry in CATALOGUE if entry.lemmas])
def test_the_proofs_are_found(name: str) -> None:
    """A ranking is of a `leads_to` that the system has."""
    found = subject(name)
    assert found.lemmas
    promised = {claim.name for claim in found.system.properties if isinstance(claim, LeadsTo)}
    assert {ranking.leads_to for ranking in found.every_ranking} <= promised
    assert bool(found.every_ranking) == bool(SYSTEMS[name].ranking)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Registry"}, "a name is small letters"),
        ({"at": "handoff.registry"}, "not of the form module:ATTRIBUTE"),
        ({"at": ":SYSTEM"}, "not of the form module:ATTRIBUTE"),
        ({"lemmas": ""}, "registry: the ranking 'registry_ranking' needs lemmas"),
    ],
    ids=str,
)
def test_a_malformed_entry_is_refused(change: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        replace(SYSTEMS["registry"], **change)  # type: ignore[arg-type]


def test_an_error_names_each_missing_part() -> None:
    """Of an entry whose system exists, and that is wrong in everything else."""
    another = replace(SYSTEMS["registry-late"], name="another")
    assert missing(another) == [
        "handoff.registry_late:SYSTEM calls itself registry-late",
        "no counts of default: " + RECORD.format("another", "default"),
    ]


def test_the_file_has_no_counts_of_a_size_that_there_is_not() -> None:
    """If this fails, `pdproto check --record spec/counts.json` takes systems out that are gone."""
    assert [key for key in expected() if key[1] not in load(key[0]).configurations] == []


def test_the_transfer_can_lose_each_message_that_is_not_reliable() -> None:
    """The layer names its messages: a new one that it is not told of would never be lost."""
    unreliable = {one for one in vars(ends).values() if isinstance(one, Message)
                  and not one.reliable}
    assert losing_layers(load("transfer")).keys() == unreliable, (
        "add the new message to LOSSY of spec/handoff/engine.py, or declare it reliable")
