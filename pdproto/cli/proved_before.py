"""Reports of `pdproto prove` of built-in systems, kept for a run in which nothing has changed.

A report is kept if everything was proved, under a digest of pdproto's code with all its tables, of
the solver's version, and of the arguments. To find it, no table needs to be read.
"""

import argparse
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from rich.console import Console

from pdproto.check.executor_forms import LOCAL
from pdproto.check.prove.solver_version import solver_version
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.report.proofs import tell, to_json
from pdproto.check.store import Store
from pdproto.check.task_process import contents
from pdproto.check.user_cache import RESULTS, user_cache
from pdproto.cli.systems import BUILT_IN

ASKED: Final = ("system", "properties", "faults", "engine", "timeout")
ALWAYS_ANEW: Final = ("no_cache", "lemmas", "suggest", "export", "html", "shard", "bmc")


@dataclass(frozen=True, slots=True)
class KeptReport:
    """The lines on the terminal, and the JSON of each system."""

    text: str
    results: list[dict[str, Any]]


def recall(arguments: argparse.Namespace) -> KeptReport | None:
    """The report of an earlier run with these arguments; None if there is none."""
    return _store().read(_name(arguments), KeptReport)


def keep(arguments: argparse.Namespace, proofs: Sequence[Verdicts]) -> None:
    """Keep the report of proofs in which all that was asked for is proved."""
    name = _name(arguments)
    if name is None:
        return
    text = io.StringIO()
    for found in proofs:
        tell(found, (), Console(file=text))
    results = [json.loads(json.dumps(to_json(found))) for found in proofs]
    store = _store()
    store.keep(name, KeptReport(text.getvalue(), results))
    store.make_room()


def _store() -> Store:
    return Store(user_cache(RESULTS))


def _name(arguments: argparse.Namespace) -> str | None:
    """The name of the report; None for a run that is always made anew."""
    if (any(getattr(arguments, name) for name in ALWAYS_ANEW) or arguments.executor != LOCAL
            or arguments.system not in (None, *BUILT_IN)):
        return None
    asked = [getattr(arguments, name) for name in ASKED]
    text = repr(("prove", contents(), solver_version(), asked))
    return blake2b(text.encode(), digest_size=16).hexdigest()
