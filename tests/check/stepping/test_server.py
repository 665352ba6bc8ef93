"""The server: its answers, and the requests that it refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.check.stepping.as_test import SystemImport, written
from pdproto.check.stepping.page import POLICY
from pdproto.spec.examples.lock_server_broken import SYSTEM as BROKEN
from pdproto.testing.paths import walk
from tests.check.stepping.serving import SOURCE, asked, requested, served
from tests.check.stepping.test_walk import VIOLATION, walker


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(walker()) as where:
        yield where


def port(address: str) -> str:
    return address.rstrip("/").rpartition(":")[2]


def test_a_view_has_all_that_the_page_shows(address: str) -> None:
    status, view = asked(address, "view", {"path": list(VIOLATION)})
    assert status == 200
    assert view["path"] == list(VIOLATION)
    assert [row["label"] for row in view["enabled"] if row["changes"]] == [
        "leave(c0, r0)", "leave(c1, r0)", "expire(c1, r0)"]
    leave = next(row for row in view["enabled"] if row["label"] == "leave(c0, r0)")
    assert leave["effects"] == ["phase(c0): holding → idle", "lease(c0, r0): current → spent"]
    assert leave["sends"] == ["release(c0, r0)"]
    failing = {row["label"]: row["failing"] for row in view["disabled"]}
    assert failing["enter(c0, r0)"] == [{"text": "phase(c0) = waiting", "now": "it is holding"}]
    (broken,) = (one for one in view["properties"] if one["stands"] == "violated")
    assert broken["because"] == ["c=c0, d=c1: phase(c0) = holding, phase(c1) = holding"]
    cells = {cell["name"]: cell for lane in view["state"] for cell in lane["cells"]}
    assert cells["phase(c0)"]["before"] == "waiting"
    assert cells["phase(c1)"]["before"] is None
    assert 'id="ps7"' in view["picture"]
    assert len(view["finding"]["trace"]) == 7


def test_a_way_is_answered_or_refused(address: str) -> None:
    status, found = asked(address, "way", {"path": [], "formula": "lock = taken"})
    assert (status, len(found["way"])) == (200, 2)
    status, found = asked(address, "way", {"path": [], "claim": "mutual_exclusion"})
    assert (status, len(found["way"])) == (200, 7)
    status, found = asked(address, "way", {"path": [], "claim": "deadlock"})
    assert (status, found["way"], found["complete"]) == (200, None, True)
    assert asked(address, "way", {"path": [], "formula": "lock = tkaen"}) == (
        400, {"error": "'tkaen' is no value of lock (perhaps taken?); it has: free, taken"})


def test_a_map_and_the_instances_of_a_row_are_answered(address: str) -> None:
    status, found = asked(address, "map", {"path": list(VIOLATION)})
    assert (status, len(found["nodes"]), found["complete"]) == (200, 8, True)
    assert found["nodes"][0]["violated"] == ["mutual_exclusion"]
    status, found = asked(address, "why", {"path": [], "row": "enter"})
    assert [one["label"] for one in found["instances"]] == ["enter(c0, r0)", "enter(c1, r0)"]


@pytest.mark.parametrize(("question", "body", "said"), [
    ("view", {"path": ["enter(c0, r0)"]}, "step 1: enter(c0, r0) cannot fire here"),
    ("view", {"path": "ask(c0, r0)"}, "`path` is no list of rows"),
    ("view", {"path": [1]}, "`path` is no list of rows"),
    ("view", {"path": ["ask(c0, r0)"] * 10_001}, "a path may have 10,000 steps"),
    ("view", {}, "`path` is no list of rows"),
    ("view", [], "the body is no JSON object"),
    ("why", {"path": []}, "`row` is missing"),
    ("way", {"path": []}, "`formula` is missing"),
    ("way", {"path": [], "claim": "nothing"}, "has no property 'nothing'"),
    ("map", {"path": [], "states": 201}, "`states` is no number from 1 to 200"),
    ("map", {"path": [], "states": "7"}, "`states` is no number"),
])  # fmt: skip
def test_a_wrong_question_gets_the_reason(
    address: str, question: str, body: object, said: str
) -> None:
    status, answer = asked(address, question, body)
    assert status == 400
    assert said in answer["error"]


def test_a_body_that_is_no_json_is_refused(address: str) -> None:
    status, _, text = requested(address, "POST", "/api/view", b"{", Content_Type="application/json")
    assert (status, text) == (400, b'{"error": "the body is no JSON"}')
    assert requested(address, "GET", "/nothing")[0] == 404
    assert requested(address, "GET", "/api/view")[0] == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1",
                                  "127.0.0.1:1", "localhost.evil.example:{port}"])
def test_a_name_of_another_site_that_leads_here_is_refused(address: str, host: str) -> None:
    """DNS rebinding: the browser takes us for that site, and names it in `Host`."""
    status, _, text = requested(address, "GET", "/", Host=host.format(port=port(address)))
    assert (status, text) == (403, b'{"error": "this name is not of this server"}')


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}",
                                    "http://127.0.0.1:1"])
def test_a_page_of_another_site_is_refused(address: str, origin: str) -> None:
    given = origin.format(port=port(address))
    status, answer = asked(address, "view", {"path": []}, Origin=given)
    assert (status, answer) == (403, {"error": "this page is not of this server"})


def test_a_form_of_another_site_cannot_ask(address: str) -> None:
    """A form may send text without asking the browser, and some browsers leave `Origin` out."""
    status, _, _ = requested(address, "POST", "/api/view", b'{"path": []}',
                             Content_Type="text/plain")
    assert status == 415


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_our_own_page_is_served_and_may_ask(address: str, name: str) -> None:
    here = f"{name}:{port(address)}"
    for path, kind in (("/", "text/html"), ("/style.css", "text/css"),
                       ("/script.js", "text/javascript")):
        status, headers, _ = requested(address, "GET", path, Host=here)
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, kind)
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
    status, _ = asked(address, "view", {"path": []}, Host=here, Origin=f"http://{here}")
    assert status == 200


def test_the_test_of_a_path_passes_and_fails_if_the_path_changes(tmp_path: Path) -> None:
    walked = walker()
    text = written(SOURCE, walked, walked.follow(VIOLATION))
    names: dict[str, object] = {}
    exec(compile(text, str(tmp_path / "test_it.py"), "exec"), names)  # noqa: S102 - our own text
    test = names["test_a_run_of_lock_server_broken"]
    assert callable(test)
    test()
    other = text.replace('== "taken"', '== "free"')
    assert other != text
    exec(compile(other, str(tmp_path / "test_it.py"), "exec"), names)  # noqa: S102 - as above
    broken = names["test_a_run_of_lock_server_broken"]
    assert callable(broken)
    with pytest.raises(AssertionError):
        broken()


def test_the_test_of_a_path_names_a_configuration_and_a_topology() -> None:
    walked = walker()
    source = SystemImport("", '"page.py:SYSTEM"', '"deep"', 2)
    text = written(source, walked, ())
    assert 'walk("page.py:SYSTEM", [\n    ], configuration="deep", sizes={"Client": 2, ' in text
    assert "topology=2" in text


def test_walk_takes_a_system_or_its_name() -> None:
    run = walk("pdproto.spec.examples.lock_server_broken:SYSTEM", VIOLATION)
    assert run.violated == ["mutual_exclusion"]
    assert run.values["grant(c0, r0)"] == "true"
    assert walk(BROKEN, VIOLATION[:-1], sizes={"Client": 3}).violated == []
