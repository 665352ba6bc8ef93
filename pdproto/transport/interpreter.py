"""The turns of a node's thread with Python's interpreter, in the process of a serving engine.

The scheduler of an engine is busy with Python all the time. Python lets a thread that wants the
interpreter wait for `sys.getswitchinterval`, 5 ms by default, and a hand-over needs it several
times, once for each message. With 0.5 ms a server that shares its cores with other programs answers
sooner; on idle cores the difference is small (docs/how-to/sglang.md has the figures).
"""

import sys

from pdproto.transport.settings import Settings


def share_interpreter(settings: Settings) -> None:
    """Have this process switch threads at least as often as the setting `switch_s` says."""
    sys.setswitchinterval(min(sys.getswitchinterval(), settings.switch_s))
