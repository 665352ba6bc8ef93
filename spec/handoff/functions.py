"""What the protocol computes: each side does so by itself, and must come to the same result.

In the tables these are rigid relations and sizes, chosen once (routing.py: `modulo`, attempts.py:
`sampled`, the attempts that there are); at run time they are these functions, called by name.
"""


def data_parallel_rank(room: int, ranks: int) -> int:
    """The rank that a room belongs to, where the server follows the bootstrap room (M2.1).

    Raises ValueError for a room below 0, or where there are no ranks.
    """
    if room < 0 or ranks < 1:
        raise ValueError(f"room {room} of {ranks} ranks: want a room from 0 on, and a rank")
    return room % ranks


def forces_retry(digest: bytes, probability: float) -> bool:
    """Whether a test sees the request's first pass run again (M5.5).

    digest: SHA-256 of the request's id (pdproto/runtime/sample.py). Its first 8 bytes, big endian,
    are below probability * 2^64, as in SGLang: every rank finds the same, without a word to the
    others. Raises ValueError for a probability outside 0 to 1.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability {probability}: want 0 to 1")
    return int.from_bytes(digest[:8], "big") < probability * 2.0**64


def passes(retries: int) -> int:
    """How often a request may be run before its bootstrap, at most (M5.2). 0 retries: never.

    Raises ValueError for fewer than 0 retries.
    """
    if retries < 0:
        raise ValueError(f"{retries} retries: want 0 (off) or more")
    return retries + 1 if retries else 0


def page_count(tokens: int, page_size: int) -> int:
    """How many pages the KV of so many tokens takes; the last may be partly empty.

    page_size: tokens. Raises ValueError for fewer than 0 tokens, or pages of none.
    """
    if tokens < 0 or page_size < 1:
        raise ValueError(f"{tokens} tokens in pages of {page_size}: want 0 or more, and 1 or more")
    return -(-tokens // page_size)
