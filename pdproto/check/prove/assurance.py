"""Records which properties of a system are proved for every size, so that a check can report them.

`pdproto prove` writes the names of proved properties into a file, each with the text of its proof:
the lemmas, and all that it assumes. The name of the file is a digest of the whole system, of the
solver's version, and of pdproto's code (digests.py). `pdproto check` computes the same digest of
its system, so a changed table is never called proved. A property is proved only with everything on
which it rests (verdicts.py). Lemmas are no part of the system: a copy of it without them has the
same record, which says that there are such lemmas.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pdproto.check.prove.digests import name_of_system
from pdproto.check.result import CheckResult, PropertyKind, Verdict
from pdproto.check.store import Store, alone
from pdproto.check.user_cache import PROOFS, user_cache
from pdproto.spec.language.system import System

if TYPE_CHECKING:  # it needs the solver, which takes long to import
    from pdproto.check.prove.verdicts import Verdicts

# Findings of other kinds may have the name of a claim, but no proof is about them.
PROVABLE: Final = {
    PropertyKind.ALWAYS, PropertyKind.EDGES, PropertyKind.LEADS_TO, PropertyKind.REFINES}


def cache_folder() -> Path:
    """The folder of this user's records."""
    return user_cache(PROOFS)


def remember(folder: Path, verdicts: "Verdicts") -> None:
    """Record the properties, also derived ones, that are proved."""
    one = verdicts.one
    properties = {claim.name for claim in one.claims if not claim.is_lemma}
    properties |= {claim.name for claim in one.system.properties}
    told = {name: one.proved_words(name) for name in verdicts.proved & properties}
    store = Store(folder)
    with alone(folder):
        known = {**recall(folder, one.system), **told}
        store.keep(name_of_system(one.system), dict(sorted(known.items())))
    store.make_room()


def recall(folder: Path, system: System) -> Mapping[str, str]:
    """The recorded properties of the system, each with the text of its proof and assumptions."""
    return Store(folder).read(name_of_system(system), dict[str, str]) or {}


def with_assurance(folder: Path, system: System, result: CheckResult) -> CheckResult:
    """The result, where each property that holds also says whether it is recorded as proved."""
    proved = recall(folder, system)
    return replace(result, findings=tuple(
        replace(finding, assurance=f"{finding.assurance}; {proved[finding.name]}")
        if finding.name in proved and finding.kind in PROVABLE
        and finding.verdict is Verdict.HOLDS else finding
        for finding in result.findings
    ))
