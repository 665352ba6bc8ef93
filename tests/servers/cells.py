"""The cells: what is served how, what must hold, and the defect under which each is red."""

from dataclasses import dataclass
from typing import Final

PLAIN: Final = "plain"


@dataclass(frozen=True, slots=True)
class Cell:
    """layout: of layouts.py. check: of checks.py. quick: part of the subset that CI runs."""

    name: str
    layout: str
    check: str
    asserts: str
    defect: str
    quick: bool = False


CELLS: Final = (
    Cell("equality", PLAIN, "equality",
         "greedy tokens and log probabilities are those of a server without disaggregation",
         "wrong-page", quick=True),
    Cell("200 at once", PLAIN, "at_once",
         "the same with 200 requests in flight", "rows-shared", quick=True),
    Cell("half leave", PLAIN, "half_leave",
         "of 200 clients half close their connection: the others are served, nothing is left",
         "abort-lost", quick=True),
    Cell("kill -9 prefill", PLAIN, "kill_prefill",
         "with 150 in flight every request ends within 10 s; decode serves with the next prefill",
         "loss-unnoticed", quick=True),
    Cell("kill -9 decode", PLAIN, "kill_decode",
         "with 150 in flight every request ends within 10 s; prefill serves with the next decode",
         "decode-waited-for", quick=True),
    Cell("registry restarts", PLAIN, "registry_restarts",
         "prefill's registry ends and comes back in mid-run: requests are served on",
         "registers-once"),
    Cell("never met", "impatient", "never_met",
         "the halves of a request go to servers that never met: each fails in time, others do not",
         "waits-for-ever"),
    Cell("port in use", PLAIN, "port_in_use",
         "a prefill server whose registry's port is taken does not start, and says the address",
         "port-ignored"),
    Cell("page size differs", "decode-page-16", "page_size_differs",
         "decode with pages of 16 tokens is refused with both sizes, others are served on",
         "misfit-unnoticed"),
    Cell("dtype differs", "decode-bfloat16", "dtype_differs",
         "decode with pages of bfloat16 is refused with both dtypes, others are served on",
         "misfit-unnoticed"),
    Cell("model differs", "decode-narrow", "model_differs",
         "decode with a model of 2 KV heads is refused with both numbers, others are served on",
         "misfit-unnoticed"),
    Cell("layers differ", "decode-deep", "layers_differ",
         "decode with a model of 6 layers is refused with the layer, others are served on",
         "misfit-unnoticed"),
    Cell("memory short", "short", "memory_short",
         "150 requests at once, and memory for two: those that wait for it are timed by nobody",
         "queue-timed"),
    Cell("chunked prefill", "chunked", "equality",
         "prompts are prefilled, and sent, 64 tokens at a time", "chunk-repeated"),
    Cell("page size 64", "paged", "equality", "pages of 64 tokens", "wrong-page"),
    Cell("radix cache on decode", "radix", "equality",
         "decode keeps prefixes, which prefill does not send", "prefix-forgotten"),
    Cell("optimistic prefill", "optimistic", "equality",
         "prefill begins before decode has memory; 4 of 10 requests are made to try again",
         "wrong-page"),
    Cell("PP 2 -> 1", "pp-2-1", "equality_short", "two pipeline stages into one",
         "layers-from-zero"),
    Cell("TP 2 -> 1", "tp-2-1", "equality_short", "two tensor-parallel ranks into one",
         "heads-swapped"),
    Cell("TP 1 -> 2", "tp-1-2", "equality_short", "one rank into two", "heads-swapped"),
    Cell("DP attention", "dp", "ranks_by_name",
         "two ranks on each side, named by disagg_prefill_dp_rank", "first-rank-only"),
    Cell("latent attention", "latent", "equality", "a DeepSeek V2: MLA", "wrong-page"),
    Cell("sliding window", "window", "equality",
         "every second layer has a pool of its own for the last 32 tokens", "window-left-out"),
    Cell("Mooncake", "mooncake", "equality", "SGLang's own backend, the control", "wrong-page"),
)
