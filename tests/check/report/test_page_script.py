"""The page's script, run for real: its pure part in Node, its keyboard in headless Chromium.

Both are tools of whoever develops the page; where they are missing these tests say so and skip.
"""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.report import html
from pdproto.check.result import CheckResult
from tests.check.report import samples

SCRIPTS = [str(files("pdproto.check.report") / name) for name in ("steps.js", "page.js")]
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium")

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def findings(result: CheckResult) -> str:
    """Return the findings as the page embeds them, as JSON text."""
    embedded = re.search(r'id="result">(.*?)</script>', html.render(result), flags=re.DOTALL)
    assert embedded is not None
    return json.dumps(json.loads(embedded[1])["properties"])


def evaluated(result: CheckResult, expression: str) -> Any:
    """Return the value of a JavaScript expression over the script's functions and `findings`."""
    program = (
        "const vm = require('vm'), fs = require('fs');"
        f"for (const file of {json.dumps(SCRIPTS)})"
        "  vm.runInThisContext(fs.readFileSync(file, 'utf8'));"
        f"vm.runInThisContext({json.dumps(f'var findings = {findings(result)}')});"
        f"console.log(JSON.stringify(vm.runInThisContext({json.dumps(expression)})));"
    )
    assert NODE is not None
    done = subprocess.run([NODE, "-e", program], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@needs_node
def test_addresses_name_a_finding_and_a_step() -> None:
    hashes = ["", "#f1", "#f1s0", "#f1s3", "#f1s99", "#f2s1", "#f9", "#f0", "#nonsense"]
    found = evaluated(
        samples.safety(), f"{json.dumps(hashes)}.map((hash) => selectionOf(hash, findings))"
    )
    assert [(choice["finding"], choice["step"]) for choice in found] == [
        (0, 8),
        (0, 8),
        (0, 0),
        (0, 3),
        (0, 8),
        (1, 1),
        (0, 8),
        (0, 8),
        (0, 8),
    ]
    assert evaluated(samples.safety(), "addressOf({finding: 1, step: 4})") == "#f2s4"


@needs_node
def test_a_finding_opens_at_the_step_that_a_reader_came_for() -> None:
    opened = "findings.map((finding, index) => opened(index, findings).step)"
    assert evaluated(samples.safety(), opened)[0] == 8  # the property stops holding there
    steps = [{"holds": {"safe": holds}} for holds in (True, False, True, False)]
    finding = json.dumps({"name": "safe", "loop": None, "trace": steps})
    assert evaluated(samples.safety(), f"opened(0, [{finding}]).step") == 2
    assert evaluated(samples.lasso(), opened)[0] == 2  # from there on it repeats
    assert evaluated(samples.stuck(), opened)[0] == len(trace_of(samples.stuck()))


def trace_of(result: CheckResult) -> list[Any]:
    """Return the steps of the first finding."""
    steps: list[Any] = json.loads(findings(result))[0]["trace"]
    return steps


@needs_node
def test_a_message_is_in_flight_until_it_is_received_or_lost() -> None:
    steps = trace_of(samples.safety())
    told = evaluated(samples.safety(), "messagesAfter(findings[0], 8)")
    sent = [arrow["message"] for step in steps for arrow in step["sent"]]
    lost = {arrow["message"] for step in steps for arrow in step["lost"]}
    received = {step["received"]["message"]: number
                for number, step in enumerate(steps, start=1) if step["received"]}
    assert [one["message"] for one in told] == [one for one in sent if one not in lost]
    assert lost
    assert received
    assert {one["message"]: one["taken"] for one in told if one["taken"]} == {
        message: number for message, number in received.items() if message not in lost}


@needs_node
@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        ("ArrowDown", [0, 4]),
        ("ArrowRight", [0, 4]),
        ("j", [0, 4]),
        ("ArrowUp", [0, 2]),
        ("ArrowLeft", [0, 2]),
        ("k", [0, 2]),
        ("Home", [0, 0]),
        ("End", [0, 8]),
        ("n", [1, 1]),
        ("p", None),
        ("2", [1, 1]),
        ("9", None),
        ("x", None),
        ("Tab", None),
    ],
)
def test_keys_move_the_selection(key: str, chosen: list[int] | None) -> None:
    expression = f"moved({{finding: 0, step: 3}}, {json.dumps(key)}, findings)"
    found = evaluated(samples.safety(), expression)
    assert (found and [found["finding"], found["step"]]) == chosen


