"""An operator goes through docs/how-to/operate.md, from nothing to an alert that fires.

The commands of the page run in a shell, in the order in which they stand there. Only the ports are
others, so that no port of this machine is taken.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from examples.servers.serving import free_port
from tests import skips, waiting
from tests.docs.test_deploy import alerts, expression_of, panels
from tests.waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8")
PORTS: Final = (2379, 8998, 9090, 9390, 9400, 9401)
# Flags that the ports of these programs need when they are others.
FLAGS: Final = {
    "etcd --data-dir etcd-data": "--listen-client-urls http://127.0.0.1:2379 "
                                 "--advertise-client-urls http://127.0.0.1:2379 "
                                 "--listen-peer-urls http://127.0.0.1:0",
    "pdproto registry": "--port 8998",
    "prometheus --config.file=deploy/prometheus.yml": "--web.listen-address=127.0.0.1:9090",
}

pytestmark = [
    pytest.mark.slow, pytest.mark.nightly,
    pytest.mark.skipif(not shutil.which("prometheus") or not shutil.which("etcd"),
                       reason=skips.NO_PROMETHEUS),
]


class Walk:
    """A shell in a folder of its own, with the ports of the page replaced."""

    def __init__(self, folder: Path) -> None:
        self._ports = {str(port): str(free_port()) for port in PORTS}
        section = PAGE.partition("## From nothing to an alert\n")[2].partition("\n## ")[0]
        (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        (folder / "node.py").write_text(self.moved(program))
        (folder / "deploy").mkdir()
        for name in ("prometheus.yml", "alerts.yml"):
            text = (ROOT / "deploy" / name).read_text()
            (folder / "deploy" / name).write_text(self.moved(text))
        self.commands = re.findall(r"^    (\w.*)$", section.replace(program, ""), re.MULTILINE)
        binaries = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.log = (folder / "log").open("w")
        self.shell = subprocess.Popen(
            ["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env=os.environ | {"PATH": binaries})

    def moved(self, text: str) -> str:
        """The text with the ports of this test."""
        return re.sub(rf"\b({'|'.join(self._ports)})\b", lambda m: self._ports[m[1]], text)

    def type(self, command: str) -> None:
        """Type a command of the page."""
        for begin, flags in FLAGS.items():
            if command.startswith(begin):
                command = command.replace(begin, f"{begin} {flags}", 1)
        self.raw(self.moved(command))

    def raw(self, line: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{line}\n")
        self.shell.stdin.flush()

    def printed(self, command: str) -> str:
        """The output of a command, which runs in front."""
        assert self.shell.stdout is not None
        self.raw(f"{self.moved(command)}; echo; echo = ended")
        return "".join(iter(self.shell.stdout.readline, "= ended\n"))

    def get(self, place: str) -> Any:
        """The JSON at http://PLACE; None if nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.moved(place)}", timeout=10.0) as answer:
                return json.load(answer)
        except OSError:
            return None

    def query(self, expression: str) -> list[Any] | None:
        """The answer of Prometheus; None if there is none."""
        told = self.get(f"127.0.0.1:9090/api/v1/query?query={quote(expression)}")
        return None if told is None else list(told["data"]["result"])

    def fires(self) -> set[tuple[str, str]]:
        """The alerts that fire, each with its instance as the page has it."""
        told = self.get("127.0.0.1:9090/api/v1/alerts")
        back = {ours: theirs for theirs, ours in self._ports.items()}
        return {(one["labels"]["alertname"], back[one["labels"]["instance"].rpartition(":")[2]])
                for one in told["data"]["alerts"] if one["state"] == "firing"}

    def close(self) -> None:
        """End the processes of the shell, and wait for them."""
        self.raw("kill -KILL $(jobs -p); wait; exit")
        self.shell.communicate(timeout=20)
        self.log.close()


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    found = Walk(tmp_path)
    try:
        yield found
    finally:
        found.close()


def test_the_page_leads_to_an_alert_that_fires_when_a_rank_is_killed(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 120.0)  # six programs start on a busy machine
    *starts, kill, ask = walk.commands
    assert (kill, ask.split()[0]) == ("kill -KILL %3", "curl")
    for command in starts:
        walk.type(command)
    until(lambda: len(walk.query("handoffs_succeeded_total > 20") or ()) == 2)
    until(lambda: not walk.fires(), lambda: str(walk.fires()))  # the last node has just started
    assert walk.query('{__name__=~"(bootstrap|transfer)_failed_reqs_total"} > 0') == []
    assert '"prefill-0"' in walk.printed("pdproto node probe https://127.0.0.1:8998/ranks")
    assert walk.query("pdproto_registry_ranks == 1"), "a registry with keys is scraped, too"
    for rule in alerts():
        assert walk.query(expression_of(rule)) is not None, f"Prometheus refuses {rule}"
    lines = [drawn for drawn, _ in panels()]
    until(lambda: all(map(walk.query, lines)),  # a rate needs two scrapes
          lambda: f"nothing to draw: {[line for line in lines if not walk.query(line)]}")
    walk.raw(kill)
    until(lambda: ("PdprotoNodeDown", "9400") in walk.fires(), lambda: str(walk.fires()))
    assert ("PdprotoPeerLost", "9401") in walk.fires()
    assert "PdprotoNodeDown" in walk.printed(ask.replace("curl", "curl -s"))
    until(lambda: '"prefill-0"' not in walk.printed(
        "pdproto node probe https://127.0.0.1:8998/ranks"))
    until(lambda: ("PdprotoRanksMissing", "9390") in walk.fires(), lambda: str(walk.fires()))
    walk.raw("kill %4; wait %4")
    for start in starts:
        if "node.py" in start:
            walk.type(start)
    ended = {("PdprotoNodeDown", "9400"), ("PdprotoRanksMissing", "9390")}
    until(lambda: not ended & walk.fires(), lambda: str(walk.fires()))
