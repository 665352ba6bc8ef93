"""What is proved of a system with no bound, remembered for whoever explores it.

`pdproto prove` writes down which properties it has proved, in a file named by a digest of all that
this rests on: the tables with their fault layers, the properties, the axioms, and the prover's own
text. `pdproto check` finds it by making the same digest of what it is given, so that a changed
table is never called proved.
"""

import hashlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import RATCHETS, Method, rows
from pdproto.check.words import effect_text, formula_text, update_text
from pdproto.spec.language.formula import normal
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Sometimes
from pdproto.spec.language.system import System

if TYPE_CHECKING:  # it needs the solver, which takes long to import
    from pdproto.check.prove.proving import Proof

ENDING: Final = ".proved"


def cache_folder() -> Path:
    """Where this user's proofs are remembered."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pdproto" / "proofs"


def remember(folder: Path, system: System, proof: "Proof") -> None:
    """Write down what of the system every obligation of which is proved."""
    folder.mkdir(parents=True, exist_ok=True)
    proved = sorted({*recall(folder, system), *_proved(proof)})
    _file(folder, system).write_text("".join(f"{name}\n" for name in proved), encoding="utf-8")


def recall(folder: Path, system: System) -> frozenset[str]:
    """The properties of the system that are known to be proved."""
    try:
        return frozenset(_file(folder, system).read_text(encoding="utf-8").split())
    except OSError:
        return frozenset()



def _proved(proof: "Proof") -> frozenset[str]:
    """What has all its obligations proved; a leads_to has those of its steps, and the ratchets.

    Nothing, if something that is assumed is not itself proved.
    """
    proved: dict[str, bool] = {}
    assumed: set[str] = set()
    ranked: set[str] = set()
    for obligation in proof.obligations:
        is_proved = proof.status(obligation) is Status.PROVED
        for name in {obligation.claim.name, obligation.claim.part_of or obligation.claim.name}:
            proved[name] = proved.get(name, True) and is_proved
        assumed |= {claim.name for claim in obligation.sequent.assumed}
        if obligation.claim.method is Method.RANKING:
            ranked.add(obligation.claim.part_of)
    if not all(proved.get(name, False) for name in assumed):
        return frozenset()
    unkept = ranked if not proved.get(RATCHETS, True) else frozenset()
    return frozenset(name for name, whole in proved.items() if whole and name not in unkept)


def _file(folder: Path, system: System) -> Path:
    modules = sorted(Path(__file__).parent.glob("*.py"))
    prover = (path.read_text(encoding="utf-8") for path in modules)
    text = "\n".join((version("z3-solver"), *prover, *_text(system)))
    return folder / (hashlib.sha256(text.encode()).hexdigest() + ENDING)


def _text(system: System) -> Iterator[str]:
    """All that a proof of the system is about."""
    for sort in system.sorts:
        yield f"{sort.__name__} {sort.ordered}"
    for symbol in (*system.variables, *system.rigids):
        yield f"{symbol.signature} {symbol.values}"
    for axiom in system.axioms.values():
        yield formula_text(normal(axiom))
    for table, row, layer in rows(system):
        yield f"{table.machine.name} {row.name} {row.kind} {row.fair} {layer}"
        yield formula_text(normal(table.guard(row)))
        yield from (update_text(update) for update in table.updates(row))
        yield from (effect_text(effect) for effect in row.send)
    for claim in system.properties:
        match claim:
            case Always() | Sometimes():
                yield f"{claim.name} {formula_text(claim.claim)}"
            case OnRow():
                yield f"{claim.name} {claim.row} {formula_text(claim.claim)}"
            case LeadsTo():
                yield f"{claim.name} {formula_text(claim.premise)} {formula_text(claim.goal)}"
