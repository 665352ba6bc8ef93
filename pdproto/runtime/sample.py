"""Random decisions that are the same on all ranks: they depend on the id of the request alone."""

from hashlib import sha256

from pdproto.spec.handoff.functions import forces_retry


def retry_is_forced(request: str, probability: float) -> bool:
    """Whether to run the request's first pass again although that is not necessary.

    request: the id of the request. probability: from 0 to 1.
    """
    return forces_retry(sha256(request.encode("utf-8", "surrogatepass")).digest(), probability)
