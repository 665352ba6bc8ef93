"""Mutants that were judged before: recalled if nothing has changed, else judged again."""

from dataclasses import replace
from pathlib import Path

import pytest

from pdproto.check import identity
from pdproto.check.mutate.edits import mutants
from pdproto.check.mutate.processes import judged, prepared
from pdproto.check.mutate.recalled import Recalled
from pdproto.check.mutate.trials import Judged, MutantOutcome, Trials, searches, trials_of
from pdproto.check.store import Store
from pdproto.cli.systems import load, subject
from pdproto.spec.language import System
from tests.check.test_cache import applied, named

NAMES = ("lock-server",)
KILLED = Judged(0, MutantOutcome.KILLED, seconds=0.5)


def trials(system: System) -> Trials:
    return trials_of([system], searches(system), {})


def campaign(store: Store) -> list[Judged]:
    (every,) = prepared([NAMES], subject, 1, lambda _: None, store)
    numbers = [mutant.number for mutant in every.mutants][:12]
    return list(judged(NAMES, every, numbers, subject, 1, store))


def test_an_unchanged_campaign_tries_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the searches of the unchanged system; times included, the results are the same."""
    first = campaign(Store(tmp_path))
    assert len(first) == 12
    for module, name in (("trials", "Trials.judged"), ("processes", "measure")):
        monkeypatch.setattr(f"pdproto.check.mutate.{module}.{name}",
                            lambda *_: pytest.fail("it has been tried again"))
    assert campaign(Store(tmp_path)) == first


def test_each_change_of_a_row_is_another_question(tmp_path: Path) -> None:
    """Whichever row is edited: no result of the original is taken for the edited tables."""
    system, store = load("lock-server"), Store(tmp_path)
    Recalled(store, trials(system)).keep(KILLED)
    assert Recalled(store, trials(system)).read(0) == KILLED
    edits = [one for mutant in mutants([system]) if (one := applied(mutant, system)) is not None]
    assert len(edits) > 10
    for edited in edits:
        assert Recalled(store, trials(named(edited, system.name))).read(0) is None


def test_lemmas_and_the_checker_are_part_of_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject("lock-server")
    store, usual = Store(tmp_path), trials(one.system)
    Recalled(store, usual).keep(KILLED)
    assert one.lemmas
    assert Recalled(store, replace(usual, lemmas={one.system.name: one.lemmas})).read(0) is None
    assert Recalled(store, usual).read(1) is None
    monkeypatch.setattr(identity, "code", lambda: "other code")
    assert Recalled(store, trials(one.system)).read(0) is None


def test_what_a_limit_left_undecided_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Recalled(store, trials(load("lock-server"))).keep(replace(KILLED,
                                                              outcome=MutantOutcome.UNDECIDED))
    assert not list(tmp_path.iterdir())


def test_a_system_without_an_identity_is_judged_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise TypeError("it has no identity")

    monkeypatch.setattr(identity, "identity", refuse)
    recalled = Recalled(Store(tmp_path), trials(load("lock-server")))
    recalled.keep(KILLED)
    assert recalled.read(0) is None
    assert not list(tmp_path.iterdir())
