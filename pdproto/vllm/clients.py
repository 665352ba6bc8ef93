"""Tells the client of vLLM why its request could not be loaded.

Under `kv_load_failure_policy` "fail" vLLM answers "Internal server error" (500): a connector names
the requests that failed (KVConnectorTransferResults.failed_recving), and no reason. From 0.33 on an
output of the engine has a field `error` (RequestError). The front answers with its text, and with
503 where it says that the request may be sent again. vLLM's scheduler leaves it empty for loads, so
it is filled here. 0.31 and 0.32 have no such field, and none has one for Retry-After.
"""

from functools import wraps
from typing import Any, Final

from vllm import outputs
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, FinishReason

from pdproto.vllm.ahead import calls_of
from pdproto.vllm.loading import Failure

CODE: Final = "kv_load_failed"


def tell_clients() -> None:
    """Have vLLM's scheduler fill in the errors of loads. A second call does nothing."""
    step = Scheduler.update_from_output
    if "error" not in EngineCoreOutput.__struct_fields__ or hasattr(step, "__wrapped__"):
        return

    @wraps(step)
    def update_from_output(scheduler: Any, *given: Any, **named: Any) -> Any:
        told = step(scheduler, *given, **named)
        failures = _failures(scheduler.connector)
        for outputs_of_client in told.values() if failures else ():
            for output in outputs_of_client.outputs:
                if output.finish_reason is FinishReason.ERROR and output.error is None \
                        and output.request_id in failures:
                    output.error = _error(*failures[output.request_id])
        return told

    Scheduler.update_from_output = update_from_output


def _failures(connector: Any) -> dict[str, Failure]:
    found: dict[str, Failure] = {}
    for taken in calls_of(connector, "taken_failures"):
        found.update(taken())
    return found


def _error(reason: str, transient: bool) -> Any:
    return outputs.RequestError(CODE, f"the KV cache of the prompt was not loaded: {reason}",
                                retryable=transient)
