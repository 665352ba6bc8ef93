"""Requests whose KV prefill computes a second time, because decode has given it back.

SGLang's decode gives back the KV of all running requests at `/pause_generation` with mode
"retract", for example before the weights of the model change. At `/continue_generation` each of
them gets a receiver of its room again, and one rank of decode asks the prefill server to compute
the prompt and the answer so far.
"""

import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from threading import Lock, Thread
from typing import Any, Final

from sglang.srt.utils.network import NetworkAddress

from pdproto.transport.answers import AnswerInTime

THREADS: Final = 16  # requests that are computed again at once, as with SGLang's own backends
TOLD_MAX: Final = 200  # bytes of prefill's answer that an error shows


class Recomputing:
    """Calls of `recompute` in threads, which end when there is nothing to ask any more."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._waiting: Final[deque[tuple[Future[str], tuple[Any, ...]]]] = deque()
        self._threads = 0

    def ask(
        self, registry: str, port: int | None, request: Mapping[str, Any], seconds: float
    ) -> Future[str]:
        """See `recompute`."""
        told = Future[str]()
        with self._lock:
            self._waiting.append((told, (registry, port, request, seconds)))
            if self._threads < THREADS:
                self._threads += 1
                Thread(target=self._work, name="pdproto-recomputing", daemon=True).start()
        return told

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                told, question = self._waiting.popleft()
            told.set_result(recompute(*question))

    def stop(self) -> None:
        """Ask nothing more. Questions that wait get no answer."""
        with self._lock:
            self._waiting.clear()


def recompute(
    registry: str, port: int | None, request: Mapping[str, Any], seconds: float
) -> str:
    """Ask a prefill server to compute a request, and wait for its end. Returns why it did not; ""
    if it did.

    registry: the address of its registry, which runs on the same host. port: for requests, as the
    server has registered it. seconds: the longest wait for the answer.
    """
    if port is None:
        return (f"prefill server {registry} cannot be asked to compute the KV again: it has not "
                "registered its HTTP port")
    host = NetworkAddress.parse(registry).host
    server = NetworkAddress(host, port).to_url()
    connection = HTTPConnection(host, port, timeout=seconds)
    connection.response_class = AnswerInTime
    try:
        with closing(connection):
            connection.request("POST", "/generate", json.dumps(request).encode(),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status == HTTPStatus.OK:
                answer.read()
                return ""
            problem = f"{answer.status} {answer.read(TOLD_MAX).decode(errors='replace')}"
    except (OSError, HTTPException) as error:
        problem = str(error)
    return f"prefill server {server} has not computed the KV again: {problem}"
