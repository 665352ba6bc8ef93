"""The token that prefill samples goes to the client at once, and decode goes on behind it.

The prompt of decode is then that of prefill with this token behind it, and decode takes the KV
cache of all but the token from prefill (pdproto/vllm/offer.py, GOES_ON). So neither the
hand-over nor a step of decode is in the time to the first token.

Only for streamed completions of one prompt, with parameters for which it makes no difference to
decode whether a token is of the prompt or of the answer (PLAIN).
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import StreamReader

PATH: Final = "/v1/completions"
GOES_ON: Final = "pdproto_first_token"
WITH_TOKENS: Final = "return_token_ids"
ASKED_FOR: Final = "prompt_token_ids", "token_ids"  # in answers, by WITH_TOKENS
PLAIN: Final = frozenset({
    "add_special_tokens", "cache_salt", "ignore_eos", "logprobs", "max_tokens", "min_p", "model",
    "priority", "prompt", "repetition_penalty", WITH_TOKENS, "skip_special_tokens",
    "spaces_between_special_tokens", "stop_token_ids", "stream", "stream_options", "temperature",
    "top_k", "top_p", "user",
})
DATA: Final = b"data: "
DONE: Final = b"data: [DONE]\n\n"
CUT: Final = "\ufffd"  # in place of a character of which a token has a part


def fits(path: str, body: Mapping[str, Any]) -> bool:
    """Whether a request can be answered so."""
    prompt, most = body.get("prompt"), body.get("max_tokens")
    return (path == PATH and body.get("stream") is True and body.keys() <= PLAIN
            and type(most) is int and most > 1
            and isinstance(body.get("stream_options"), dict | None)
            and (isinstance(prompt, str) or (isinstance(prompt, list) and bool(prompt)
                                             and all(type(one) is int for one in prompt))))


@dataclass(frozen=True)
class Begun:
    """An answer of prefill. body: of the client's request. length: the most tokens of a prompt and
    its answer at decode.
    """

    body: Mapping[str, Any]
    answer: Mapping[str, Any]
    length: float

    @property
    def choice(self) -> Mapping[str, Any]:
        """The only one that the answer has."""
        found: Mapping[str, Any] = self.answer["choices"][0]
        return found

    @property
    def is_good(self) -> bool:
        """Whether decode can go on behind the token: the connector says so, the answer does not end
        with it, it is whole text, and decode does not refuse the length. Decode is asked in any
        case, for else prefill would keep its blocks until a timeout.
        """
        text = self.choice["text"]
        return bool((self.answer.get("kv_transfer_params") or {}).get(GOES_ON)
                    and self.choice["finish_reason"] == "length"
                    and text and not text.endswith(CUT)
                    and len(self.choice["prompt_token_ids"]) + self.body["max_tokens"]
                    <= self.length)

    def event(self) -> bytes:
        """The first one of the stream."""
        choice = {**self.choice, "finish_reason": None}
        if not self.body.get(WITH_TOKENS):
            for name in ASKED_FOR:
                choice.pop(name, None)
        told = {name: self.answer[name] for name in ("id", "object", "created", "model")}
        if (self.body.get("stream_options") or {}).get("continuous_usage_stats"):
            told["usage"] = self.answer["usage"]
        return _event({**told, "choices": [choice]})

    def asked(self) -> dict[str, Any]:
        """The request for decode."""
        return {**self.body, "prompt": self.choice["prompt_token_ids"] + self.choice["token_ids"],
                "max_tokens": self.body["max_tokens"] - 1,
                "kv_transfer_params": self.answer["kv_transfer_params"]}

    def later(self, event: bytes) -> bytes:
        """An event of decode, as one of the same answer."""
        if not event.startswith(DATA + b"{"):
            return event
        told = json.loads(event[len(DATA):])
        told |= {name: self.answer[name] for name in ("id", "created") if name in told}
        if usage := told.get("usage"):  # decode counts the first token to the prompt
            usage["prompt_tokens"] -= 1
            usage["completion_tokens"] += 1
        for choice in told.get("choices", ()):
            choice.pop("prompt_token_ids", None)
            if choice.get("logprobs"):  # their offsets begin with decode's first text
                choice["logprobs"]["text_offset"] = [
                    len(self.choice["text"]) + at for at in choice["logprobs"]["text_offset"]]
        return _event(told)


def failed(status: int, text: str) -> bytes:
    """The end of an answer that has begun."""
    return _event({"error": {"code": status, "message": text}}) + DONE


async def events(content: StreamReader) -> AsyncIterator[bytes]:
    """The events of a stream, of any length."""
    begun = b""
    async for piece in content.iter_any():
        *whole, begun = (begun + piece).split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"
    if begun:
        yield begun


def _event(told: Mapping[str, Any]) -> bytes:
    return DATA + json.dumps(told, ensure_ascii=False).encode() + b"\n\n"
