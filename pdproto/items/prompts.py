"""The name of a prompt: a digest of all that its KV depends on, the same at prefill and decode.

Digests of pages prove that the bytes of a hand-over have come over. They do not say of which prompt
they are (spec/handoff/binding_prompts.py).
"""

from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
import numpy as np

NAME_BYTES: Final = 16

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def name_of(tokens: Sequence[int], *others: Any) -> bytes:
    """A digest of 16 bytes over the tokens and the other values, in their order.

    tokens: numbers of 63 bits, of which the lower 32 count; fastest as array("q"). others: text,
    bytes, numbers, None, and lists and maps of them.
    """
    numbers = tokens if isinstance(tokens, array) else array("q", tokens)
    words = np.frombuffer(numbers, dtype=numbers.typecode).astype("<i4", copy=False)
    digest = sha256(words.data)
    digest.update(_encode((len(words), others)))
    return digest.digest()[:NAME_BYTES]
