"""The same questions to several checkers: our engines and TLC.

Each is asked without reductions, so all must find the same number of states. Each is asked about
all properties, but not under `Fairness.CONSUMED`. With several interpretations of the rigid
symbols, their states are added up.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Final, TypeAlias

from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import StoppedError
from pdproto.check.explore import DUCKDB, ENGINES, EngineChoice
from pdproto.check.opinions import tlc
from pdproto.check.opinions.opinion import FailedError, NotInstalledError, Opinion, in_each_world
from pdproto.check.opinions.tla_context import SPECIFICATIONS
from pdproto.check.result import CheckResult, PropertyKind, Verdict
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.system import Configuration, System

Asked: TypeAlias = Callable[[System, Configuration], Opinion]

FAIRNESS: Final = tuple(f for f in SPECIFICATIONS if f is not None)


@dataclass(frozen=True, slots=True)
class Compared:
    """The opinions on one system, the native engine's first.

    missing: why a checker gave none. differing: the checkers whose opinion differs from the first.
    differences: how, in words.
    """

    system: str
    configuration: str
    opinions: tuple[Opinion, ...]
    missing: Mapping[str, str]
    differing: tuple[str, ...]
    differences: tuple[str, ...]


def compare(
    system: System, name: str, configuration: Configuration, checkers: Collection[str], *,
    workers: int = 1, announce: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Ask the checkers, the native engine first, which the others are compared with.

    name: of the configuration. announce: gets the name of each checker before it is asked. Raises
    SpecError or TooLargeError if the system cannot be explored at these sizes.
    """
    plain = replace(configuration, symmetry=False, dead_bits=False)
    known: dict[str, Asked] = {
        **{name: partial(_ours, engine, workers) for name, engine in ENGINES.items()},
        "tlc": lambda s, c: in_each_world(
            s, c, lambda ground: tlc.ask(ground, workers=workers)),
    }
    opinions: list[Opinion] = []
    missing = {}
    for checker in dict.fromkeys(("native", *checkers)):
        announce(checker)
        try:
            opinions.append(known[checker](system, plain))
        except (NotInstalledError, FailedError) as error:
            missing[checker] = str(error)
    first, *others = opinions
    differences = {other.checker: tuple(_differences(first, other)) for other in others}
    return Compared(
        system.name, name, tuple(opinions), missing,
        tuple(checker for checker, found in differences.items() if found),
        tuple(text for found in differences.values() for text in found))


CHECKERS: Final = (*ENGINES, "tlc")


def _ours(
    engine: EngineChoice, workers: int, system: System, configuration: Configuration
) -> Opinion:
    """The engine's answer, without `Fairness.CONSUMED`."""
    if engine == DUCKDB and find_spec("duckdb") is None:
        raise NotInstalledError("duckdb is not installed: pip install 'pdproto[duckdb]'")
    began = perf_counter()
    violated = set()
    live = [claim for claim in system.properties if isinstance(claim, LeadsTo)]
    asked = CheckSettings(keep_going=True, workers=workers, engine=engine)
    safe = tuple(claim.name for claim in live)
    result = _complete(system, configuration, asked)
    violated |= {f.name for f in result.findings
                 if f.verdict is Verdict.VIOLATED and f.name not in safe
                 and f.kind is not PropertyKind.ANSWERS}
    for fairness in FAIRNESS:
        names = tuple(claim.name for claim in live if fairness in claim.under)
        if names:
            alone = replace(asked, properties=names, fairness=(fairness,))
            violated |= {f.name for f in _complete(system, configuration, alone).findings
                         if f.verdict is Verdict.VIOLATED}
    seconds = perf_counter() - began
    return Opinion(engine.name, result.states, violated, seconds)


def _complete(system: System, configuration: Configuration, asked: CheckSettings) -> CheckResult:
    """The result of a search that has ended. Raises FailedError."""
    try:
        result = check(system, configuration, asked)
    except StoppedError as error:
        raise FailedError(str(error)) from error
    if result.stopped:
        raise FailedError(f"{asked.engine.name}: {result.stopped}")
    return result


def _differences(one: Opinion, other: Opinion) -> Iterable[str]:
    if one.states != other.states:
        yield f"{one.checker} finds {one.states:,} states, {other.checker} {other.states:,}"
    for name in sorted(set(one.violated) ^ set(other.violated)):
        first, second = (one, other) if name in one.violated else (other, one)
        yield f"{first.checker} refutes {name}, {second.checker} does not"
