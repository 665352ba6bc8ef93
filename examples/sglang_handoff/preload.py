"""The imports of every rank, done once: the server that ranks are forked from begins with them."""

from examples.sglang_handoff import without_torchvision

without_torchvision.install()

import pdproto.sglang.manager  # noqa: E402
import pdproto.sglang.receiver  # noqa: E402
import pdproto.sglang.sender  # noqa: E402
import pdproto.sglang.server  # noqa: E402, F401
