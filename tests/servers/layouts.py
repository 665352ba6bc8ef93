"""How the servers of the cells are started."""

from collections.abc import Mapping
from typing import Final

from tests.servers.stage import Layout
from tests.servers.standstill import IN_FLIGHT

TWO_RANKS: Final = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
TP_2: Final = ("--tp", "2")
# The last flag: otherwise SGLang calls an operator that torch has not on a processor.
DP_2: Final = (*TP_2, "--dp", "2", "--enable-dp-attention", "--enable-dp-lm-head")

# SGLang's own time-outs, in seconds. With the first a prompt whose decode server has gone before it
# said anything does not wait for five minutes; the second would hide that nobody notices a death.
PATIENCE_S: Final = 8
BOOTSTRAP: Final = {"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": str(PATIENCE_S)}
PATIENCE: Final = {**BOOTSTRAP, "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": str(PATIENCE_S)}

SHORT_S: Final = 3
SHORT_TOKENS: Final = 1024  # of the server whose memory is short
CHUNK_TOKENS: Final = 16  # the smallest chunks of a prompt

LAYOUTS: Final[Mapping[str, Layout]] = {
    "plain": Layout(warm=IN_FLIGHT),
    "kill": Layout(env=BOOTSTRAP),
    "members": Layout(env=BOOTSTRAP, members=True),
    "impatient": Layout(env=PATIENCE),
    # SGLang's own time-out of five minutes: both halves hear of a misfit long before.
    "decode-page-16": Layout(decode=("--page-size", "16")),
    "decode-bfloat16": Layout(decode=("--dtype", "bfloat16")),
    "decode-narrow": Layout(decode_model="llama-narrow"),
    "decode-deep": Layout(decode_model="llama-deep"),
    "decode-pp-2": Layout(decode=("--pp-size", "2"), env=TWO_RANKS),
    # Decode has memory for two or three prompts.
    "short": Layout(env={"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": str(SHORT_S)},
                    decode=("--max-total-tokens", str(SHORT_TOKENS))),
    "prefill-short": Layout(prefill=("--max-total-tokens", str(SHORT_TOKENS))),
    # Also settings that only SGLang's scheduler reads.
    "chunked": Layout(prefill=("--chunked-prefill-size", "64"), evidence="#new-token: 64,",
                      decode=("--num-reserved-decode-tokens", "64",
                              "--disaggregation-decode-polling-interval", "2",
                              "--disaggregation-decode-extra-slots", "4"),
                      env={"SGLANG_ENABLE_DISAGG_PREFILL_CONTINUOUS_INPUT_POLLING": "1"}),
    "tiny-chunks": Layout(prefill=("--chunked-prefill-size", str(CHUNK_TOKENS)),
                          evidence=f"#new-token: {CHUNK_TOKENS},"),
    "paged": Layout(both=("--page-size", "64")),
    "two-sizes": Layout(prefill=("--page-size", "64"), env={"PDPROTO_PAGE_TOKENS": "16"},
                        decode=("--page-size", "16", "--disaggregation-decode-enable-radix-cache")),
    "radix": Layout(both=("--page-size", "16"),
                    decode=("--disaggregation-decode-enable-radix-cache",)),
    # Without the cache a second attempt computes all pages again, and gets others.
    "optimistic": Layout(prefill=("--optimistic-prefill-attempts", "2", "--disable-radix-cache"),
                         env={"SGLANG_TEST_FORCE_OPTIMISTIC_PREFILL_RETRY_PROB": "0.4"},
                         evidence="optimistic prefill yielded"),
    "pp-2-1": Layout(prefill=("--pp-size", "2"), env=TWO_RANKS),
    "tp-2-1": Layout(prefill=TP_2, env=TWO_RANKS),
    "tp-1-2": Layout(decode=TP_2, env=TWO_RANKS),
    "dp": Layout(model="latent", env=TWO_RANKS, both=DP_2),
    "dp-fleet": Layout(model="latent", env={**TWO_RANKS, **BOOTSTRAP}, both=DP_2, each=2),
    "fleet": Layout(each=2, env=BOOTSTRAP),
    "fleet-short": Layout(each=2, env=BOOTSTRAP,
                          decode=("--max-total-tokens", str(2 * SHORT_TOKENS))),
    "latent": Layout(model="latent"),
    "window": Layout(model="window", evidence="hybrid_swa=True"),
    "mooncake": Layout(backend="mooncake"),
}
