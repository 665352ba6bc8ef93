"""The page of `pdproto explore` in a real browser: keyboard, links, Back, narrow and dark."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from lab.__main__ import main as of_the_laboratory
from pdproto.check.stepping.page import script
from pdproto.check.stepping.recorded import recorded
from pdproto.check.stepping.walk import Walker
from pdproto.cli.main import main
from pdproto.spec.examples.paxos_broken import SYSTEM as PAXOS_BROKEN
from pdproto.spec.handoff.transfer import SYSTEM as TRANSFER
from tests.check.stepping.serving import INTERRUPTIBLE, served
from tests.check.stepping.test_recorded import BY_DEVICES, rows_of
from tests.check.stepping.test_walk import VIOLATION, walker
from tests.docs.documents import ROOT

CHROMIUM = shutil.which("chromium")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)
WAY = "#" + ";".join(label.replace(" ", "") for label in VIOLATION)
SECOND_VALUE = (  # of paxos-broken, as `check` finds it
    "prepare(b0)", "promise(a0, b0)", "promise(a1, b0)", "propose(b0, v1, q0)", "prepare(b1)",
    "vote(a1, b0, v1)", "promise(a2, b1)", "promise(a1, b1)", "propose(b1, v0, q2)",
    "vote(a2, b1, v0)", "vote(a1, b1, v0)", "vote(a0, b0, v1)", "learn(q2, b1, v0)",
    "learn(q0, b0, v1)",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(walker()) as where:
        yield where


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, headless=True,
            args=OPTIONS, viewport={"width": 1400, "height": 900},
        )  # fmt: skip
        yield context
        context.close()


@contextmanager
def explored(*arguments: str) -> Iterator[str]:
    """Yield the link that `pdproto explore` prints. It ends with Ctrl-C."""
    command = [sys.executable, "-c", INTERRUPTIBLE, "explore", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


@pytest.fixture
def page(browser: BrowserContext, address: str) -> Iterator[Page]:
    opened = browser.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(address)
    expect(opened.locator("#choices h2")).to_have_text("Can fire here (2)")
    yield opened
    opened.close()
    assert errors == []


def test_the_keyboard_fires_rows_and_back_undoes_them(page: Page, address: str) -> None:
    page.keyboard.press("1")
    expect(page.locator(".band")).to_have_count(2)
    assert page.url == f"{address}#ask(c0,r0)"
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(".band")).to_have_count(3)
    two = page.url
    page.go_back()
    expect(page.locator(".band")).to_have_count(2)
    assert page.url == f"{address}#ask(c0,r0)"
    page.go_forward()
    expect(page.locator(".band")).to_have_count(3)
    assert page.url == two
    page.keyboard.press("u")
    expect(page.locator(".band")).to_have_count(2)
    page.keyboard.press("Home")
    expect(page.locator(".band")).to_have_count(1)


def test_keys_that_come_faster_than_answers_mean_the_state_to_come(
    page: Page, address: str
) -> None:
    for key in "1122":
        page.keyboard.press(key)
    expect(page.locator(".band")).to_have_count(5)
    walked = walker()
    path: list[str] = []
    for number in (1, 1, 2, 2):
        state = walked.after(walked.follow(path))
        path.append([label for label, _ in in_order(walked, state)][number - 1])
    assert page.url == address + "#" + ";".join(label.replace(" ", "") for label in path)


def in_order(walked: Walker, state: int) -> list[tuple[str, int]]:
    """The rows as the page numbers them: those of one process stand together."""
    lanes = {choice.label: choice.lane for choice in walked.enabled(state)}
    rows = list(walked.successors(state))
    first = list(dict.fromkeys(lanes[label] for label, _ in rows))
    return sorted(rows, key=lambda row: first.index(lanes[row[0]]))


def test_undo_of_a_path_that_came_as_a_link_stays_on_the_page(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(address + WAY)
    expect(page.locator(".band")).to_have_count(8)
    page.locator("#undo").click()
    expect(page.locator(".band")).to_have_count(7)
    assert page.url.startswith(address)


def test_a_link_shows_the_violation_and_why(page: Page, address: str) -> None:
    page.goto(address + WAY)
    broken = page.locator(".standings .violated")
    expect(broken).to_have_count(1)
    expect(broken.locator("b")).to_have_text("mutual_exclusion")
    expect(broken.locator(".because")).to_have_text(
        "c=c0, d=c1: phase(c0) = holding, phase(c1) = holding")
    expect(page.locator(".band.selected .banner")).to_contain_text("stops holding")
    expect(page.locator("#inspector .state dd.changed")).to_have_text("waiting → holding")
    sent = page.locator(".in-flight li")
    expect(sent).to_have_count(4)
    expect(sent.first).to_contain_text("received in step")
    page.goto(f"{address}#ask(c0,r0)")
    expect(sent).to_have_count(1)
    expect(sent).to_contain_text("not received yet")


def test_the_page_of_a_counterexample_in_a_file_begins_at_its_end(
    browser: BrowserContext, tmp_path: Path
) -> None:
    """`check --json` writes it, `explore --trace` serves it, and the browser goes on from there."""
    report = tmp_path / "x.json"
    assert main(["check", "lock-server-broken", "--quiet", "--json", str(report)]) == 1
    with explored("lock-server-broken", "--trace", str(report)) as link:
        opened = browser.new_page()
        opened.goto(link)
        expect(opened.locator(".band")).to_have_count(8)
        expect(opened.locator(".standings .violated b")).to_have_text("mutual_exclusion")
        opened.keyboard.press("u")
        expect(opened.locator(".band")).to_have_count(7)
        opened.close()


def test_the_page_of_a_real_run_begins_at_its_end(
    browser: BrowserContext, tmp_path: Path
) -> None:
    """Four processes share a lease over TCP, and their traces are one path of the whole system."""
    subprocess.run([sys.executable, ROOT / "examples" / "lease_processes.py", tmp_path],
                   check=True, timeout=300)
    traces = sorted(map(str, tmp_path.glob("*.jsonl")))
    with explored(f"{ROOT / 'examples' / 'lease_lock.py'}:SYSTEM", "--trace", *traces) as link:
        opened = browser.new_page()
        opened.goto(link)
        expect(opened.locator(".band")).to_have_count(17)  # the start, and 16 rows
        expect(opened.locator(".standings .violated")).to_have_count(0)
        opened.keyboard.press("Home")
        expect(opened.locator(".band")).to_have_count(1)
        opened.close()


def test_the_page_of_one_life_shows_that_life_alone(
    browser: BrowserContext, tmp_path: Path
) -> None:
    """Of traces with four hand-overs, `--life` chooses one; the page names it and has its rows."""
    assert of_the_laboratory(
        ["cluster", "--seed", "3", "--requests", "4", "--prefill", "2", "--decode", "2",
         "--trace", str(tmp_path), "--quiet"]
    ) == 0
    traces = sorted((tmp_path / "seed-3").glob("*.jsonl"))
    lives = recorded(TRANSFER, traces, 3).lives
    assert len(set(lives)) == 4
    with explored("transfer", "--trace", *map(str, traces), "--life", "3") as link:
        opened = browser.new_page()
        opened.goto(link)
        expect(opened.locator("header")).to_contain_text(f"3 of 4 ({lives[2]})")
        rows = opened.locator(".band .row b")
        expect(rows.last).to_contain_text("finish(")
        shown = [text.partition("(")[0] for text in rows.all_inner_texts()]
        opened.close()
    fired = [row for _, row in rows_of(traces, lives[2])]
    assert sorted(row for row in shown if row not in BY_DEVICES) == sorted(fired)


def test_a_path_that_is_not_possible_is_told_and_left(page: Page, address: str) -> None:
    page.goto(f"{address}#enter(c0,r0)")
    expect(page.locator("#choices")).to_contain_text("cannot fire here: it needs message grant")
    page.locator(".broken-path button").click()
    expect(page.locator(".band")).to_have_count(1)


def test_disabled_rows_show_their_missing_guard(page: Page) -> None:
    page.keyboard.press("1")
    expect(page.locator(".band")).to_have_count(2)
    page.keyboard.press("d")
    leave = page.locator("details.disabled > ul > li", has_text="leave(c0, r0)")
    expect(leave.locator(".failing li")).to_have_text("phase(c0) = holding, but it is waiting")
    leave.locator("button.more").click()
    expect(leave.locator(".others")).to_contain_text("leave(c1, r0)")


def test_a_way_is_found_by_a_formula_and_refused_with_advice(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("phase(c0) = hodling")
    page.keyboard.press("Enter")
    expect(page.locator("#find-error")).to_contain_text("perhaps holding?")
    page.locator("#formula").fill("phase(c0) = holding and phase(c1) = holding")
    page.keyboard.press("Enter")
    expect(page.locator(".band")).to_have_count(8)
    expect(page.locator("#toast")).to_contain_text("The shortest way has 7 steps")
    page.go_back()
    expect(page.locator(".band")).to_have_count(1)
    page.locator(".standings li", has_text="mutual_exclusion").locator("button").click()
    expect(page.locator(".band")).to_have_count(8)


def test_the_map_leads_to_its_states_by_keyboard(page: Page) -> None:
    page.keyboard.press("m")
    nodes = page.locator(".map .node")
    expect(nodes).to_have_count(55)
    expect(page.locator(".map .violated").first).to_be_attached()
    nodes.nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".band")).to_have_count(2)
    expect(page.locator("#map-dialog")).to_be_hidden()


def test_a_step_of_the_picture_is_a_way_back(page: Page, address: str) -> None:
    page.goto(address + WAY)
    expect(page.locator(".band")).to_have_count(8)
    page.locator("#ps2 .number").click()
    expect(page.locator(".band")).to_have_count(3)
    assert page.url == f"{address}#ask(c0,r0);ask(c1,r0)"


def test_the_path_is_shown_as_a_test(page: Page) -> None:
    page.keyboard.press("2")
    expect(page.locator(".band")).to_have_count(2)
    page.keyboard.press("t")
    expect(page.locator("#test-body")).to_contain_text('"ask(c1, r0)",')
    page.keyboard.press("1")  # a key below an open dialog fires nothing
    page.keyboard.press("Escape")
    expect(page.locator(".band")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_nothing_leaves_the_page_at_any_width(
    page: Page, address: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address + WAY)
    expect(page.locator(".band")).to_have_count(8)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    ink, paper = (page.evaluate(f"getComputedStyle(document.documentElement).{name}")
                  for name in ("color", "backgroundColor"))
    assert brightness(ink) > brightness(paper) + 300 if scheme == "dark" else (
        brightness(paper) > brightness(ink) + 300)
    for one in page.locator(".choice").all():
        box = one.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("width", [600, 1400])
def test_the_last_step_and_its_violation_are_in_view(browser: BrowserContext, width: int) -> None:
    """Of a system with more lanes than fit: the picture scrolls to the one of the last step."""
    way = ";".join(label.replace(" ", "") for label in SECOND_VALUE)
    with served(walker(PAXOS_BROKEN)) as address:
        opened = browser.new_page()
        opened.set_viewport_size({"width": width, "height": 900})
        opened.goto(f"{address}#{way}")
        last = opened.locator(".band.selected")
        expect(last.locator(".row")).to_have_text("learn(q0, b0, v1)", timeout=30_000)
        view = opened.locator(".scroller").bounding_box()
        story = last.locator(".story").bounding_box()
        assert view is not None
        assert story is not None
        for shown in (last.locator(".card"), last.locator(".banner b")):
            box = shown.bounding_box()
            assert box is not None
            assert story["x"] + story["width"] <= box["x"]
            assert box["x"] + box["width"] <= view["x"] + view["width"]
            assert box["y"] + box["height"] <= view["y"] + view["height"]
        opened.close()


def test_no_edge_of_the_map_strikes_through_the_label_at_its_start(page: Page) -> None:
    page.keyboard.press("m")
    expect(page.locator(".map .node")).to_have_count(55)
    struck = page.evaluate("""() => {
      const labels = [...document.querySelectorAll(".map text")].map((one) => one.getBBox());
      return [...document.querySelectorAll(".map .edge:not(.back)")].filter((edge) => {
        const begin = [0, 5, 10, 15, 20, 25].map((length) => edge.getPointAtLength(length));
        return labels.some((one) => begin.some(({ x, y }) => one.x < x && x < one.x + one.width
          && one.y < y && y < one.y + one.height));
      }).length;
    }""")
    assert struck == 0


def test_values_behind_a_violation_are_broken_between_two_values(page: Page, address: str) -> None:
    page.goto(address + WAY)
    values = page.locator(".standings .violated .because .value")
    expect(values).to_have_text([
        "c=c0,", "d=c1:", "phase(c0) = holding,", "phase(c1) = holding"])


def brightness(colour: str) -> int:
    return sum(json.loads(f"[{colour.removeprefix('rgb(').removesuffix(')')}]"))


def test_no_request_leaves_for_another_host(page: Page, address: str) -> None:
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.reload()
    page.keyboard.press("1")
    expect(page.locator(".band")).to_have_count(2)
    assert hosts == {address.split("/")[2]}


def test_text_of_a_spec_is_never_markup() -> None:
    text = script()
    assert "textContent" in text
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text
