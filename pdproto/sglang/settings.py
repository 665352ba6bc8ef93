"""The effect of SGLang's own settings of disaggregation under this backend.

Every setting of SGLang 0.5.23 that is about the hand-over is in one of the tables below. It works,
or it has no effect and a line at start-up says why, or it is refused at start-up. `python -m
pdproto.sglang.settings` prints the tables as docs/sglang-settings.md. tests/sglang/test_settings.py
compares them with SGLang's own lists.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pdproto.transport.settings import Settings

NOT_OURS: Final = "it belongs to another backend of SGLang"
UNTESTED: Final = "untested"
DRILL: Final = "tests/sglang/test_drill.py"
HOST: Final = "tests/sglang/test_host_receive.py"
WORK: Final = "tests/sglang/test_settings_work.py"
CHUNKED: Final = "cell *chunked prefill*"
CELLS: Final = "every cell of docs/servers.md"
LISTS: Final = "tests/sglang/test_settings.py"
ELSEWHERE: Final = ("it is not about the KV hand-over: none of SGLang's code that calls a backend "
                    "reads it")


class Effect(Enum):
    """The effect of a setting under this backend."""

    WORKS = "works"
    NONE = "no effect, and a line at start-up says so"
    REFUSED = "refused at start-up"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of SGLang.

    default: SGLang's own. about: what it does, or why it has no effect or is refused. test: of one
    that works, the test that shows it, or UNTESTED. ours: the setting of pdproto that it sets, or
    that has its place; "" if there is none.
    """

    name: str
    default: object
    effect: Effect
    about: str
    test: str = ""
    ours: str = ""


def _of(
    effect: Effect, *rows: tuple[str, object, str] | tuple[str, object, str, str]
    | tuple[str, object, str, str, str],
) -> tuple[Setting, ...]:
    return tuple(Setting(name, default, effect, *rest) for name, default, *rest in rows)


BOOTSTRAP: Final = "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT"
WAITING: Final = "SGLANG_DISAGGREGATION_WAITING_TIMEOUT"
INTERVAL: Final = "SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL"
FAILURES: Final = "SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE"
CLEANUP: Final = "SGLANG_DISAGGREGATION_BOOTSTRAP_ENTRY_CLEANUP_INTERVAL"
SAMPLING_MASK: Final = "SGLANG_ENABLE_DISAGG_SAMPLING_MASK"
MASK_MAX: Final = "SGLANG_DISAGGREGATION_SAMPLING_MASK_MAX_TOKENS"
POLLING: Final = "SGLANG_ENABLE_DISAGG_PREFILL_CONTINUOUS_INPUT_POLLING"
HOST_RECEIVE: Final = "disaggregation_decode_host_receive_threshold"
FORCE_QUERY: Final = "SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK"

