"""How often the log tells of what comes again and again, such as the malformed batches of a peer.

A line each would fill a disk as fast as messages come. The counters have all of them.
"""


def is_told(count: int) -> bool:
    """Whether to write a line now that it has happened so often: the 1st, 2nd, 4th, 8th time ..."""
    return count & (count - 1) == 0
