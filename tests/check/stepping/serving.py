"""The server of `pdproto explore` in a thread, for tests."""

import asyncio
import http.client
import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pdproto.check.stepping.as_test import SystemImport
from pdproto.check.stepping.server import ExploreApp, serve
from pdproto.check.stepping.walk import Walker
from tests.waiting import ended

# Who starts the tests in the background lets their children ignore Ctrl-C.
INTERRUPTIBLE = """
import signal, sys
from pdproto.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[1:]))
"""

SOURCE = SystemImport("from pdproto.spec.examples.lock_server_broken import SYSTEM", "SYSTEM")


@contextmanager
def served(
    walker: Walker, source: SystemImport = SOURCE, changed: Callable[[], str] = str
) -> Iterator[str]:
    """Yield the address of the page."""
    addresses: queue.Queue[str] = queue.Queue()
    loop = asyncio.new_event_loop()
    app = ExploreApp(walker, source, [("Client", "2"), ("Round", "1")], changed)
    task = loop.create_task(serve(app, 0, addresses.put))
    thread = threading.Thread(target=loop.run_until_complete, args=(task,))
    thread.start()
    try:
        yield addresses.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        ended(thread)
        loop.close()


def requested(
    address: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body of one answer. headers: `_` stands for `-`."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        connection.request(method, path, body,
                           {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def asked(address: str, question: str, body: object, **headers: str) -> tuple[int, Any]:
    """The status and the values of an answer to a question."""
    given = {"Content_Type": "application/json", **headers}
    status, _, text = requested(address, "POST", f"/api/{question}", json.dumps(body).encode(),
                                **given)
    return status, json.loads(text)