ENVIRONMENT: Final = (
    *_of(
        Effect.WORKS,
        (BOOTSTRAP, 300, "seconds that each side waits for the other",
         "cell *never met*", "`waits.bootstrap_timeout`"),
        (WAITING, 300, "seconds that each side waits for bytes",
         "tests/sglang/test_waiting.py", "`waits.transfer_timeout`"),
        (INTERVAL, 5.0, "times the failures: seconds of silence for which requests wait (at least "
                        "2 s; 60 s where neither is set)",
         "tests/sglang/test_heartbeat.py", "`absent_s`"),
        (FAILURES, 2, "see the interval", "tests/sglang/test_heartbeat.py", "`absent_s`"),
        (CLEANUP, 120, "the registry keeps a room without an end for twice as long", WORK),
        (FORCE_QUERY, False, "on prefill. Decode has no setting of its own: it asks where the "
                             "registry says that rooms are published", DRILL),
        ("SGLANG_TEST_DISAGG_FAILURE_PROB", 0.0,
         "a failure that only SGLang sees ends the hand-over; its pages are kept till then", DRILL),
        ("SGLANG_TEST_FORCE_OPTIMISTIC_PREFILL_RETRY_PROB", 0.0, "SGLang's scheduler retries",
         "cell *optimistic prefill*"),
        (SAMPLING_MASK, False, "it is part of the metadata row", WORK),
        (MASK_MAX, None, "SGLang itself refuses it", WORK),
        ("SGLANG_TEST_DISAGG_KV_CHECKSUM_MISMATCH_PROB", 0.0, "SGLang's scheduler does it",
         UNTESTED),
        ("SGLANG_DISAGG_PREFILL_EARLY_SEND_CACHED_PREFIX", True, "one chunk more",
         "tests/sglang/test_devices.py"),
        (POLLING, False, "SGLang's scheduler polls", CHUNKED),
    ),
    *_of(
        Effect.NONE,
        ("SGLANG_DISAGGREGATION_THREAD_POOL_SIZE", None, "one thread packs, and the engine moves"),
        ("SGLANG_DISAGGREGATION_QUEUE_SIZE", 4, "hand-overs share one queue, in turn"),
        ("SGLANG_DISAGGREGATION_ZMQ_SEND_TIMEOUT", 1,
         "no send waits: a lost message is repeated"),
        ("SGLANG_DISAGGREGATION_ZMQ_MAX_SOCKETS", 16384, "a node knows up to 4,096 peers"),
        ("SGLANG_DISAGGREGATION_ENGINE_INIT_TIMEOUT", 60, NOT_OURS),
        ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "UCX", NOT_OURS),
        ("SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS", "{}", NOT_OURS),
        ("SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE_TIMEOUT", 30.0,
         "no timer frees pages that a source may still write to"),
        ("SGLANG_DISAGG_STAGING_POOL_SIZE_MB", 4096, "there is no staging buffer"),
        ("SGLANG_STAGING_USE_TORCH", False, "there is no staging buffer"),
        ("SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES", 0, NOT_OURS),
        ("SGLANG_MOONCAKE_SEND_AUX_TCP", False, NOT_OURS),
        ("ENABLE_ASCEND_TRANSFER_WITH_MOONCAKE", False, NOT_OURS),
        ("SGLANG_ENABLE_FAILED_SESSION_PROBE", True, NOT_OURS),
        ("SGLANG_FAILED_SESSION_PROBE_INTERVAL_S", 30.0, NOT_OURS),
        ("SGLANG_FAILED_SESSION_PROBE_MAX_INTERVAL_S", 300.0, NOT_OURS),
        ("SGLANG_FAILED_SESSION_IDLE_TIMEOUT_S", 600.0, NOT_OURS),
    ),
    *_of(
        Effect.REFUSED,
        ("SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER", False,
         "context-parallel ranks that have shares of the KV cache are not supported yet"),
        ("SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE", True,
         "SGLang would use the pages of a failed request again while a source may still write"),
        ("SGLANG_MOONCAKE_CUSTOM_MEM_POOL", None,
         "it may put the rows of metadata on the GPU, and the backend reads them in host memory"),
        ("SGLANG_DISAGG_STAGING_BUFFER", False,
         "SGLang itself takes it with Mooncake and NIXL alone; the backend takes heads apart by "
         "itself"),
    ),
)

FLAGS: Final = (
    *_of(
        Effect.WORKS,
        ("disaggregation_mode", "null", "prefill or decode", CELLS),
        ("disaggregation_transfer_backend", "mooncake", "pdproto", CELLS),
        ("disaggregation_bootstrap_port", 8998, "of the registry", CELLS),
        ("disaggregation_decode_enable_radix_cache", False,
         "pages that decode has cached are not sent", "cell *radix cache on decode*"),
        ("disaggregation_decode_enable_offload_kvcache", False,
         "SGLang's scheduler does it, with host memory that it registers with CUDA", UNTESTED),
        ("disaggregation_decode_retraction_backup", None, "SGLang's scheduler does it", CELLS),
        ("disaggregation_decode_extra_slots", None, "SGLang's scheduler does it", CHUNKED),
        ("disaggregation_decode_polling_interval", 1, "SGLang's scheduler does it", CHUNKED),
        ("disaggregation_enable_kv_checksum", False, "SGLang compares its own checksum, which "
         "goes over with the metadata row, beside the digests of every hand-over", WORK),
        ("enable_pd_role_switch", False, "SGLang ends the manager of one role, and makes one of "
         "the other", DRILL),
        (HOST_RECEIVE, 1.0, "pages land in SGLang's host pool when that of decode is so full. It "
         "registers host memory with CUDA, so no server has run it", HOST),
        ("num_reserved_decode_tokens", 512, "SGLang's scheduler does it", CHUNKED),
        ("optimistic_prefill_attempts", 0, "SGLang's scheduler does it",
         "cell *optimistic prefill*"),
        *((name, False, "SGLang itself refuses it beside `--disaggregation-mode`", WORK)
          for name in ("encoder_only", "language_model_only", "enable_pdmux")),
        *((name, default, ELSEWHERE, LISTS) for name, default in (
            ("decoupled_spec_bind_endpoint", None), ("decoupled_spec_connect_endpoints", None),
            ("decoupled_spec_rank", None), ("decoupled_spec_role", "null"),
            ("language_only", False), ("encoder_transfer_backend", "auto"), ("encoder_urls", []),
            ("encoder_bootstrap_port", 8997), ("encoder_register_urls", []),
            ("enable_adaptive_dispatch_to_encoder", False),
            ("pdmux_config_path", None), ("sm_group_num", 8))),
    ),
    *_of(
        Effect.NONE,
        ("disaggregation_ib_device", None, "PDPROTO_ENGINE names the engine that moves the bytes",
         "", "`engine`"),
    ),
    *_of(
        Effect.REFUSED,
        ("disaggregation_decode_allocation_policy", "early",
         "SGLang itself takes prefill_complete with Mooncake alone"),
    ),
)


