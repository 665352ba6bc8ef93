"""What only the cells of servers on a GPU assert; see checks.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.servers.load import Ask, Through, asks, send
from tests.servers.reference import LOGPROB
from tests.servers.stage import POOL, Layout, Stage
from tests.servers.suite import Finding

ALONE: Final = 24  # requests


def alone(stage: Stage, layout: Layout) -> Finding:
    """One server answers as transformers does on a processor, token by token."""
    stage.end()
    wanted = asks(ALONE)
    server = stage.servers.start("alone", stage.model(layout.model), POOL,
                                 env=stage.environment(layout))
    try:
        server.wait_healthy()
        answers = send(Through(server.url), wanted, in_flight=8, seconds=120.0)
    finally:
        stage.servers.end(server)
    failed = [answer.error for answer in answers if not answer.is_full]
    assert not failed, f"{len(failed)} of {len(wanted)} failed: {failed[0]}"
    largest, llm = 0.0, _by_transformers(stage.model(layout.model))
    for place, (ask, answer) in enumerate(zip(wanted, answers, strict=True)):
        tokens, logprobs = _greedy(llm, ask)
        apart = max(abs(a - b) for a, b in zip(logprobs, answer.logprobs, strict=True))
        assert answer.tokens == tokens, f"request {place}: {answer.tokens}, want {tokens}"
        assert apart < LOGPROB, f"request {place}: log probabilities {apart:.2g} apart"
        largest = max(largest, apart)
    return Finding(len(wanted), len(wanted), f"logprobs within {largest:.1g}")


def _by_transformers(model: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(model), dtype=torch.float32)


def _greedy(llm: Any, ask: Ask) -> tuple[Sequence[int], Sequence[float]]:
    """The tokens that a model makes, and their log probabilities."""
    import torch

    text, logprobs = list(ask.prompt), []
    with torch.inference_mode():
        for _ in range(ask.new):
            told = llm(torch.tensor([text])).logits[0, -1].log_softmax(0)
            text.append(int(told.argmax()))
            logprobs.append(float(told.max()))
    return text[len(ask.prompt):], logprobs
