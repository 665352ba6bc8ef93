"""The turns of a node's thread with Python's interpreter, in the process of a serving engine.

The scheduler of an engine is busy with Python all the time. Python lets a thread that wants the
interpreter wait for `sys.getswitchinterval`, 5 ms by default, and a hand-over needs it several
times, once for each message. docs/how-to/sglang.md says what 0.5 ms change: where other programs
keep the cores busy, the requests/s and the time to the first token; on idle cores little.
"""

import sys

from pdproto.transport.settings import Settings


def share_interpreter(settings: Settings) -> None:
    """Have this process switch threads at least as often as the setting `switch_s` says."""
    sys.setswitchinterval(min(sys.getswitchinterval(), settings.switch_s))
