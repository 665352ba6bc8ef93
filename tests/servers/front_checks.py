"""What the cell asserts in which SGLang refuses a request before its queue; see checks.py."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.servers.checks import SERVES_AGAIN, refused
from tests.servers.load import Ask, Both, asks, send
from tests.servers.stage import Layout, Pair, Stage
from tests.servers.suite import Finding

AT_ONCE_S: Final = 10.0
LEAVES_S: Final = 1.0
WIDTH: Final = 64  # of the model's embeddings
COLD: Final = {"temperature": -1.0}
# By the reason of the side that refuses, what only its half of a request has. Of its scheduler the
# other half is told who it was.
FRONT: Final[dict[str, dict[str, Any]]] = {
    "temperature must be": {"sampling_params": COLD},
    "routed_dp_rank=7 out of range": {"routed_dp_rank": 7},
    "Either text, input_ids or input_embeds": {"input_ids": None},
}
SCHEDULER: Final[dict[str, dict[str, Any]]] = {
    "return_sampling_mask requires": {"return_sampling_mask": True},
    "session id none does not exist": {"session_params": {"id": "none"}},
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """way: by which only this side refuses a request. here: what it says. there: what the other
    half is told.
    """

    side: str
    way: Both
    here: str
    there: str

    def fails(self) -> str:
        """See refused."""
        at_prefill, at_decode = (
            (self.here, self.there) if self.side == "prefill" else (self.there, self.here))
        return refused(self.way, (at_decode,), AT_ONCE_S, prefill=(at_prefill,))


def front_refuses(stage: Stage, layout: Layout) -> Finding:
    """The other half of each fails at once, and is told why. Requests that nobody refuses are
    served meanwhile.
    """
    pair = stage.pair(layout)
    reference = stage.reference(layout.model, asks(SERVES_AGAIN))
    refusals = list(_refusals(pair))
    with ThreadPoolExecutor(1 + len(refusals)) as beside:
        fits = beside.submit(reference.check, pair.both, asks(SERVES_AGAIN), in_flight=8,
                             about=pair.told)
        told = list(beside.map(Refusal.fails, refusals))
    served, _ = fits.result()
    _several(pair)
    _leaves(pair)
    pair.check_nothing_grew()
    return Finding(SERVES_AGAIN + 4 * len(refusals), served.equal, max(told))


def _refusals(pair: Pair) -> Iterator[Refusal]:
    for side in ("prefill", "decode"):
        for told, by_front in ((FRONT, True), (SCHEDULER, False)):
            for why, odd in told.items():
                way = replace(pair.both, **{f"to_{side}": odd})  # type: ignore[arg-type]
                yield Refusal(side, way, why, f"refused by the front of {side}: {why}"
                              if by_front else f"refused by the {side} scheduler, before its queue")
    chance = random.Random(3)  # noqa: S311
    embeds = {"input_ids": None,
              "input_embeds": [[chance.gauss(0, 0.2) for _ in range(WIDTH)] for _ in range(12)]}
    asked = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 4}
    for here, way in (
        ("radix", replace(pair.both, to_prefill=embeds, to_decode=embeds)),
        ("Prompt cannot be empty", replace(pair.both, path="/v1/completions", to_decode=asked,
                                           to_prefill=asked | {"prompt": []})),
    ):
        yield Refusal("prefill", way, here, "refused by the front of prefill: ")


def _several(pair: Pair) -> None:
    """Two prompts in one request, of which prefill's front refuses the second: the first has come
    to its scheduler by then.
    """
    two = {"input_ids": [[5, 6, 7], [8, 9, 10]]}
    refused(replace(pair.both, to_decode=two, to_prefill=two | {"sampling_params": [{}, COLD]}),
            (), AT_ONCE_S, prefill=("temperature must be",))


def _leaves(pair: Pair) -> None:
    """While prefill is paused its front keeps requests, and a client leaves."""
    pair.prefill.post("/pause_generation", {"mode": "in_place"})
    try:
        (answer,) = send(replace(pair.both, to_prefill={"stream": True}, leaves=LEAVES_S),
                         [Ask((5, 6, 7), 2)], in_flight=1, seconds=LEAVES_S + AT_ONCE_S)
    finally:
        pair.prefill.post("/continue_generation", {"torch_empty_cache": False})
    assert not answer.hung, "decode's half hangs when the client of prefill's has left"
    assert "front of prefill: its client has left" in str(answer.error), answer.error
