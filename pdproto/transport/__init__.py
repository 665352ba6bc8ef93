"""The event loop of a node, with its thread, sockets and clock; and the ports for operators."""

from pdproto.runtime.extras import require_runtime

require_runtime()
