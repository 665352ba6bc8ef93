"""Decode loads the KV cache of its own prompt, or none: vLLM's own requests and scheduler."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

import torch
from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.request import Request

from pdproto.vllm import prompts
from pdproto.vllm.offer import KEY
from pdproto.vllm.prompts import other_prompt, prompt_of
from pdproto.vllm.seals import Seals
from tests.vllm import pair as halves
from tests.vllm.engine import Engine, Servers
from tests.vllm.layers import TOKENS_MAX
from tests.vllm.test_scheduler import NEW, check, prompt

TOKENS = [11, 12, 13]


def request(tokens: list[int] | None = None, **named: Any) -> Request:
    return Request("r", list(TOKENS if tokens is None else tokens),
                   SamplingParams(max_tokens=1, temperature=0), None, **named)


def adapter(name: str = "poet", path: str = "/models/poet-v1", number: int = 1) -> LoRARequest:
    return LoRARequest(name, number, path)


def image(identifier: str, offset: int = 0) -> list[MultiModalFeatureSpec]:
    return [MultiModalFeatureSpec(None, "image", identifier, PlaceholderRange(offset, 2))]


@pytest.mark.parametrize(("there", "here", "differs"), [
    (request(), request([11, 12, 14]), "tokens"),
    (request(), request([11, 13, 12]), "tokens"),
    (request([]), request([0]), "tokens"),
    (request([-1]), request([2**32 - 1]), "tokens"),  # no token, but a client may write it
    (request([2**32]), request([0]), "tokens"),
    (request([7] * 1_000_000), request([7] * 999_999 + [8]), "tokens"),
    (request(lora_request=adapter()), request(), "adapter: poet of poet-v1 at prefill and none at"),
    (request(lora_request=adapter()), request(lora_request=adapter("critic")), "adapter"),
    (request(lora_request=adapter()), request(lora_request=adapter(path="/m/poet-v2")),
     "adapter: poet of poet-v1 at prefill and poet of poet-v2 at decode"),
    (request(cache_salt="a"), request(cache_salt="b"), "cache salt"),
    (request(cache_salt="a"), request(), "cache salt"),
    (request(mm_features=image("cat")), request(mm_features=image("dog")), "images"),
    (request(mm_features=image("cat")), request(mm_features=image("cat", 1)), "images"),
    (request(mm_features=image("cat")), request(), "images"),
    (request(prompt_embeds=torch.zeros(3, 4)), request(prompt_embeds=torch.ones(3, 4)),
     "embeddings"),
])  # fmt: skip
def test_another_prompt_is_told_with_both_values(there: Request, here: Request, differs: str
                                                 ) -> None:
    told = other_prompt(prompt_of(there), prompt_of(here))
    assert told is not None
    assert differs in told
    assert re.search(r" at prefill and .* at decode", told)
    assert other_prompt(prompt_of(there), prompt_of(there)) is None


@pytest.mark.parametrize(("there", "here"), [
    (request(lora_request=adapter()), request(lora_request=adapter(path="/m/poet-v1", number=7))),
    # Without caches vLLM numbers images, so that nothing is known of them.
    (request(mm_features=image("renderer0-mm-4-image-0")), request(mm_features=image("cat"))),
    (request(mm_features=image("poet:renderer1-mm-9-image-0")), request(mm_features=image("cat"))),
])  # fmt: skip
def test_what_differs_by_host_is_not_compared(there: Request, here: Request) -> None:
    assert other_prompt(prompt_of(there), prompt_of(here)) is None


@pytest.fixture
def servers(closing: ExitStack, folder: Path) -> Servers:
    return Servers(Engine(closing, folder, "kv_producer"),
                   Engine(closing, folder, "kv_consumer", blocks=64))


@dataclass(frozen=True)
class Mixed:
    """Decode is asked for `asked` with what prefill has answered for `computed`. written: what
    a client writes into that answer. said: by decode. heard: by prefill; None where nothing in
    those params can be believed, also no address of prefill.
    """

    said: str
    heard: str | None
    computed: Sequence[int] = tuple(prompt(2))
    written: Mapping[str, Any] = field(default_factory=dict)
    adapter: LoRARequest | None = None

    @property
    def asked(self) -> list[int]:
        """As long as `computed`."""
        return (prompt(1) if len(self.computed) == len(prompt(1))
                else [*self.computed[:-1], self.computed[-1] ^ 1])


OTHER_TOKENS = "another prompt (tokens: "
OTHER_ADAPTER = "another prompt (adapter: none at prefill and poet of poet-v1 at decode)"
TWO_PROMPTS = " has two prompts: "
MIXED = {
    "another prompt": Mixed(OTHER_TOKENS, OTHER_TOKENS),
    "one token": Mixed(OTHER_TOKENS, OTHER_TOKENS, [*prompt(1)[:-1], prompt(1)[-1] ^ 1]),
    "the longest prompt": Mixed(OTHER_TOKENS, OTHER_TOKENS, prompt(2, TOKENS_MAX - NEW)),
    "two adapters": Mixed(OTHER_ADAPTER, OTHER_ADAPTER, prompt(1), adapter=adapter()),
    "forged": Mixed(TWO_PROMPTS, TWO_PROMPTS, written={"prompt": prompt_of(request(prompt(1)))}),
    "digest of another version": Mixed("tokens: none at prefill and ", TWO_PROMPTS, written={
        "prompt": {"tokens, by another rule": "of version 2"}}),
    "empty": Mixed("Expected `int` >= 1", None, written={"tokens": 0}),
    "cut": Mixed("Object missing required field", None, written={"ranks": None}),
    "another version": Mixed("of version 2, and 1 is known here", None, written={"version": 2}),
}


@pytest.mark.parametrize("case", MIXED.values(), ids=MIXED)
def test_the_kv_cache_of_another_prompt_is_loaded_by_nobody(
    servers: Servers, caplog: pytest.LogCaptureFixture, case: Mixed
) -> None:
    """A proxy gives decode the params of another prompt of the same length, or a client changes
    them. The next request of that prompt is answered right, and so are others meanwhile.

    Seen red without the comparison: decode answers from the other prompt, and serves its blocks
    afterwards to requests without params. "forged" was, where the offers' rooms have no prompt.
    """
    computed, asked = list(case.computed), case.asked
    servers.serve("beside", prompt(3), NEW)
    params = servers.compute("other", computed)
    told = {name: value for name, value in {**params[KEY], **case.written}.items()
            if value is not None}
    servers.decode.add("r", asked, NEW, {**params, KEY: told}, adapter=case.adapter)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.ends["r"] == "error"
    if case.heard is None:  # prefill still waits for whom it has answered
        servers.decode.add("again", computed, NEW, params)
    servers.until_idle()  # prefill has its blocks back: the reason reaches it, and no clock
    for server, words in (("request r ", case.said), ("node prefill-", case.heard)):
        assert words is None or any(
            one.startswith(server) and words in one for one in caplog.messages), caplog.messages
    servers.decode.add("later", asked, NEW, adapter=case.adapter)
    servers.until(lambda: "later" in servers.decode.ends)
    check(servers, "later", asked)
    check(servers, "beside", prompt(3))
    if case.heard is None:
        check(servers, "again", computed)


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_the_schedulers_thread_makes_no_digest_of_a_prompt_and_checks_no_seal(
    closing: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch, *, multi: bool, drawn: bool
) -> None:
    """vLLM's thread that reads requests does. drawn: the proxy draws the room.

    Seen red without the wrap of vLLM's engine, and with a `found` that keeps nothing.
    """
    reader = closing.enter_context(ThreadPoolExecutor(1, "reader"))
    by: dict[str, set[str]] = {"a digest": set(), "a seal": set()}

    def noted(what: str, its: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            by[what].add(current_thread().name)
            return its(*given)
        return call

    monkeypatch.setattr(prompts, "_digest", noted("a digest", prompts._digest))
    monkeypatch.setattr(Seals, "doubt", noted("a seal", Seals.doubt))
    monkeypatch.setattr(Engine, "made", lambda of, told, its=Engine.made: reader.submit(
        its, of, told).result())
    servers = Servers(Engine(closing, folder, "kv_producer", multi=multi),
                      Engine(closing, folder, "kv_consumer", multi=multi))
    if drawn:
        servers.begin("r", prompt(1), NEW)
    else:
        servers.serve("r", prompt(1), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == 100
    assert by == {"a digest": {"reader_0"}, "a seal": {"reader_0"}}


def test_the_request_of_tests_without_vllm_has_the_fields_of_vllms() -> None:
    """Seen red with a field of another name, and with a prompt that is an array."""
    params = {"do_remote_prefill": True}
    theirs = Request("r", list(TOKENS), SamplingParams(
        max_tokens=1, extra_args={"kv_transfer_params": params}), None)
    made = vars(halves.request("r", len(TOKENS), params, TOKENS))
    assert made == {name: getattr(theirs, name, "missing") for name in made}
