"""The proxy that passes on prefill's first token, before servers that answer in vLLM's classes."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from vllm.entrypoints.openai.completion.protocol import (
    CompletionLogProbs,
    CompletionResponse,
    CompletionResponseChoice,
    CompletionResponseStreamChoice,
    CompletionStreamResponse,
)
from vllm.entrypoints.serve.engine.protocol import ModelCard, ModelList, UsageInfo

from examples.vllm_servers.first_token import DONE, GOES_ON, PATH, fits
from examples.vllm_servers.proxy import Proxy
from tests.fuzz.test_arguments import ODD

ASKED = {"model": "m", "prompt": "how many", "max_tokens": 4, "stream": True, "temperature": 0}
TEXTS = " one", " two", " three"  # the first is prefill's
OFFER = {"pdproto": {"room": "1"}, GOES_ON: True}


def chance(text: str) -> CompletionLogProbs:
    return CompletionLogProbs(text_offset=[0], token_logprobs=[-1.0], tokens=[text])


class Prefill:
    """Samples one token. reason: why it ends. params: of its answer."""

    text, reason, params = TEXTS[0], "length", OFFER

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(body := await request.json())
        ids: dict[str, Any] = {"token_ids": [7], "prompt_token_ids": [3, 5]} \
            if body.get("return_token_ids") else {}
        choice = CompletionResponseChoice(
            index=0, text=self.text, finish_reason=self.reason, logprobs=chance(self.text)
            if "logprobs" in body else None, **ids)
        return web.Response(content_type="application/json", text=CompletionResponse(
            id="cmpl-prefill", created=1, model="m", choices=[choice],
            usage=UsageInfo(prompt_tokens=2, completion_tokens=1, total_tokens=3),
            kv_transfer_params=self.params).model_dump_json())


class Decode:
    """Streams the later tokens, in pieces that end anywhere."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = 200
        self.longest = 6  # of the prompt's two tokens and the answer's four

    async def models(self, _: web.Request) -> web.Response:
        return web.Response(content_type="application/json", text=ModelList(
            data=[ModelCard(id="m", max_model_len=self.longest)]).model_dump_json())

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(body := await request.json())
        if self.status != 200:
            return web.json_response({"error": {"message": "not loaded"}}, status=self.status)
        events = [CompletionStreamResponse(
            id="cmpl-decode", created=2, model="m", choices=[CompletionResponseStreamChoice(
                index=0, text=text, finish_reason="length" if text == TEXTS[-1] else None,
                logprobs=chance(text) if "logprobs" in body else None,
                **({"token_ids": [8], "prompt_token_ids": [3, 5, 7]}
                   if body.get("return_token_ids") else {}))]).model_dump_json(exclude_unset=True)
                for text in TEXTS[1:]]
        if body.get("stream_options"):
            events.append(CompletionStreamResponse(
                id="cmpl-decode", created=2, model="m", choices=[], usage=UsageInfo(
                    prompt_tokens=3, completion_tokens=2, total_tokens=5)).model_dump_json())
        whole = "".join(f"data: {event}\n\n" for event in events).encode() + DONE
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for at in range(0, len(whole), 50):
            await answer.write(whole[at:at + 50])
            await asyncio.sleep(0)
        await answer.write_eof()
        return answer


def told(
    check: Callable[[Any, Prefill, Decode], Awaitable[None]], others: Sequence[str] = ()
) -> None:
    """others: decode servers whose turn is later."""
    async def begin() -> None:
        prefill, decode = Prefill(), Decode()
        servers = []
        for one in (prefill, decode):
            app = web.Application()
            app.add_routes([web.post(PATH, one.answer)])
            if one is decode:
                app.add_routes([web.get("/v1/models", decode.models)])
            servers.append(server := TestServer(app))
            await server.start_server()
        urls = [[str(server.make_url("")).rstrip("/")] for server in servers]
        proxy = Proxy(urls[0], [*others, *urls[1]], first_token=True)
        async with TestClient(TestServer(proxy.application())) as client:
            await check(client, prefill, decode)
        for server in servers:
            await server.close()

    asyncio.run(asyncio.wait_for(begin(), 30.0))


