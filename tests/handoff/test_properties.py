"""The table of promises against the systems: it names every checked property, and no other."""

import re
from collections import Counter
from pathlib import Path

import pytest

from pdproto.cli.systems import load, subject
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Entry
from pdproto.spec.handoff.properties import PROMISES, Promise
from pdproto.spec.language import Always, LeadsTo, OnRow, Sometimes
from tests.docs import promises
from tests.docs.promises import checked_in, details, document

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = checked_in()
IDS = [promise.id for promise in PROMISES]
# What a property's name begins with: "S1_", "L10_", "M4_1_".
ID = re.compile(r"^(?:([SL]\d+)|M(\d)_(\d))_")


def test_every_id_is_there_once() -> None:
    assert IDS[:19] == [f"S{n}" for n in range(1, 20)]
    assert IDS[19:30] == [f"L{n}" for n in range(1, 12)]
    rows = {1: 4, 2: 5, 3: 6, 4: 5, 5: 9, 6: 4}
    assert IDS[30:] == [f"M{part}.{n}" for part, count in rows.items() for n in range(1, count + 1)]


# A name says its subject: "a_failed_sink", and not "who_has_failed".
HEADLESS = re.compile(r"(?:^|_)(?:who|whom|whose|what|somebody|nobody|everybody|everybodys)(?:_|$)")


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_names_of_properties_lemmas_and_rows_have_a_subject(entry: Entry) -> None:
    found = subject(entry.name) if entry.lemmas else None
    system = load(entry.name)
    names = [*(claim.name for claim in system.properties), *(row.name for _, row in system.rows())]
    if found is not None:
        names += [one.name for one in (*found.lemmas, *found.helping, *found.fault_free.lemmas)]
        names += [one.name for one in found.monotone]
    assert [name for name in names if HEADLESS.search(name)] == []


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.id)
def test_every_named_property_is_checked(promise: Promise) -> None:
    assert [name for name in promise.names if name not in SYSTEMS] == []
    assert max(Counter(promise.names).values(), default=1) == 1
    assert promise.names or promise.runtime or promise.simulator
    assert promise.says.endswith(".")


def test_every_checked_property_with_an_id_is_named_by_its_promise() -> None:
    promises = {promise.id: promise.names for promise in PROMISES}
    for name in SYSTEMS:
        found = ID.match(name)
        if found:
            identity = found[1] or f"M{found[2]}.{found[3]}"
            assert name in promises[identity]


@pytest.mark.parametrize("name", ["transfer", "agreement", "optimistic", "registry", "dp-rank"])
def test_each_part_has_safety_liveness_and_witnesses(name: str) -> None:
    """A safety property also holds where nothing happens, so each part has witnesses."""
    kinds = Counter(type(claim) for claim in load(name).properties)
    assert min(kinds[Sometimes], kinds[Always] + kinds[OnRow], kinds[LeadsTo]) > 0


def test_each_property_of_a_promise_has_a_row_with_a_system_that_has_it() -> None:
    page, _, _ = details().partition("## Sizes")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^ ,|]+)", page, re.MULTILINE)
    listed = [(name, system) for names, system in rows for name in re.findall(r"\w+", names)]
    assert Counter(name for name, _ in listed) == Counter(
        name for promise in PROMISES for name in promise.names)
    assert all(system in SYSTEMS[name] for name, system in listed if system != "all")


def test_a_promise_is_proved_only_if_each_of_its_properties_is(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """One property after the other is taken from those that are proved."""
    def told() -> list[str]:
        (line,) = (line for line in document().splitlines() if line.startswith(start))
        return [word.strip() for cell in line.split("|") for word in cell.split(",")]

    proved = {**promises.proved_in()}
    one = next(one for one in PROMISES if sum(name in proved for name in one.names) > 1
               and all(name in proved for name in one.names))
    start = f"| [{one.id}]("
    monkeypatch.setattr(promises, "proved_in", lambda: proved)
    assert "proved" in told()
    for name in one.names:
        del proved[name]
        assert ("proved in part" in told()) == (name != one.names[-1])
        assert "proved" not in told()
