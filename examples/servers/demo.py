"""Two servers and their router on a command line: they serve until Ctrl-C, or answer once."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.servers.serving import ForkedServers, Server, ServerError


@dataclass(frozen=True, slots=True)
class Question:
    """text: for people. path, body: of the request. answer: its text in the reply."""

    text: str
    path: str
    body: Mapping[str, object]
    answer: Callable[[Any], str]

    def curl(self, router: Server) -> str:
        return (f"curl {router.url}{self.path} -H 'Content-Type: application/json' "
                f"-d '{json.dumps(self.body)}'")

    def ask(self, router: Server) -> None:
        """Raises ServerError if no answer comes."""
        try:
            told = router.post(self.path, self.body)
        except OSError as error:
            raise ServerError(f"no answer: {error}; {router.tail()}") from None
        say(f"you:    {self.text}")
        say(f"model:  {self.answer(told)!r}   ({told['usage']['completion_tokens']} tokens)")


def run(prefix: str, serve: Callable[[Path], None]) -> int:
    """Serve in a folder of this prefix, which is removed. Returns the exit status."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        try:
            serve(Path(folder))
        except ServerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            say("ended")
    return 0


def show(
    servers: ForkedServers, pair: Sequence[Server], route: Callable[[], Server],
    question: Question, *, once: bool,
) -> None:
    """Wait for the pair, route to it, and ask.

    Raises ServerError if a server does not start or dies, and KeyboardInterrupt at Ctrl-C.
    """
    began = time.monotonic()
    for server in pair:
        server.wait_healthy()
        say(f"{server.name:8} {server.url}   {server.log}")
    router = route()
    router.wait_healthy()
    say(f"{router.name:8} {router.url}   after {time.monotonic() - began:.0f} s")
    question.ask(router)
    if once:
        return
    say(f"ask it yourself, Ctrl-C ends all:\n  {question.curl(router)}")
    while all(server.is_alive() for server in servers.started):
        time.sleep(0.5)
    raise ServerError("a server has died: "
                      + next(s.tail() for s in servers.started if not s.is_alive()))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
