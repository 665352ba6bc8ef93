"""Decisions by chance that all ranks make alike: they sample by the id of the request."""

from hashlib import sha256

from pdproto.spec.handoff.functions import forces_retry


def retry_is_forced(request: str, probability: float) -> bool:
    """Whether the request's first pass is run again although it need not be. request: its id."""
    return forces_retry(sha256(request.encode("utf-8", "surrogatepass")).digest(), probability)
