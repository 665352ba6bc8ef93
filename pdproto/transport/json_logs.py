"""Logs for machines: each line is a JSON object, with the fields of the hand-over it is about.

    {"time": "2026-01-31T03:00:00.123Z", "level": "warning", "logger": "pdproto.node",
     "message": "node d0: ...", "rank": "d0", "peer": "p0", "room": 7}
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final, TextIO

FIELDS: Final = ("rank", "peer", "room", "incarnation", "generation")  # see `Node.fields`


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


def log_as_json(stream: TextIO, level: int = logging.INFO) -> None:
    """Write all log lines of pdproto in this process to the stream, and nowhere else.

    level: lines below it are dropped.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger("pdproto")
    ours.handlers[:] = [handler]
    ours.setLevel(level)
    ours.propagate = False
