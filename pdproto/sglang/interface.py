"""The parts of SGLang's own code that the backend relies on."""

from typing import Final

from sglang.srt.arg_groups.choices import add_disagg_transfer_backend_choices
from sglang.srt.disaggregation import utils
from sglang.srt.disaggregation.base import conn
from sglang.srt.disaggregation.common.conn import KVTransferError, PrefillServerInfo
from sglang.srt.disaggregation.decode import DecodePreallocQueue, DecodeTransferQueue
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.entrypoints.openai.serving_base import OpenAIServingBase
from sglang.srt.managers.disagg_service import start_disagg_service
from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.tokenizer_manager import TokenizerManager
from sglang.srt.plugins.hook_registry import HookRegistry
from sglang.srt.runtime_context import get_disagg, get_parallel, get_serving, process_model_config
from sglang.srt.utils.network import NetworkAddress, get_local_ip_auto

from pdproto.net.releases import Interface, of_attributes, of_bases, of_calls, of_values

OF_REQUESTS: Final = ("bootstrap_host", "bootstrap_port", "bootstrap_room",
                      "disagg_prefill_dp_rank", "lora_id", "origin_input_ids_unpadded",
                      "output_ids", "rid")
OF_REFUSALS: Final = ("bootstrap_host", "bootstrap_port", "bootstrap_room",
                      "disagg_prefill_dp_rank", "input_text", "rid", "routed_dp_rank",
                      "sampling_params", "wrap_pickle_fields")


def found() -> Interface:
    """The interface of the SGLang that is installed."""
    return (of_bases(conn.BaseKVManager, conn.BaseKVSender, conn.BaseKVReceiver,
                     conn.BaseKVBootstrapServer)
            | of_calls(add_disagg_transfer_backend_choices, utils.get_kv_class,
                       utils.prepare_abort, PPConsensusStore.__init__, get_disagg,
                       get_local_ip_auto, get_parallel, get_serving, process_model_config,
                       start_disagg_service)
            | of_attributes(OpenAIServingBase, ("handle_request",))
            | of_attributes(Scheduler, ("handle_generate_request",))
            | of_attributes(TokenizerManager, ("_dispatch_to_scheduler", "generate_request",
                                               "_release_req_states_on_failure"))
            | of_attributes(TokenizedGenerateReqInput, OF_REFUSALS)
            | of_attributes(DecodePreallocQueue, ("_create_receiver_and_enqueue",
                                                  "_send_kv_metadata", "add"))
            | of_attributes(PrefillBootstrapQueue, ("add", "create_sender"))
            | of_attributes(HookRegistry, ("apply_hooks", "register"))
            | of_attributes(NetworkAddress, ("parse",))
            | of_values(conn.KVTransferDestination, conn.KVTransferMetric, conn.StateType,
                        PrefillServerInfo, utils.DisaggregationMode)
            | frozenset(f"KVArgs.{name}" for name in conn.KVArgs.__annotations__)
            | frozenset(f"KVPoll.{name}" for name in vars(conn.KVPoll) if name.isidentifier()
                        and not name.startswith("_"))
            | of_attributes(DecodeTransferQueue, ("deferred_kv_release_timeout",
                                                  "resolve_deferred_releases"))
            | of_attributes(Req, OF_REQUESTS) | of_attributes(KVTransferError, ("failure_reason",)))
