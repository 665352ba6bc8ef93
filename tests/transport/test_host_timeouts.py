"""Every bound of a wait that runs on the host's clock is listed with the reason why it may.

A process that is stopped for longer than such a bound goes on after it. So a wait for another
process is of the own clock (runtime/own_clock.py; in an event loop `within`), or ends nothing.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Tools that a person starts and ends, and tests.
ELSEWHERE: Final = ("check", "cli", "drill", "testing")
CALLS: Final = ("ClientTimeout", "settimeout", "timeout", "wait_for")

KERNEL: Final = ("a socket that blocks: the kernel looks for the answer before it looks at the "
                 "time, so what has come meanwhile is read; else the caller asks again")
CLOSING: Final = "it bounds a close, after which nothing is waited for"
AGAIN: Final = "its end is no failure: the loop goes round"
REASONS: Final[Mapping[str, str]] = {
    "pdproto/drivers/aio.py:__aexit__": CLOSING,
    "pdproto/drivers/aio.py:until": "the caller's own bound; the condition is asked once more",
    "pdproto/engine/nixl.py:_run": "a condition without a bound",
    "pdproto/registry/client.py:_connection": KERNEL,
    "pdproto/registry/client.py:_exchange": KERNEL,
    "pdproto/registry/desks.py:_loop": AGAIN,
    "pdproto/registry/etcd.py:_ask_one": "etcd is asked again, at every member (`_ask`)",
    "pdproto/registry/etcd.py:_watch": "the watch is opened anew where it ended",
    "pdproto/registry/replica.py:_write": AGAIN,
    "pdproto/sglang/recompute.py:recompute": KERNEL,
    "pdproto/transport/answers.py:readinto": KERNEL,
    "pdproto/transport/http_server.py:_greet": "a client whose TLS has not begun calls again",
    "pdproto/transport/http_server.py:_serve": CLOSING,
    "pdproto/transport/http_server.py:_tick_until": AGAIN,
    "pdproto/transport/node_status.py:_get": KERNEL,
    "pdproto/transport/otel.py:__init__": KERNEL,
    "pdproto/transport/patience.py:within": "it has no bound until the own clock gives it one",
}


def found() -> Iterator[str]:
    for path in sorted((ROOT / "pdproto").rglob("*.py")):
        name = path.relative_to(ROOT)
        if name.parts[1] not in ELSEWHERE and not name.is_relative_to("pdproto/spec"):
            yield from (f"{name}:{place}" for place in in_module(ast.parse(path.read_text())))


def in_module(tree: ast.AST) -> Iterator[str]:
    """The functions that call with a bound of the host's clock."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (call for call in ast.walk(function) if isinstance(call, ast.Call))
            if any(is_bound(call) for call in inner):
                yield function.name


def is_bound(call: ast.Call) -> bool:
    function = call.func
    called = getattr(function, "attr", getattr(function, "id", ""))
    return called in CALLS or any("timeout" in (word.arg or "") for word in call.keywords)


def test_each_bound_on_the_hosts_clock_has_its_reason() -> None:
    """Seen red with `asyncio.timeout` in place of `within` in the order of a replica."""
    assert sorted(set(found())) == sorted(REASONS)


def test_a_bound_is_seen_however_it_is_said() -> None:
    told = "def a():\n wait_for(x, 1)\ndef b():\n get(timeout=3)\ndef c():\n s.settimeout(1)\n"
    assert list(in_module(ast.parse(told + "def d():\n get(3)\n"))) == ["a", "b", "c"]