async def events(client: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a stream that ends as vLLM's does."""
    async with client.post(PATH, json=body) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        *lines, done, end = (await reply.text()).split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def texts(found: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(choice["text"] for event in found for choice in event["choices"])


def test_the_answer_is_one_stream() -> None:
    async def check(client: Any, prefill: Prefill, decode: Decode) -> None:
        found = await events(client, ASKED)
        assert texts(found) == TEXTS
        assert {(event["id"], event["created"]) for event in found} == {("cmpl-prefill", 1)}
        reasons = [event["choices"][0].get("finish_reason") for event in found]
        assert reasons == [None, None, "length"]
        assert not any("token_ids" in event["choices"][0] for event in found)
        (there,), (here,) = prefill.asked, decode.asked
        assert there["kv_transfer_params"][GOES_ON] is True
        assert (there["max_tokens"], there["prompt"], there["stream"]) == (1, "how many", False)
        assert here == {**ASKED, "prompt": [3, 5, 7], "max_tokens": 3, "kv_transfer_params": OFFER}

    told(check)


def test_tokens_and_log_probabilities_are_those_of_one_answer() -> None:
    async def check(client: Any, _: Prefill, __: Decode) -> None:
        found = await events(client, {**ASKED, "return_token_ids": True, "logprobs": 0})
        choices = [event["choices"][0] for event in found]
        assert [choice["token_ids"] for choice in choices] == [[7], [8], [8]]
        assert [choice.get("prompt_token_ids") for choice in choices] == [[3, 5], None, None]
        assert [choice["logprobs"]["text_offset"] for choice in choices] == [[0], [4], [4]]

    told(check)


@pytest.mark.parametrize("each", [False, True])
def test_usage_counts_are_those_of_one_answer(each: bool) -> None:
    async def check(client: Any, _: Prefill, __: Decode) -> None:
        found = await events(client, {**ASKED, "stream_options": {
            "include_usage": True, "continuous_usage_stats": each}})
        first, last = found[0].get("usage"), found[-1]["usage"]
        assert (last["prompt_tokens"], last["completion_tokens"], last["total_tokens"]) == (2, 3, 5)
        assert (first and first["completion_tokens"]) == (1 if each else None)

    told(check)


@pytest.mark.parametrize("name", [
    "another connector", "half a character", "no text", "the end of the answer", "a long answer",
])  # fmt: skip
def test_a_token_that_decode_cannot_go_on_behind_is_not_passed_on(name: str) -> None:
    async def check(client: Any, prefill: Prefill, decode: Decode) -> None:
        prefill.params = {"pdproto": {}} if name == "another connector" else OFFER
        prefill.reason = "stop" if name == "the end of the answer" else "length"
        decode.longest = 5 if name == "a long answer" else 6
        prefill.text = {"half a character": " \ufffd", "no text": ""}.get(name, " one")
        async with client.post(PATH, json=ASKED) as reply:
            assert TEXTS[0] not in await reply.text()
        assert decode.asked == [{**ASKED, "kv_transfer_params": prefill.params}]

    told(check)


def test_a_refusal_of_decode_ends_the_stream_with_it() -> None:
    async def check(client: Any, _: Prefill, decode: Decode) -> None:
        decode.status = 503
        first, last = await events(client, ASKED)
        assert texts([first]) == TEXTS[:1]
        assert last["error"]["code"] == 503
        assert "not loaded" in last["error"]["message"]

    told(check)


def test_a_decode_server_that_does_not_answer_holds_up_no_request_of_another() -> None:
    """Seen red when each server was asked for the length of its model."""
    async def check(client: Any, _: Prefill, __: Decode) -> None:
        assert texts(await events(client, ASKED)) == TEXTS

    with socket.create_server(("127.0.0.1", 0)) as silent:
        told(check, [f"http://127.0.0.1:{silent.getsockname()[1]}"])


@pytest.mark.parametrize("more", [
    {"n": 2}, {"stop": ["x"]}, {"presence_penalty": 1.0}, {"seed": 3}, {"min_tokens": 3},
    {"response_format": {"type": "json_object"}}, {"echo": True}, {"stream": False},
    {"prompt": [[1], [2]]}, {"prompt": []}, {"max_tokens": None}, {"max_tokens": True},
    {"max_tokens": 1}, {"stream_options": "usage"},
])  # fmt: skip
def test_requests_for_which_it_would_make_a_difference_go_the_other_way(
    more: dict[str, Any]
) -> None:
    assert fits(PATH, ASKED)
    assert not fits(PATH, {**ASKED, **more})
    assert not fits("/v1/chat/completions", ASKED)


def test_an_odd_value_in_a_body_is_answered_the_other_way_or_fits() -> None:
    """vLLM refuses it by name then. Seen red where the token ids were not checked."""
    right: dict[str, Any] = {"prompt": [1, 2], "max_tokens": 2, "stream": True}
    assert fits(PATH, right)
    for value in ODD.values():
        assert not fits(PATH, {**right, "stream": value}) or value is True
        assert not fits(PATH, {**right, "max_tokens": value}) or type(value) is int
        if fits(PATH, {**right, "prompt": value}):
            assert isinstance(value, str) or all(type(one) is int for one in value)
        assert fits(PATH, {**right, "stream_options": value}) is isinstance(value, dict | None)