@needs_node
def test_steps_stop_at_both_ends() -> None:
    assert evaluated(samples.safety(), "moved({finding: 0, step: 8}, 'j', findings).step") == 8
    assert evaluated(samples.safety(), "moved({finding: 0, step: 0}, 'k', findings).step") == 0


@needs_node
def test_the_state_after_a_step_is_the_start_and_all_changes_since() -> None:
    after = "Array.from(stateAfter(findings[0], {}), ([lane, values]) => [lane, [...values]])"
    lanes = dict(evaluated(samples.lasso(), after.format(5)))
    assert lanes["client c0"] == [["state[c0]", {"value": "idle", "before": "holding"}]]
    assert lanes["server"] == [["free", {"value": "true", "before": "false"}]]
    assert lanes["client c1"] == [["state[c1]", {"value": "waiting", "before": None}]]
    start = dict(evaluated(samples.lasso(), after.format(0)))
    assert start["client c1"] == [["state[c1]", {"value": "idle", "before": None}]]


PRESS = """
<script>
for (const key of KEYS) {
  document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}
</script>
"""


def after_keys(result: CheckResult, keys: list[str], folder: Path, address: str = "") -> str:
    """Return the document after the keys were pressed on the page opened at the address."""
    page = html.render(result)
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', page)
    assert policy is not None
    # The page's own policy would refuse the script that presses the keys.
    page = page.replace(policy[0], "").replace(
        "</body>", PRESS.replace("KEYS", json.dumps(keys)) + "</body>"
    )
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [*command, profile, f"{path.as_uri()}{address}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def selected(document: str) -> list[str]:
    """Return the ids of the selected finding and the selected step."""
    opened = re.findall(r"<(?:section|li)\b[^>]*>", document)
    chosen = [tag for tag in opened if re.search(r'class="[^"]*\bselected\b', tag)]
    return [match[1] for tag in chosen if (match := re.search(r'id="(\w+)"', tag))]


@needs_chromium
@pytest.mark.slow
def test_a_browser_steps_by_keyboard(tmp_path: Path) -> None:
    keys = ["Home", "j", "ArrowDown", "x", "j", "k", "j"]
    document = after_keys(samples.safety(), keys, tmp_path)
    assert selected(document) == ["f1", "f1s3"]
    inspector = document[document.index('id="inspector"') :]
    assert "Step 3 of 8" in inspector
    assert "prepare(p1)" in inspector


@needs_chromium
@pytest.mark.slow
def test_a_browser_opens_the_address_and_shows_help(tmp_path: Path) -> None:
    document = after_keys(samples.safety(), ["Home", "End", "?", "k"], tmp_path, "#f2s1")
    # The help is open, so the last key must not have moved the selection.
    assert selected(document) == ["f2", "f2s1"]
    assert re.search(r"<dialog[^>]*\bopen\b", document)


@needs_chromium
@pytest.mark.slow
def test_a_browser_shows_hostile_text_as_text(tmp_path: Path) -> None:
    document = after_keys(samples.hostile(), ["Home", "j", "j"], tmp_path)
    assert selected(document) == ["f1", "f1s2"]
    inspector = document[document.index('id="inspector"') : document.index("<dialog")]
    assert "&lt;/script&gt;&lt;script&gt;alert('x')&lt;/script&gt;" in inspector
    assert "<script" not in inspector
