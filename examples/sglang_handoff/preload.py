"""The imports of every rank, done once: the server that ranks are forked from begins with them."""

from examples.sglang_handoff import without_torchvision

without_torchvision.install()

import examples.sglang_handoff.ranks  # noqa: E402, F401 - needs what is installed above
