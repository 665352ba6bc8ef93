"""No argument of a public function is left out of the odd values of test_arguments.py.

The functions are found by import: those of docs/reference/python-api.md about hand-overs, every one
of pdproto.transport, and those of pdproto.vllm that read what a client of the HTTP port has sent.
"""

import asyncio
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache
from importlib import import_module
from inspect import isfunction, signature
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

import pytest

import pdproto.transport
import pdproto.vllm
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import open_sink, open_source
from pdproto.transport import keys
from pdproto.transport.json_logs import log_as_json
from pdproto.transport.node_status import look
from pdproto.transport.operator_port import serve_operator
from pdproto.transport.patience import within
from pdproto.transport.settings import Settings
from pdproto.vllm.early import SERVER, TRANSFER_ID
from pdproto.vllm.offer import FOR_DECODE, FROM_PREFILL, GOES_ON, KEY
from tests.fuzz.test_arguments import ODD, Case, every_odd
from tests.node.data_paths import Cluster, cluster

MODULES: Final = ("pdproto.engine.engines", "pdproto.node.link", *(
    f"pdproto.transport.{one.name}" for one in iter_modules(pdproto.transport.__path__)))
# Cases of test_public_calls.py and test_arguments.py.
ELSEWHERE: Final = {"until", "load", "tcp_at", "open_handoffs"}
# A node, a command or a plug-in calls these, with what it has made or checked itself.
INTERNAL: Final = {
    "address_for", "called", "connections_max", "host_of", "is_too_late", "listening",
    "lost_lines", "member_of", "name_in", "new_incarnation", "new_secret", "place_of", "quiet",
    "refuse_host_pools", "require", "require_page_fence", "require_private", "share_interpreter",
    "table", "told", "typed", "variable", "written"}


def there() -> dict[str, Callable[..., Any]]:
    """The public functions of these modules, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in MODULES:
        for title, one in vars(import_module(name)).items():
            origin = getattr(one, "__wrapped__", one)
            if isfunction(origin) and not title.startswith("_") and origin.__module__ == name:
                found[title] = one
    return found


def opened(open_: Callable[..., Any]) -> Callable[..., None]:
    def make(**given: Any) -> None:
        with suppress(EngineError), closing(open_(**given)):  # no such host
            pass

    return make


async def _waited(**given: Any) -> None:
    async with within(**given):
        pass


def _logged(**given: Any) -> None:
    ours = logging.getLogger("pdproto")
    before = list(ours.handlers), ours.level, ours.propagate
    try:
        log_as_json(**given)
    finally:
        ours.handlers[:], ours.level, ours.propagate = before


def _served(**given: Any) -> None:
    with suppress(OSError):  # no such port
        serving = serve_operator(**given)
        if serving is not None:
            serving.stop()


def of_files(call: Callable[..., Any]) -> Callable[..., None]:
    """A KeysError and an OSError name the file or the member."""
    def ask(**given: Any) -> None:
        with suppress(keys.KeysError, OSError):
            call(**given)

    return ask


def functions(nodes: Cluster, folder: Path) -> Iterator[Case]:
    """Each with arguments that are right."""
    secret = keys.new_secret()
    (folder / "secret").write_text(secret, encoding="ascii")
    yield Case("open_sink", opened(open_sink), {
        "name": "tcp", "host": "127.0.0.1", "staging_bytes": 1 << 20, "port": 0})
    yield Case("open_source", opened(open_source), {"name": "tcp", "host": "127.0.0.1"})
    yield Case("log_as_json", _logged, {"stream": io.StringIO(), "level": logging.INFO})
    yield Case("of_secret", of_files(keys.of_secret), {"text": secret, "source": "a file"})
    yield Case("of_member", of_files(keys.of_member), {
        "secret": secret, "member": "one", "members": ("one", "two")})
    yield Case("read", of_files(keys.read), {"path": str(folder / "secret")})
    yield Case("write_secret", of_files(keys.write_secret), {"path": str(folder / "new")})
    yield Case("write_members", of_files(keys.write_members), {
        "folder": str(folder / "keys"), "members": ("one",)})
    yield Case("look", look, {"address": "127.0.0.1:9", "stuck": 1})
    yield Case("serve_operator", _served, {
        "node": nodes.decodes[0], "settings": Settings(operator="127.0.0.1:0"), "index": 0})
    yield Case("within", lambda **given: asyncio.run(_waited(**given)), {"seconds": 1.0})


def test_each_odd_value_of_a_function_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # odd values are names of files, too
    with cluster() as nodes:
        for case in functions(nodes, tmp_path):
            every_odd(case)


def test_no_argument_of_a_public_function_is_left_out(tmp_path: Path) -> None:
    with cluster() as nodes:
        tried = {(case.name, argument) for case in functions(nodes, tmp_path)
                 for argument in case.good}
    wanted = {(name, argument) for name, function in there().items()
              if name not in ELSEWHERE | INTERNAL for argument in signature(function).parameters}
    assert wanted == tried


@cache
def readers() -> dict[str, Callable[..., Any]]:
    """The public functions of pdproto.vllm that take kv_transfer_params."""
    found: dict[str, Callable[..., Any]] = {}
    for one in iter_modules(pdproto.vllm.__path__, "pdproto.vllm."):
        with suppress(ModuleNotFoundError):  # it needs vLLM, and calls those of the others
            found |= {title: of for title, of in vars(import_module(one.name)).items()
                      if isfunction(of) and of.__module__ == one.name
                      and "params" in signature(of).parameters and not title.startswith("_")}
    return found


def test_a_reader_of_parameters_takes_each_value_of_json_or_refuses_it() -> None:
    """Seen red where the id of a request was not checked to be text."""
    assert readers().keys() >= {"offer_in", "introduction_in", "room_in"}
    json = type(None), str, bool, int, float, list, dict
    for read in readers().values():
        for key in (KEY, SERVER, TRANSFER_ID, FROM_PREFILL, FOR_DECODE, GOES_ON):
            for value in (value for value in ODD.values() if type(value) in json):
                for params in ({key: value}, {KEY: {}, SERVER: {}, TRANSFER_ID: "a" * 32,
                                              FOR_DECODE: True, key: value}):
                    with suppress(ValueError):
                        read(params)
