"""What the operator asked of SGLang, and what of it the backend does not start with."""

from typing import Any

from sglang.srt.disaggregation.common.conn import PrefillServerInfo
from sglang.srt.environ import envs
from sglang.srt.runtime_context import get_disagg

from pdproto.engine.contract import OnDevice, SinkEngine
from pdproto.sglang import settings
from pdproto.sglang.parts import RankParts
from pdproto.sglang.settings import HOST_RECEIVE
from pdproto.transport.settings import Settings


def environment(name: str) -> Any:
    """The value of a variable of SGLang, or its default."""
    return getattr(envs, name).get()


def is_set(name: str) -> bool:
    return bool(getattr(envs, name).is_set())


def flag(name: str) -> Any:
    return getattr(get_disagg(), name)


def refuse(args: Any, parallel: Any, *, is_prefill: bool) -> None:
    """Raise ValueError for the first setting or parallelism that the backend does not serve.

    args, parallel: SGLang's KVArgs and ParallelState.
    """
    told = settings.refusal(environment, flag)
    if told is not None:
        raise ValueError(told)
    shards = hasattr(PrefillServerInfo, "enable_kv_cache_sharding")  # not in 0.5.22
    splits_context = (parallel.enable_dsa_cache_layer_split
                      or (shards and parallel.enable_kv_cache_sharding)
                      or parallel.enable_cp_tp_group_sharing
                      or (parallel.attn_cp_size > 1 and args.is_hybrid_mla_backend))
    refused = {
        "a KV cache that context-parallel ranks share": splits_context,
        f"to decode ranks of a context parallelism ({parallel.attn_cp_size})":
            not is_prefill and parallel.attn_cp_size > 1,
        f"with decode context parallelism ({parallel.attn_dcp_size})": parallel.attn_dcp_size > 1,
    }
    for kind, is_asked in refused.items():
        if is_asked:
            raise ValueError(f"the pdproto backend does not transfer {kind} yet")


def refuse_kept_rooms(asked: Settings) -> None:
    """Raise ValueError for a setting that has prefill keep rooms for further decode requests.

    SGLang gives the pages of a request back in the step in which it answers prefill's half
    (SchedulerDisaggregationPrefillMixin.process_disagg_prefill_inflight_queue), and asks no backend
    whether somebody may still read them; decode alone has such a question. To keep a room would be
    to keep that answer from the router, for each request.
    """
    for name, value in (("waits.keep", asked.wait("keep")), ("keep_pages", asked.keep_pages)):
        if value:
            raise ValueError(
                f"the pdproto backend does not start with {name}={value:g}: SGLang gives the pages "
                f"of a request back when prefill has answered, so no room is kept: leave it at 0, "
                f"and have the router send the whole request again, in another room")


def refuse_host_receive(engine: SinkEngine, parts: RankParts) -> None:
    """Raise ValueError if no request can land in SGLang's host pool, though SGLang has made one."""
    why = ""
    if isinstance(engine, OnDevice):
        why = "the engine lands bytes on the GPU: set PDPROTO_ENGINE to one that does not"
    elif parts.each > 1:
        why = (f"SGLang names whole pages there, and page_tokens={parts.tokens} parts of them: "
               f"give both servers one --page-size")
    if why:
        raise ValueError(f"the pdproto backend does not start with {settings.flag(HOST_RECEIVE)}="
                         f"{flag(HOST_RECEIVE)}: {why}")
