"""The functions of the protocol: every rank computes them alone, and all get the same result.

The tables have rigid relations and sizes in their place, chosen once (routing.py: `modulo`,
attempts.py: `sampled`, the number of attempts). At run time these functions are called by name.
"""


def data_parallel_rank(room: int, ranks: int) -> int:
    """The rank that runs a room, where the server follows the bootstrap room (promise M2.1).

    Raises ValueError for a room below 0, or for fewer than 1 rank.
    """
    if room < 0 or ranks < 1:
        raise ValueError(f"room {room} of {ranks} ranks: want a room >= 0 and at least 1 rank")
    return room % ranks


def forces_retry(digest: bytes, probability: float) -> bool:
    """Whether a test forces the first pass of the request to run again (promise M5.5).

    digest: SHA-256 of the request's id (pdproto/runtime/sample.py). The answer is yes if its first
    8 bytes, big endian, are below probability * 2^64, as in SGLang. So every rank finds the same
    answer without a message to the others. Raises ValueError for a probability outside 0 to 1.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability {probability}: want 0 to 1")
    return int.from_bytes(digest[:8], "big") < probability * 2.0**64


def passes(retries: int) -> int:
    """The largest number of times that a request may run before its bootstrap (promise M5.2). With
    0 retries it never does.

    Raises ValueError for fewer than 0 retries.
    """
    if retries < 0:
        raise ValueError(f"retries {retries}: want 0 (off) or more")
    return retries + 1 if retries else 0


def page_count(tokens: int, page_size: int) -> int:
    """The number of pages for the KV of so many tokens; the last page may be partly empty.

    page_size: tokens. Raises ValueError for fewer than 0 tokens, or for pages of less than 1 token.
    """
    if tokens < 0 or page_size < 1:
        raise ValueError(f"{tokens} tokens in pages of {page_size}: want at least 0 tokens, and "
                         f"pages of at least 1")
    return -(-tokens // page_size)
