"""A cached answer is never given to a system whose uncached answer differs, whatever the edit.

Of the check, of each obligation of a proof, of the record from which `check` says "proved for every
size", and of the shards that `merge` puts together. Each night draws some systems of its own, too.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.cache import Cache
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import SearchLimits
from pdproto.check.prove.assurance import recall, remember
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.shared import digest_of
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.report.as_json import to_json
from pdproto.spec.language import Configuration, System
from tests import tonight
from tests.oracle.edits import told_apart
from tests.oracle.systems import PROVABLE, STRONG

# The later seeds have strong fairness, numbers and refinements, too.
NIGHT = (*range(100), *range(STRONG, STRONG + 30), *range(PROVABLE, PROVABLE + 30),
         *(seed for first in (0, STRONG, PROVABLE) for seed in tonight.seeds(first, 4)))
DAY = *range(6), STRONG, PROVABLE + 5
PROVED_BY_DAY = 3, PROVABLE + 5
EDITS = 6
TIMEOUT_S = 1.0
MOST = CheckSettings(keep_going=True, limits=SearchLimits(states_max=1_500))


def seeds(by_day: Collection[int]) -> list[Any]:
    """These seeds by day, and all of them by night, with some that no other night has drawn."""
    return [pytest.param(seed, marks=[] if seed in by_day else pytest.mark.nightly)
            for seed in NIGHT]


def asked(cache: Cache, system: System, configuration: Configuration) -> dict[str, Any] | str:
    """The answer of a check, without the seconds that it took; or the refusal."""
    try:
        told = to_json(cache.check(system, configuration, MOST))
    except Exception as refused:  # an edit may write what no spec module could
        return f"{type(refused).__name__}: {refused}"
    return {name: value for name, value in told.items() if name not in ("seconds", "recalled")}


def is_answer(told: dict[str, Any] | str) -> bool:
    return isinstance(told, dict)


def fresh(system: System, configuration: Configuration) -> dict[str, Any] | str:
    return asked(Cache(None), system, configuration)


@pytest.mark.parametrize("seed", seeds(DAY))
def test_a_kept_result_is_that_of_this_system(seed: int, tmp_path: Path) -> None:
    found = told_apart(seed, EDITS, fresh, is_answer)
    every, right = [one[:2] for one in found], [one[2] for one in found]
    cache = Cache(tmp_path)
    assert [asked(cache, *one) for one in every] == right
    assert [asked(cache, *one) for one in reversed(every)] == right[::-1]


def proof(system: System, folder: Path | None) -> Verdicts | None:
    """The proof of all properties; None of an edit of which no proof can speak."""
    try:
        subject = ProofSubject(system, (), {}).without_counts()
        found = prove(subject.system, subject.obligations(), ProofSettings(
            timeout_s=TIMEOUT_S, cache_folder=folder))
    except Exception:  # an edit may write what no spec module could
        return None
    return Verdicts(subject, found)


def statuses(found: Verdicts | None) -> list[tuple[str, str, Status]]:
    return [] if found is None else [
        (o.name, o.layer, found.status(o)) for o in found.proof.obligations]


def decided(found: Verdicts | None) -> list[tuple[str, str, Status]]:
    return [one for one in statuses(found) if one[2] in (Status.PROVED, Status.FAILED)]


def unkept(system: System, _: Configuration) -> Verdicts | None:
    return proof(system, None)


@cache
def proofs(seed: int) -> list[tuple[System, Verdicts | None]]:
    """A system and its edits with their proofs, of which enough decide something."""
    return [(system, found) for system, _, found in told_apart(seed, EDITS, unkept, decided)]


@pytest.mark.parametrize("seed", seeds(PROVED_BY_DAY))
def test_a_kept_proof_is_that_of_this_system(seed: int, tmp_path: Path) -> None:
    every = [(system, statuses(found)) for system, found in proofs(seed)]
    for system, right in (*every, *reversed(every)):
        kept = statuses(proof(system, tmp_path)) if right else []
        # A question that runs out of time has an answer when there is more of it.
        contradicted = [
            (one, other) for one, other in zip(right, kept, strict=True)
            if one != other and {one[2], other[2]} == {Status.PROVED, Status.FAILED}]
        assert contradicted == []


@pytest.mark.parametrize("seed", seeds(PROVED_BY_DAY))
def test_a_record_says_proved_of_what_is_proved(seed: int, tmp_path: Path) -> None:
    every = [(system, found) for system, found in proofs(seed) if found is not None]
    for _, found in every:
        remember(tmp_path, found)
    for system, found in every:
        assert recall(tmp_path, system).keys() <= found.proved


@pytest.mark.parametrize("seed", seeds(PROVED_BY_DAY))
def test_shards_of_another_system_are_not_merged(seed: int) -> None:
    """`merge` puts only those together that name one digest."""
    verdicts: dict[str, object] = {}
    for _, found in proofs(seed):
        if found is not None:
            known = verdicts.setdefault(digest_of([found.one]), decided(found))
            assert known == decided(found)
    assert len(verdicts) > 1, "all have one digest"
