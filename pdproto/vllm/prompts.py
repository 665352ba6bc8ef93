"""What the KV cache of a request depends on, beside the model: the same at prefill and at decode.

Digests of pages prove that the bytes of a hand-over have come over. They do not say of which prompt
they are: a proxy may mix up two answers of prefill, or servers may have other adapters or chat
templates. So prefill says in its offer what it has computed, and decode compares.

vLLM's own hashes of blocks depend on a seed of each process, so what they hash is compared here.
Not compared: the weights of an adapter, and images where vLLM has not hashed them (with
`--mm-processor-cache-gb 0 --no-enable-prefix-caching` it only numbers them).
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final

import msgspec

Prompt = Mapping[str, str]

DIGEST_CHARACTERS: Final = 32
NAME_BYTES: Final = 16
NUMBERED: Final = re.compile(r"(^|:)renderer\d+-mm-\d+-")  # an image that vLLM has not hashed
IMAGES: Final = "images"
NONE: Final = "none"

_encode: Final = msgspec.msgpack.Encoder().encode


def prompt_of(request: Any, tokens: int | None = None) -> Prompt:
    """What the KV cache of vLLM's request depends on, as names and short values. tokens: of the
    first so many; None for all.
    """
    adapter, features = request.lora_request, request.mm_features
    ids, embeddings = request.prompt_token_ids, request.prompt_embeds
    if tokens is not None and tokens < request.num_prompt_tokens:
        ids, embeddings = ids and ids[:tokens], None if embeddings is None else embeddings[:tokens]
        features = [one for one in features if one.mm_position.offset < tokens]
    found = {
        "tokens": NONE if ids is None else _tokens(ids),
        "adapter": NONE if adapter is None else
                   f"{adapter.lora_name} of {PurePath(adapter.lora_path).name}",
        "cache salt": _digest(request.cache_salt.encode()) if request.cache_salt else NONE,
    }
    if embeddings is not None:
        found["embeddings"] = _digest(embeddings.contiguous().cpu().numpy())
    if not any(NUMBERED.search(one.identifier) for one in features):
        found[IMAGES] = _digest(_encode([
            (one.identifier, one.mm_position.offset, one.mm_position.length) for one in features]
        )) if features else NONE
    return found


def name_of(prompt: Prompt) -> bytes:
    """The name of a prompt, by which nodes compare it."""
    return sha256(_encode(sorted(prompt.items()))).digest()[:NAME_BYTES]


def other_prompt(there: Prompt, here: Prompt) -> str | None:
    """Why decode's prompt is not the one that prefill has computed; None if no reason is known."""
    told = [f"{name}: {there.get(name, NONE)} at prefill and {here.get(name, NONE)} at decode"
            for name in sorted(there.keys() | here.keys())
            if there.get(name) != here.get(name)
            and (name != IMAGES or (name in there and name in here))]
    if not told:
        return None
    return (f"prefill has computed another prompt ({'; '.join(told)}): want the same request, "
            f"adapter and chat template at both ends")


def _tokens(ids: Sequence[int]) -> str:
    """A digest of token ids. Of the ways from a list to bytes, an array is the fastest."""
    try:
        return _digest(array("I", ids))
    except OverflowError:  # a client may write any number
        return f"wide {_digest(_encode(ids))}"


def _digest(data: Any) -> str:
    return sha256(data).hexdigest()[:DIGEST_CHARACTERS]
