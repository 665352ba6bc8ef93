"""A request of SGLang, as its scheduler makes it of what its tokenizer sends."""

from array import array
from collections.abc import Iterable
from typing import Any

from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams


def request_of(room: int, tokens: Iterable[int], side: str, *, rid: str = "r",
               host: str = "127.0.0.1", port: int = 1, **told: Any) -> Req:
    """side: prefill or decode. host, port: of prefill's registry. told: further arguments of
    SGLang's `Req`.
    """
    sampling = SamplingParams()
    sampling.normalize(None)  # SGLang's tokenizer does this
    return Req(rid, "", array("q", tokens), sampling, bootstrap_host=host, bootstrap_port=port,
               bootstrap_room=room, disagg_mode=DisaggregationMode(side), **told)
