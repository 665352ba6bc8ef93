"""The registry of prefill ranks: its server, its clients, and the JSON between them."""

from pdproto.runtime.extras import require_runtime

require_runtime()
