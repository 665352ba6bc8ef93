"""Which families of models are handed over under which engine, and the test of each answer.

docs/reference/models.md is written from it. Tests hold it against the engines' own lists of kinds
(tests/vllm/test_families.py, tests/sglang/test_families.py), and against the tests and cells that
it names (tests/docs/test_families.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Answer(Enum):
    """Of a family under an engine."""

    EQUAL = "equal"
    BY_SCHEDULER = "by scheduler only"
    REFUSED = "refused"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Family:
    """models: for readers. kinds: the engine's names of its KV caches and states. shown: cells of
    real servers for EQUAL, and otherwise tests. why: a remark, or the reason of a refusal.
    """

    models: str
    kinds: tuple[str, ...]
    answer: Answer
    shown: tuple[str, ...] = ()
    why: str = ""


_SCHEDULER: Final = "tests/vllm/test_scheduler.py::"
_LATENT: Final = "tests/vllm/test_latent.py::"
_ALIGNED: Final = "tests/vllm/test_aligned.py::"
_STATES: Final = "tests/vllm/test_states.py::"
_OTHER: Final = (f"{_SCHEDULER}test_other_kinds_of_attention_are_served",)
_REFUSED: Final = ("tests/vllm/test_families.py::"
                   "test_each_kind_of_vllm_has_a_family_with_the_answer_of_the_connector",)
_DRILL: Final = ("tests/sglang/test_drill.py::test_every_byte_and_every_row_of_metadata_is_right",)

VLLM: Final = (
    Family("full attention (Llama, Qwen3)", ("FullAttentionSpec",), Answer.EQUAL,
           ("equality", "TP 2 -> 1", "TP 1 -> 2", "TP 2 -> 2")),
    Family("windows, alone or beside full attention (Gemma 3, Mistral)", ("SlidingWindowSpec",),
           Answer.BY_SCHEDULER, (f"{_SCHEDULER}test_windows_and_full_attention_are_served",)),
    Family("latent attention (DeepSeek V2, V3)", ("MLAAttentionSpec",), Answer.BY_SCHEDULER,
           (f"{_LATENT}test_requests_are_served_whatever_the_number_of_ranks",)),
    Family("Mamba or linear attention beside full attention, without prefix caching",
           ("MambaSpec",), Answer.EQUAL, ("Mamba",), "`--no-enable-prefix-caching`"),
    Family("the same with prefix caching, vLLM's default (Granite 4, Qwen3-Next)",
           ("MambaSpec", "UniformTypeKVCacheSpecs"), Answer.BY_SCHEDULER,
           (f"{_ALIGNED}test_requests_are_served",
            f"{_ALIGNED}test_what_either_end_has_of_a_prompt_is_right_for_the_next"),
           "on a CPU one server of vLLM 0.32 ends at its first prompts, also without a connector: "
           "`_mamba_chunk_scan_combined_fwd_cpu` returns no states between chunks (`IndexError: "
           "index 7 is out of bounds for dimension 0 with size 1`)"),
    Family("states beside latent attention (Kimi Linear)", ("MambaSpec", "MLAAttentionSpec"),
           Answer.BY_SCHEDULER, (f"{_LATENT}test_a_state_beside_latent_attention_is_served",)),
    Family("states between unequal tensor parallelism", ("MambaSpec",), Answer.REFUSED,
           (f"{_STATES}test_states_of_unequal_tensor_parallelism_are_refused_by_name",),
           "the parts of a state are not split between ranks yet"),
    Family("states with speculative decoding", ("MambaSpec",), Answer.BY_SCHEDULER,
           (f"{_STATES}test_drafts_behind_a_load_may_be_right_or_wrong",)),
    Family("chunked local attention (Llama 4)", ("ChunkedLocalAttentionSpec",),
           Answer.BY_SCHEDULER, _OTHER,
           "decode computes a prompt that ends with a chunk: prefill has freed the chunk then"),
    Family("latent attention with a window", ("SlidingWindowMLASpec",), Answer.BY_SCHEDULER,
           _OTHER),
    Family("the same with bounded replay (DeepSeek V4.1)", ("SlidingWindowMLASpec",),
           Answer.REFUSED, (f"{_SCHEDULER}test_a_window_that_vllm_replays_is_refused",),
           "vLLM computes a window of tokens again behind each load"),
    Family("static sinks (openPangu)", ("SinkFullAttentionSpec",), Answer.REFUSED,
           (*_REFUSED, f"{_SCHEDULER}test_vllm_itself_does_not_start_with_static_sinks"),
           "vLLM 0.32 and 0.33 end at start-up with it, with any connector or none"),
    Family("rings of keys that are compressed (DeepSeek V4.1, GLM-5-Next)",
           ("CircularBufferSpec", "KpoolTailSpec"), Answer.REFUSED, _REFUSED,
           "the ring's place depends on the number of tokens, and no test shows it"),
    Family("reference windows (R-SWA)", ("RSWASpec",), Answer.BY_SCHEDULER, _OTHER),
    Family("encoder and decoder (Whisper)", ("CrossAttentionSpec", "EncoderOnlyAttentionSpec"),
           Answer.REFUSED, _REFUSED, "blocks of the encoder's tokens have no place in the prompt"),
    Family("extracted hidden states, HiSparse",
           ("HiddenStateCacheSpec", "HiSparseHotSpec", "HiSparseResidentSpec"), Answer.REFUSED,
           _REFUSED, "vLLM gives them to connectors of their own"),
)

SGLANG: Final = (
    Family("full attention (Llama, Qwen3)", ("kv",), Answer.EQUAL,
           ("equality", "TP 2 -> 1", "TP 1 -> 2", "PP 2 -> 1")),
    Family("latent attention (DeepSeek V2, V3)", ("kv",), Answer.EQUAL, ("latent attention",)),
    Family("windows beside full attention (Gemma 3, gpt-oss)", ("swa",), Answer.EQUAL,
           ("sliding window",)),
    Family("Mamba or linear attention beside full attention", ("mamba",), Answer.BY_SCHEDULER,
           _DRILL),
    Family("sparse attention (DeepSeek V3.2)", ("dsa",), Answer.BY_SCHEDULER, _DRILL),
    Family("a draft model's KV cache", ("kv",), Answer.BY_SCHEDULER, _DRILL,
           "at equal tensor parallelism"),
    Family("sparse attention with a compressed tail", ("dsa_tail",), Answer.REFUSED,
           ("tests/sglang/test_pools.py::test_a_state_whose_indices_are_no_items_is_refused",),
           "its indices name parts of an item"),
    Family("other states, among them those of DeepSeek V4, MiniMax, Qwen4-Exp and scales of "
           "fp4 and fp8 by block",
           ("qsa_pending", "qsa_compressed", "minimax_index_k", "minimax_dense_kv", "swa_ring",
            "c128_state", "request_row", "block_scale", "block_scale_swa"), Answer.NOT_SHOWN,
           why="the servers start, and each state goes over item by item"),
)

HEAD: Final = """# Which models are handed over

