"""Logs for machines: each line is a JSON object, with the fields of the hand-over it is about.

    {"time": "2026-01-31T03:00:00.123Z", "level": "warning", "logger": "pdproto.node",
     "message": "node d0: ...", "rank": "d0", "peer": "p0", "room": 7}

A line that cannot be written, as on a full disk, is counted (`lost_lines`), and delays nobody.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, TextIO

from pdproto.runtime import checked

FIELDS: Final = ("rank", "peer", "room", "incarnation", "generation")  # node/handle.py


class JsonFormatter(logging.Formatter):
    """See above. The field `exception` has the traceback, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for this record, without its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"), "level": record.levelname.lower(),
            "logger": record.name, "message": record.getMessage(),
        }
        line.update({name: value for name in FIELDS
                     if (value := getattr(record, name, None)) is not None})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class CountingHandler(logging.StreamHandler[TextIO]):
    """lost: lines of this process that could not be written."""

    lost: ClassVar[int] = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's name
        """Count it, and do not write about it: that would go to the same disk."""
        CountingHandler.lost += 1


def lost_lines() -> int:
    """Log lines of this process that could not be written since it began."""
    return CountingHandler.lost


def log_as_json(stream: TextIO, level: int = logging.INFO) -> None:
    """Write all log lines of pdproto in this process to the stream, and nowhere else.

    level: lines below it are dropped.
    """
    least = checked.whole("level", level)
    if not callable(getattr(stream, "write", None)):
        raise TypeError(f"stream {checked.shown(stream)}: want a stream of text")
    handler = CountingHandler(stream)
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger("pdproto")
    ours.handlers[:] = [handler]
    ours.setLevel(least)
    ours.propagate = False
