"""The client of a request whose load has failed hears why, and 503 where the request may be sent
again: through vLLM's own scheduler, from 0.33 on. Before, an output has no field for an error.
"""

from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.v1.engine import EngineCoreOutput

from tests.vllm.engine import Engine, Servers

PROMPT = list(range(100))
HAS_FIELD = "error" in EngineCoreOutput.__struct_fields__


@pytest.fixture
def pair(closing: ExitStack, folder: Path) -> Callable[..., Servers]:
    def make(**named: Any) -> Servers:
        return Servers(Engine(closing, folder, "kv_producer", **named),
                       Engine(closing, folder, "kv_consumer", **named))
    return make


def told(servers: Servers) -> tuple[HTTPStatus, str]:
    """The answer of vLLM's front to the client of request "a"."""
    error = servers.decode.errors["a"]
    assert error is not None, "vLLM answers: internal server error"
    answer = create_error_response(error.to_exception())
    return HTTPStatus(answer.error.code), answer.error.message


@pytest.mark.skipif(not HAS_FIELD, reason="before vLLM 0.33 an output has no field for an error")
@pytest.mark.parametrize("multi", [False, True])
def test_the_client_of_a_request_whose_prefill_is_gone_may_send_it_again(
    pair: Callable[..., Servers], *, multi: bool
) -> None:
    servers = pair(multi=multi)
    params = servers.compute("a", PROMPT)
    for worker in servers.prefill.workers():
        worker.close()
    servers.decode.add("a", PROMPT, 3, params)
    servers.until(lambda: "a" in servers.decode.ends)
    status, message = told(servers)
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert "was not loaded: " in message


@pytest.mark.skipif(not HAS_FIELD, reason="before vLLM 0.33 an output has no field for an error")
def test_the_client_of_another_prompt_hears_so_and_that_it_would_come_again(
    pair: Callable[..., Servers]
) -> None:
    servers = pair()
    params = servers.compute("a", PROMPT)
    servers.decode.add("a", PROMPT[::-1], 3, params)
    servers.until(lambda: "a" in servers.decode.ends)
    status, message = told(servers)
    assert (status, "prompt" in message) == (HTTPStatus.INTERNAL_SERVER_ERROR, True)


@pytest.mark.skipif(HAS_FIELD, reason="of releases before 0.33")
def test_before_the_field_an_output_says_an_error_and_no_reason(
    pair: Callable[..., Servers]
) -> None:
    servers = pair()
    params = servers.compute("a", PROMPT)
    servers.decode.add("a", PROMPT[::-1], 3, params)
    servers.until(lambda: "a" in servers.decode.ends)
    assert servers.decode.ends["a"] == "error"