def flag(name: str) -> str:
    """The name of a flag on the command line."""
    return "--" + name.replace("_", "-")


Read = Callable[[str], Any]


def unusual(settings: Iterable[Setting], effect: Effect, read: Read) -> list[tuple[Setting, Any]]:
    """The settings with this effect that are not at SGLang's default, each with its value."""
    read_of = [(setting, _value(setting, read)) for setting in settings if setting.effect is effect]
    return [(setting, value) for setting, value in read_of if value != setting.default]


def _value(setting: Setting, read: Read) -> Any:
    """What SGLang says, or its default: a setting that another release lacks is not set."""
    try:
        return read(setting.name)
    except AttributeError:
        return setting.default


def refusal(environment: Read, flags: Read) -> str | None:
    """The setting that prevents the backend's start, with the reason; None if there is none."""
    for name, (setting, value) in _named(Effect.REFUSED, environment, flags):
        return f"the pdproto backend does not start with {name}={value}: {setting.about}"
    return None


def without_effect(environment: Read, flags: Read) -> str | None:
    """One line that lists the settings that are set without effect; None if there is none."""
    said = [f"{name}={value} ({setting.about})"
            for name, (setting, value) in _named(Effect.NONE, environment, flags)]
    return f"the pdproto backend ignores {', '.join(said)}" if said else None


def _named(
    effect: Effect, environment: Read, flags: Read
) -> list[tuple[str, tuple[Setting, Any]]]:
    found = [(one[0].name, one) for one in unusual(ENVIRONMENT, effect, environment)]
    return found + [(flag(one[0].name), one) for one in unusual(FLAGS, effect, flags)]


def waits(environment: Read) -> Mapping[str, float]:
    """Seconds by name of timer (spec/handoff/timers.py)."""
    return {"bootstrap_timeout": float(environment(BOOTSTRAP)),
            "transfer_timeout": float(environment(WAITING))}


def absent_s(environment: Read, is_set: Callable[[str], bool], default: float) -> float:
    """Seconds of silence for which requests wait. SGLang has the same lower bounds."""
    if not (is_set(INTERVAL) or is_set(FAILURES)):
        return default
    return float(max(environment(INTERVAL), 2.0) * max(environment(FAILURES), 1))


def defaults(environment: Read, is_set: Callable[[str], bool], host: str) -> Mapping[str, Any]:
    """The values of our settings (transport/settings.py) that follow from SGLang's settings.

    host: SGLang's own address.
    """
    return {"host": host, "absent_s": absent_s(environment, is_set, Settings().absent_s),
            **{f"waits.{name}": seconds for name, seconds in waits(environment).items()}}


def page() -> str:
    """The text of docs/sglang-settings.md."""
    parts = ["# SGLang's settings under the pdproto backend", "",
             "Generated by `python -m pdproto.sglang.settings`; change pdproto/sglang/settings.py, "
             "not this file.", "",
             "Every setting of SGLang 0.5.23 that is about the hand-over. *Ours* is the "
             "[setting of pdproto](reference/settings.md) that it sets, or that has its place: "
             "where SGLang's is not set, SGLang's default counts, except for the silence. "
             "*Untested* means that no test of ours sets it. Settings of the backend itself: "
             "`PDPROTO_ENGINE` (which engine moves the bytes: tcp, shm, mooncake, nixl; "
             "default: tcp) and `PDPROTO_DIRECT` (0: always through staging memory; default: 1)."]
    for title, settings, written in (("Environment", ENVIRONMENT, str), ("Flags", FLAGS, flag)):
        parts += ["", f"## {title}", "", *_table(settings, written)]
    return "\n".join(parts) + "\n"


def _table(settings: Sequence[Setting], written: Callable[[str], str]) -> list[str]:
    rows = [f"| `{written(s.name)}` | {s.default} | {s.ours} | {s.effect.value} | {s.about} "
            f"| {s.test} |" for s in settings]
    return ["| SGLang's setting | default | ours | under pdproto | how, or why | shown by |",
            "|---|---|---|---|---|---|", *rows]


if __name__ == "__main__":
    sys.stdout.write(page())
