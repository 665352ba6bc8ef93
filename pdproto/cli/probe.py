"""Ask a node or a registry whether it is healthy, ready or empty, as a supervisor does.

It sends the keys of this process, which the registry wants to see. Exit status: 0 if the answer is
200, 1 if it is another or none comes.
"""

import argparse
import os
import sys
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic, sleep
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pdproto.cli.numbers import positive
from pdproto.cli.options import UsageError
from pdproto.transport.answers import AnswerInTime
from pdproto.transport.keys import Keys
from pdproto.transport.settings import SettingsError, load

ANSWER_S: Final = 5.0  # how long an answer may take
PAUSE_S: Final = 1.0  # between two questions
SHOWN_MAX: Final = 2000  # bytes of an answer that are printed


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto node probe`."""
    parser.add_argument("url", metavar="URL",
                        help="such as http://127.0.0.1:9400/ready, or, of a registry with keys, "
                             "https://127.0.0.1:8998/health")
    parser.add_argument("--post", action="store_true", help="send POST, which /drain wants")
    parser.add_argument("--within", type=positive, metavar="SECONDS",
                        help="ask every second until the answer is 200, for so long at most")


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print the answer; returns the exit status."""
    url = urlsplit(arguments.url)
    if url.scheme not in ("http", "https") or not url.hostname or not url.path:
        raise UsageError(f"{arguments.url}: want a URL with a path, such as "
                         f"http://127.0.0.1:9400/ready")
    try:
        keys = load(os.environ).load_keys()
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if url.scheme == "https" and keys is None:
        raise UsageError(f"{arguments.url}: want the keys of the cluster: set PDPROTO_KEYS")
    ends = monotonic() + (arguments.within or 0.0)
    while True:
        status, told = _answer(url, "POST" if arguments.post else "GET", keys)
        if status == 200 or monotonic() + PAUSE_S > ends:
            break
        sleep(PAUSE_S)
    sys.stdout.write(f"{told.strip()}\n")
    return 0 if status == 200 else 1


def _answer(url: SplitResult, method: str, keys: Keys | None) -> tuple[int, str]:
    """Status and text of the answer; status 0, and why, if none has come."""
    host, port = url.hostname or "", url.port
    connection = (HTTPConnection(host, port, timeout=ANSWER_S)
                  if url.scheme == "http" or keys is None
                  else HTTPSConnection(host, port, timeout=ANSWER_S, context=keys.client_tls()))
    connection.response_class = AnswerInTime
    try:
        connection.request(method, f"{url.path}?{url.query}" if url.query else url.path)
        answer = connection.getresponse()
        return answer.status, answer.read(SHOWN_MAX).decode(errors="replace")
    except (OSError, HTTPException) as error:
        return 0, f"{url.geturl()}: no answer: {error}"
    finally:
        with suppress(OSError):
            connection.close()
