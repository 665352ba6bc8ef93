"""Seals of offers: decode calls no address that did not come from a prefill server of its cluster.

An offer passes through the HTTP ports of both engines, where anybody may have written it. A prefill
server with keys seals its offers, and decode refuses others: with the secret of the cluster by
HMAC-SHA-256, with the keys of a member by a signature (transport/signatures.py). An introduction
(early.py) also says where ranks listen, and is sealed as an offer is.

Rule 1: with keys, an offer without a seal of the cluster is refused. So is one that a member has
        signed for a rank of another member.
Rule 2: without keys, an offer that names an address beyond this host is refused, unless the
        operator trusts every process of the network (`insecure`).
Rule 3: an offer of ranks that listen on the loopback interface of another host is refused: decode
        would call its own.

A seal takes some microseconds to check by a secret, and about 0.1 ms by a member's key. vLLM's
thread that reads requests does it, beside the scheduler's (ahead.py; tests/bench/bench_prompts.py).
"""

import hmac
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from pdproto.net.hosts import is_loopback, loopback
from pdproto.node.link import host_of, member_of
from pdproto.transport.settings import Settings
from pdproto.transport.signatures import Signer
from pdproto.vllm.early import Introduction
from pdproto.vllm.offer import Offer

Sealed = TypeVar("Sealed", Offer, Introduction)

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class Seals:
    """The seals of a server with these settings."""

    def __init__(self, settings: Settings) -> None:
        keys = settings.load_keys()
        self._key: Final = b"" if keys is None else keys.sealing
        self._signer: Final = None if keys is None or self._key else Signer(keys)
        self._loopback: Final = loopback()
        self._needs_loopback: Final = keys is None and not settings.insecure

    def sealed(self, offer: Sealed) -> Sealed:
        """The offer with its loopback interface, if its ranks listen there, and with its seal, if
        this server has keys.
        """
        if any(is_loopback(host_of(endpoint) or "") for *_, endpoint in offer.ranks):
            offer = msgspec.structs.replace(offer, loopback=self._loopback)
        data = _unsealed(offer)
        seal = self._hmac(data) if self._key else self._signer.sign(data) if self._signer else ""
        return msgspec.structs.replace(offer, seal=seal)

    def doubt(self, offer: Offer | Introduction) -> str | None:
        """Why the addresses of this offer are not called; None if they are."""
        sealer = self._sealer(offer)
        if sealer is None:
            return ("kv_transfer_params have no seal of this cluster: want those that prefill has "
                    "answered, unchanged, and keys of one cluster (PDPROTO_KEYS) at both ends")
        for _, _, name, _ in offer.ranks if sealer else ():
            if member_of(name) != sealer:
                return (f"kv_transfer_params name {name} of member {member_of(name)}, and member "
                        f"{sealer} has signed them: want those that prefill has answered, and the "
                        f"keys of one member on all hosts of a prefill server")
        if offer.loopback and self._loopback not in ("", offer.loopback):
            return ("prefill listens on the loopback interface of another host or container: set "
                    "PDPROTO_KEYS on both servers (`pdproto node keys` makes them)")
        if self._needs_loopback:
            for _, _, name, endpoint in offer.ranks:
                host = host_of(endpoint)
                if host is None or not is_loopback(host):
                    return (f"kv_transfer_params name {name} at {endpoint}, beyond this host, and "
                            f"there are no keys: set PDPROTO_KEYS on both servers, or "
                            f"PDPROTO_INSECURE=1 if every process of the network is trusted")
        return None

    def _sealer(self, offer: Offer | Introduction) -> str | None:
        """The member that has sealed the offer, "" where there are no members; None if it has no
        seal of this cluster.
        """
        data = _unsealed(offer)
        if self._signer is not None:
            return self._signer.signer(data, offer.seal)
        is_sealed = not self._key or hmac.compare_digest(
            offer.seal.encode(errors="replace"), self._hmac(data).encode())
        return "" if is_sealed else None

    def _hmac(self, data: bytes) -> str:
        return hmac.new(self._key, data, sha256).hexdigest()


def _unsealed(offer: Offer | Introduction) -> bytes:
    return _encode(msgspec.structs.replace(offer, seal=""))
