"""The fields of log lines about hand-overs (transport/json_logs.py)."""

from typing import Any

from pdproto.runtime.wire import Life


def log_fields(node: str, life: Life | None, room: int | None = None) -> dict[str, Any]:
    """The fields of a log line about a hand-over of this node."""
    if life is None:
        return {"rank": node, "room": room}
    return {"rank": node, "room": life.room, "incarnation": life.incarnation,
            "generation": life.generation}
