"""A registry that serves over HTTP answers any request as its OpenAPI document says.

Schemathesis draws the requests, from the document and against it. The registry is a process of its
own, with keys of a cluster and without. Its memory does not grow with requests that it has had.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import psutil
import pytest
import requests
import schemathesis
from requests.adapters import HTTPAdapter
from schemathesis.specs.openapi import checks

from pdproto.registry.openapi import document
from pdproto.transport import keys
from tests.property.profiles import NIGHTLY, runs
from tests.registry.served import group
from tests.registry.test_keys import registered

ROOT: Final = Path(__file__).resolve().parents[2]
SCHEMA: Final = schemathesis.openapi.from_dict(document())
CHECKS: Final = [
    checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance,
    checks.negative_data_rejection, checks.allow_header_conformance,
]
ANSWER_S: Final = 10.0
KEEP_ROOMS_S: Final = 0.5
GROWTH_MAX: Final = 4 << 20  # bytes; see test_requests_that_came_before_take_no_more_memory
REPLAYS: Final = 20 if NIGHTLY else 3


class ClusterKeys(HTTPAdapter):
    """Shows the certificate of the cluster, and takes a server that has one."""

    def __init__(self, file: str) -> None:
        self.file = file  # HTTPAdapter calls `init_poolmanager` at once
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        """See HTTPAdapter."""
        context = keys.read(self.file).client_tls()
        super().init_poolmanager(
            *arguments, **named, ssl_context=context, assert_hostname=False)

    def cert_verify(self, *_: Any) -> None:
        """The context verifies the server, by the keys and not by its name."""


class Serving:
    """A registry in a process of its own. sent: the requests that it has had."""

    def __init__(self, file: str | None) -> None:
        options = ["--port", "0", "--keep-rooms", str(KEEP_ROOMS_S)]
        options += [] if file is None else ["--keys", file]
        self.sent: Final[list[requests.PreparedRequest]] = []
        self.session: Final = requests.Session()
        if file is not None:
            self.session.mount("https://", ClusterKeys(file))
        self.process: Final = subprocess.Popen(
            [sys.executable, "-m", "pdproto.cli.main", "registry", *options], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url: Final = self.process.stdout.readline().split()[-1]

    def begin(self) -> None:
        """Register all ranks, so that most questions have an answer."""
        for rank in (group(0, run=None, force_query=True), group(1, run=None, force_query=True)):
            self.session.put(f"{self.url}/route", json=registered(rank), timeout=ANSWER_S)

    def bytes_at_rest(self) -> int:
        """The memory of the process, when every room has ended by its age."""
        ends = monotonic() + 60.0
        while "pdproto_registry_rooms 0.0" not in self.session.get(
                f"{self.url}/metrics", timeout=ANSWER_S).text:
            assert monotonic() < ends, "rooms do not end"
            sleep(0.05)
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def end(self) -> None:
        """Stop it. It must not have written an error."""
        self.session.close()
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        assert not re.search("Traceback|Error", errors), errors


@pytest.fixture(scope="module", params=[
    "http", pytest.param("https", marks=pytest.mark.nightly)])
def serving(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    file = None
    if request.param == "https":
        file = str(tmp_path_factory.mktemp("keys") / "cluster.secret")
        keys.write_secret(file)
    running = Serving(file)
    try:
        yield running
    finally:
        running.end()


@SCHEMA.parametrize()
@runs(4, nightly=300)
def test_every_answer_is_as_the_document_says(
    case: schemathesis.Case[Any], serving: Serving
) -> None:
    if len(serving.sent) % 5 == 1:
        serving.begin()
    answer = case.call(base_url=serving.url, session=serving.session, timeout=ANSWER_S)
    serving.sent.append(answer.request)
    case.validate_response(answer, checks=CHECKS)


@pytest.mark.parametrize("serving", ["http"], indirect=True)
def test_requests_that_came_before_take_no_more_memory(serving: Serving) -> None:
    """The first time warms caches. Later times take nothing: 4 KiB a request would be seen."""
    sent_before = serving.sent  # by this worker; another one may have sent most of them
    if not sent_before:
        sent_before.append(serving.session.get(serving.url, timeout=ANSWER_S).request)
    replays = max(REPLAYS - 1, (GROWTH_MAX >> 12) // len(sent_before) + 1)
    taken = []
    for _ in range(1 + replays):
        for sent in sent_before:
            with closing(serving.session.send(sent, timeout=ANSWER_S)):
                pass
        taken.append(serving.bytes_at_rest())
    assert taken[-1] - taken[0] < GROWTH_MAX, taken
