"""The open files of a process, which bound the connections of its ports."""

import resource

from pdproto.runtime.limits import PORT_CONNECTIONS_MAX


def connections_max() -> int:
    """How many connections a port may have open: half of the files that the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = PORT_CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft // 2
    return max(1, min(PORT_CONNECTIONS_MAX, half))