{generated}
*Equal*: real servers answer as one server does, token by token. *By scheduler only*: the engine's
own scheduler (vLLM), or its managers, senders and receivers (SGLang), run without a model, and all
that the next token reads is compared. *Refused*: at start-up, or request by request, with the
reason. *Not shown*: no test says whether it is right. vLLM up to 0.33, SGLang up to 0.5.23: the
guides of [vLLM](../how-to/vllm.md) and [SGLang](../how-to/sglang.md) name the releases.
"""


def page(generated: str) -> str:
    """docs/reference/models.md."""
    return (HEAD.format(generated=generated) + _table("vLLM", VLLM, "../vllm-servers.md")
            + _table("SGLang", SGLANG, "../servers.md"))


def summary(families: Sequence[Family]) -> str:
    """For a guide: how many families have which answer."""
    counted = ((answer, sum(one.answer is answer for one in families)) for answer in Answer)
    return ", ".join(f"{count} {answer.value}" for answer, count in counted if count)


def _table(engine: str, families: Sequence[Family], cells: str) -> str:
    rows = "".join(f"| {one.models} | {', '.join(f'`{kind}`' for kind in one.kinds)} "
                   f"| {one.answer.value} | {_shown(one, cells)} | {one.why} |\n"
                   for one in families)
    return (f"\n## {engine}\n\n| family | {engine}'s kinds | answer | shown by | because |\n"
            f"|---|---|---|---|---|\n{rows}")


def _shown(family: Family, cells: str) -> str:
    if family.answer is Answer.EQUAL:
        return f"[cells]({cells}) {', '.join(family.shown)}"
    return "<br>".join(f"`{path}`" for path in family.shown)
