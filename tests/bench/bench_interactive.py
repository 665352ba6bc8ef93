"""How long somebody waits who edits or steps: `--watch` after a save, a step of `explore`.

    python -m tests.bench.bench_interactive

prints both in milliseconds by the clock, from the save to the answer and from the question to the
whole view, the best, the median and the longest of them. The system that is edited is that of the
tutorial, checked anew each time; the steps are a random walk of the transfer with two lives.
"""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from pdproto.spec.handoff.transfer_two import TWO_LIVES
from tests.check.stepping.serving import INTERRUPTIBLE, asked, served
from tests.check.stepping.test_walk import walker

SAVES: Final = 15
STEPS: Final = 60
TUTORIAL: Final = Path(__file__).resolve().parents[2] / "docs/tutorial/check-your-own-protocol.md"
WAITING: Final = "waiting for a change"


def after_a_save() -> list[float]:
    """Seconds from each save of a file to the line that its answer has been printed."""
    found = re.search(r"```python\n(# vote\.py\n.*?)```", TUTORIAL.read_text(encoding="utf-8"),
                      re.DOTALL)
    assert found is not None
    spans = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "vote.py"
        file.write_text(found[1], encoding="utf-8")
        command = [sys.executable, "-c", INTERRUPTIBLE, "check", "vote.py:SYSTEM", "--watch",
                   "--quiet", "--no-cache"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            saved = 0.0
            for number in range(SAVES + 1):
                while WAITING not in process.stderr.readline():
                    assert process.poll() is None
                if number:
                    spans.append(perf_counter() - saved)
                saved = perf_counter()
                file.write_text(f"{found[1]}\n# {number}\n", encoding="utf-8")
            os.kill(process.pid, signal.SIGINT)
    return spans


def steps_of_explore() -> list[float]:
    """Seconds from each question for the view after a step to the end of the answer."""
    chance = random.Random(1)  # noqa: S311 - not for secrets
    spans, path = [], list[str]()
    with served(walker(TWO_LIVES)) as address:
        for _ in range(STEPS):
            began = perf_counter()
            status, view = asked(address, "view", {"path": path})
            spans.append(perf_counter() - began)
            assert status == 200
            rows = [row["label"] for row in view["enabled"] if row["changes"]]
            path = [*path, chance.choice(rows)] if rows else []
    return spans


def told(spans: Sequence[float]) -> str:
    """The best, the median and the longest, in milliseconds."""
    low, middle, high = (1_000 * one for one in (min(spans), median(spans), max(spans)))
    return f"{low:.0f} ms at best, {middle:.0f} ms in the median, {high:.0f} ms at most"


def main() -> int:
    """Print one line for each."""
    for what, spans in (("--watch, from the save to the answer", after_a_save()),
                        ("a step of explore on transfer-two-lives", steps_of_explore())):
        print(f"{what}: {told(spans)}", flush=True)  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main())
