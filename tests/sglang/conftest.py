"""SGLang imports torchvision, which a machine without a GPU need not have."""

from examples.sglang_handoff import without_torchvision

without_torchvision.install()
