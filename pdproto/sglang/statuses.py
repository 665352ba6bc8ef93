"""The status with which a client hears that its request has failed under SGLang.

SGLang takes the reason from KVTransferError, and answers 500 whatever it was. A hook has it answer
503 where the whole request, sent again, may succeed. It has no field for Retry-After: neither
FINISH_ABORT nor its HTTPException has headers (0.5.23).

SGLang calls `prepare_abort` in the same thread, right after `failure_exception`.
"""

from http import HTTPStatus
from typing import Any

from sglang.srt.disaggregation.common.conn import KVTransferError


class Transient:
    """The room of the last failure, if sending its request again may succeed."""

    room: int | None = None


def failed(
    room: int, reason: str, *, transient: bool, is_from_another_rank: bool = False
) -> KVTransferError:
    """The error to raise in `failure_exception`. transient: see Handle."""
    Transient.room = room if transient else None
    return KVTransferError(room, reason, is_from_another_rank=is_from_another_rank)


def status(request: Any, message: str, status_code: Any = None) -> Any:
    """Before SGLang's `prepare_abort`: the arguments to call it with; None for those given."""
    room, Transient.room = Transient.room, None
    if status_code is HTTPStatus.INTERNAL_SERVER_ERROR and room == request.bootstrap_room:
        return (request, message), {"status_code": HTTPStatus.SERVICE_UNAVAILABLE}
    return None
