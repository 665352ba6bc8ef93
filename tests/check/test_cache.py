"""Cache that are kept: equal to those that are computed, and never those of another question."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lab.designs import EVERY
from pdproto.check import cache, identity
from pdproto.check.answers import with_answers
from pdproto.check.cache import Cache
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED, Progress, SearchLimits
from pdproto.check.mutate.edits import Mutant, mutants
from pdproto.check.result import CheckResult
from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.examples import ring_election
from pdproto.spec.language import Configuration, SpecError, System

SETTINGS = CheckSettings()


def default(system: System) -> Configuration:
    return system.configurations["default"]


def asked(name: str, kept: Cache) -> CheckResult:
    system = load(name)
    return kept.check(system, default(system), SETTINGS)


@pytest.mark.parametrize("name", ["lock-server", "lock-server-broken", "ring-election"])
def test_a_recalled_result_is_the_computed_one(tmp_path: Path, name: str) -> None:
    """Traces, counts, seconds and places included; it only says that it is recalled."""
    kept = Cache(tmp_path)
    computed, recalled = asked(name, kept), asked(name, kept)
    assert not computed.recalled
    assert recalled == replace(computed, recalled=True)


def test_nothing_is_explored_for_a_recalled_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Cache(tmp_path)
    asked("lock-server", kept)
    monkeypatch.setattr(cache, "check", lambda *_: pytest.fail("it has been asked again"))
    assert asked("lock-server", kept).recalled


@pytest.mark.parametrize("name", ["lock-server", "agreement"])
def test_each_mutant_is_another_question(name: str) -> None:
    """Whatever one edit changes, the identity changes, also where all names stay as they are."""
    system = load(name)
    edited = [one for mutant in mutants([system]) if (one := applied(mutant, system)) is not None]
    found = [identity.identity(named(one, system.name), default(system))
             for one in (system, *edited)]
    assert len(edited) > 10
    assert len(set(found)) == len(found)


def applied(mutant: Mutant, system: System) -> System | None:
    """The edited system; None where the edit is refused."""
    try:
        return mutant.of(system)
    except SpecError:
        return None


def named(system: System, name: str) -> System:
    renamed = copy.copy(system)
    vars(renamed)["name"] = name
    return renamed


def test_every_system_and_defect_has_an_identity() -> None:
    """Each its own: without one an answer would be computed each time."""
    questions = [(system, configuration) for name in BUILT_IN
                 for system in [load(name)] for configuration in system.configurations.values()]
    found = [identity.identity(*question) for question in questions]
    assert len(set(found)) == len(found)
    for bug in EVERY:
        identity.identity(bug.system, bug.configuration)


def test_properties_sizes_faults_and_settings_are_part_of_a_question(tmp_path: Path) -> None:
    """Each alone makes another file."""
    system, kept = load("registry"), Cache(tmp_path)
    usual = default(system)
    files = {
        kept._name(system, usual, SETTINGS),
        kept._name(system, replace(usual, faults=()), SETTINGS),
        kept._name(system, replace(usual, dead_bits=not usual.dead_bits), SETTINGS),
        kept._name(system, replace(usual, sizes={s: n + 1 for s, n in usual.sizes.items()}),
                   SETTINGS),
        kept._name(system, usual, CheckSettings(keep_going=True)),
        kept._name(system, usual, CheckSettings(properties=(system.properties[0].name,))),
        kept._name(system, usual, CheckSettings(limits=SearchLimits(states_max=10))),
        kept._name(replaced(system), usual, SETTINGS),
        kept._name(system, usual, SETTINGS, with_answers),
    }
    assert len(files) == 9


def replaced(system: System) -> System:
    """The system with another reason for its first property: answers print it."""
    first, *rest = system.properties
    changed = copy.copy(system)
    vars(changed)["properties"] = (replace(first, why="another reason"), *rest)
    return changed


def test_a_topology_is_part_of_a_question() -> None:
    """A function has no identity, so the tuples count that it names at these sizes."""
    system = ring_election.SYSTEM
    usual = default(system)
    symbol = system.rigids[0]
    given = symbol.given or (lambda _: ())
    same = replace(usual, given={symbol: lambda sizes: list(given(sizes))})
    other = replace(usual, given={symbol: lambda sizes: list(given(sizes))[1:]})
    found = [identity.identity(system, one) for one in (same, replace(same, given=dict(same.given)),
                                                        other)]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_another_checker_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache(tmp_path)
    asked("lock-server", kept)
    monkeypatch.setattr(identity, "code", lambda: "other code")
    assert not asked("lock-server", kept).recalled


def test_an_identity_is_the_same_in_every_process() -> None:
    """Whatever the seed of hashes is, and whichever other systems have been loaded before."""
    program = ("import sys; from pdproto.cli.systems import load\n"
               "from pdproto.check.identity import identity\n"
               "for name in sys.argv[1:]: system = load(name)\n"
               "print(identity(system, system.configurations['default']))")
    said = {
        subprocess.run([sys.executable, "-c", program, *names], text=True, check=True,
                       capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed, names in (("1", ["transfer"]), ("2", ["drain", "binding-named", "transfer"]))
    }
    assert len(said) == 1


@pytest.mark.parametrize("damage", [b"", b"{", b'{"system": 3}', b"\xff\x00"])
def test_a_damaged_answer_is_asked_again(tmp_path: Path, damage: bytes) -> None:
    kept = Cache(tmp_path)
    first = asked("lock-server", kept)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    again = asked("lock-server", kept)
    assert (again.recalled, again.findings) == (False, first.findings)
    assert asked("lock-server", kept).recalled


def test_the_answer_of_another_question_is_asked_again(tmp_path: Path) -> None:
    """Its file is in the place of this one, or its verdict was changed there."""
    kept = Cache(tmp_path)
    held = asked("lock-server", kept)
    (good,) = tmp_path.iterdir()
    broken = asked("lock-server-broken", kept)
    (bad,) = {*tmp_path.iterdir()} - {good}
    bad.write_bytes(good.read_bytes())
    again = asked("lock-server-broken", kept)
    assert (again.recalled, again.findings) == (False, broken.findings)
    bad.write_bytes(bad.read_bytes().replace(b'"violated"', b'"holds"'))
    again = asked("lock-server-broken", kept)
    assert (again.recalled, again.findings) == (False, broken.findings)
    assert held.verdict != broken.verdict


@pytest.mark.parametrize(("settings", "kept"), [
    (CheckSettings(limits=SearchLimits(bytes_max=1)), False),
    (CheckSettings(limits=SearchLimits(states_max=10), workers=2), False),
    (CheckSettings(limits=SearchLimits(states_max=10)), True),
])
def test_a_result_that_chance_cut_short_is_not_kept(
    tmp_path: Path, settings: CheckSettings, kept: bool
) -> None:
    """Memory differs from run to run, and threads race to a limit of states; one thread does not.
    """
    system = load("lock-server")
    assert Cache(tmp_path).check(system, default(system), settings).stopped
    assert bool(list(tmp_path.iterdir())) == kept


def test_an_interrupted_answer_is_not_kept(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if not progress.done:
            raise KeyboardInterrupt

    system = load("lock-server")
    settings = CheckSettings(limits=SearchLimits(states_max=1), monitor=interrupt)
    assert Cache(tmp_path).check(system, default(system), settings).stopped == INTERRUPTED
    assert not list(tmp_path.iterdir())


def test_the_results_that_nobody_asks_for_go_first(tmp_path: Path) -> None:
    asked("lock-server", Cache(tmp_path))
    (old,) = tmp_path.iterdir()
    os.utime(old, (1, 1))
    asked("ring-election", Cache(tmp_path))
    (new,) = {*tmp_path.iterdir()} - {old}
    asked("lock-server-broken", Cache(tmp_path, bytes_max=new.stat().st_size + 20_000))
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_cannot_be_made_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert asked("lock-server", Cache(tmp_path / "file" / "below")).complete


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked("lock-server", Cache(None))
    assert not list(tmp_path.iterdir())


def test_a_topology_that_cannot_be_computed_is_told_by_the_check(tmp_path: Path) -> None:
    def raises(_: object) -> tuple[tuple[int, ...], ...]:
        raise ValueError("no such size")

    system = ring_election.SYSTEM
    wrong = replace(default(system), given={system.rigids[0]: raises})
    with pytest.raises(SpecError, match="no such size"):
        Cache(tmp_path).check(system, wrong, SETTINGS)


def test_processes_share_a_folder(tmp_path: Path) -> None:
    """They write one answer at the same time, and leave one file."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(asked, ["two-phase-commit"] * 4, [Cache(tmp_path)] * 4))
    assert all(one.findings == found[0].findings for one in found)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_question_without_an_identity_is_asked_each_time(
    tmp_path: Path
) -> None:
    """An object of an unknown kind in a system is refused an identity, and never an answer."""
    system = load("lock-server")
    strange = copy.copy(system)
    vars(strange)["about"] = object()
    with pytest.raises(TypeError, match="has no identity"):
        identity.identity(strange, default(system))
    assert Cache(tmp_path)._name(strange, default(system), SETTINGS) is None
