"""Runs the steps of action.yml in order, as GitHub does, without GitHub.

A step with `run` runs in bash, by the command line that GitHub documents for `shell: bash`. A step
with `uses` is another action: its arguments are noted, and nothing runs. It knows what action.yml
uses, and raises KeyError or ValueError for anything else.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax
"""

import re
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.docs.documents import ROOT

BASH: Final = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
KEYS: Final = {"name", "uses", "with", "run", "shell", "env", "if"}


@dataclass
class Job:
    """A run of the action. failed: whether a step has. used: the other actions, with arguments.

    shell: the process of each step that ran, by its name.
    """

    contexts: Mapping[str, str]
    failed: bool = False
    used: dict[str, Mapping[str, str]] = field(default_factory=dict)
    shell: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    def value(self, expression: str) -> str:
        """The value of an expression, as text: a name of a context, or comparisons with &&."""
        if "&&" in expression:
            parts = [self.value(part.strip()) for part in expression.split("&&")]
            return "true" if set(parts) == {"true"} else "false"
        if "==" in expression:
            left, right = (side.strip() for side in expression.split("=="))
            return "true" if self.value(left) == right.strip("'") else "false"
        return "true" if expression == "always()" else self.contexts[expression]

    def filled(self, text: str) -> str:
        """The text with the values of its expressions."""
        return EXPRESSION.sub(lambda found: self.value(found[1]), text)

    def wanted(self, step: Mapping[str, Any]) -> bool:
        """Whether the step runs. After a failure, only those do that say `always()`."""
        condition = step.get("if", "")
        if "always()" not in condition and self.failed:
            return False
        return not condition or self.value(condition) == "true"


def act(
    inputs: Mapping[str, str], *, folder: Path, environment: Mapping[str, str], index: int = 0,
    without: Collection[str] = (),
) -> Job:
    """Run the action in a folder, that of the user's repository.

    index: the number of the job in its matrix. without: the names of steps to leave out.
    """
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    given = {name: inputs[name] if one.get("required") else inputs.get(name, one.get("default"))
             for name, one in action["inputs"].items()}
    assert not inputs.keys() - given.keys()
    assert action["runs"]["using"] == "composite"
    job = Job({**{f"inputs.{name}": value for name, value in given.items()},
               "strategy.job-index": str(index)})
    for step in action["runs"]["steps"]:
        if unknown := step.keys() - KEYS:
            raise ValueError(f"the runner does not know {sorted(unknown)} of a step")
        if step.get("name") not in without and job.wanted(step):
            _take(job, step, folder, {**environment, "GITHUB_ACTION_PATH": str(ROOT)})
    return job


def _take(
    job: Job, step: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> None:
    if "uses" in step:
        job.used[step["uses"].partition("@")[0]] = {
            name: job.filled(text) for name, text in step.get("with", {}).items()}
        return
    if step["shell"] != "bash":
        raise ValueError(f"the runner does not know the shell {step['shell']}")
    own = {name: job.filled(text) for name, text in step.get("env", {}).items()}
    done = subprocess.run(
        [*BASH, "-c", job.filled(step["run"])], cwd=folder, env={**environment, **own},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    job.shell[step["name"]] = done
    job.failed |= done.returncode != 0
