"""The identity of a question to the checker or the prover: a digest of all that decides its answer.

Every cache, record and shard is named by it, so an answer is never given to another question. It is
made of the objects of the language themselves (ground/structure.py). There are three kinds of
questions:

* At given sizes (`identity`). Two systems have the same identity if and only if their tables,
  properties, faults, interpretations and places are the same. A place is a file and a line; results
  name places.
* For every size (`Structure()`). A proof names no place, and assumes no interpretation (`given=`,
  `sets=`), so these are left out.
* A count of states (`of_count`). It depends on the tables and sizes, but on no place, no reason,
  and no version of the checker: the tests count again.
"""

import hashlib
import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

import pdproto
from pdproto.check import native
from pdproto.ground.structure import REASONS, Structure, names_of, tuples
from pdproto.spec.language.system import Configuration, System

# A result depends on the code that computes it: the checker, the ground form, and the language.
CODE: Final = ("check", "ground", "spec/language")
SUFFIXES: Final = (".py", ".c", ".h")
LEFT_OUT: Final = frozenset({"configurations"})  # the explored configuration is a separate argument


def identity(system: System, configuration: Configuration, *rest: object) -> str:
    """A digest of the system at these sizes, of the checker's code, and of `rest`, as hex.

    Raises TypeError for a value that cannot be compared by content, such as a function.
    """
    parts = (content(system), *_explored(configuration), rest, code(), native.available())
    return Structure(configuration.sizes).of(parts).hex()


def of_count(system: System, configuration: Configuration) -> str:
    """The identity of the counts of a whole search, as 16 hex digits. Raises TypeError likewise."""
    parts = (content(system, LEFT_OUT | REASONS), *_explored(configuration))
    return Structure(configuration.sizes, counted=True).of(parts).hex()[:16]


def content(system: System, left_out: Collection[str] = LEFT_OUT) -> tuple[object, ...]:
    """Every part of the system but these fields: a value for `Structure.of`."""
    own = {name: getattr(system, name) for name in names_of(System) if name not in left_out}
    return own, system.variables, system.rigids, system.sorts


def _explored(configuration: Configuration) -> tuple[object, ...]:
    """The interpretations, and all else that a configuration decides."""
    return (
        {symbol: tuples(given(configuration.sizes))
         for symbol, given in configuration.given.items()},
        tuple(getattr(configuration, name) for name in names_of(Configuration) if name != "given"),
    )


def name_of(system: System, configuration: Configuration, *rest: object) -> str | None:
    """The identity as the name of a kept value (store.py); None if the question has none."""
    try:
        return identity(system, configuration, *rest)
    except Exception:
        return None  # the check reports the error, for example in the user's own `given=`


@cache
def code() -> str:
    """A digest of the code that computes results, and of its version."""
    text = hashlib.blake2b(pdproto.__version__.encode())
    root = Path(pdproto.__file__).parent
    for folder in CODE:
        for inner, _, names in sorted(os.walk(root / folder)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    text.update(Path(inner, name).read_bytes())
    return text.hexdigest()
