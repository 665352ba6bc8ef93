"""Seals of offers: decode calls no address that did not come from a prefill server of its cluster.

An offer passes through the HTTP ports of both engines, where anybody may have written it. A prefill
server with the secret of the cluster seals its offers (HMAC-SHA-256), and decode refuses others.
An introduction (early.py) also says where ranks listen, and is sealed as an offer is.

Rule 1: with the shared secret, an offer without its seal is refused.
Rule 2: without keys, an offer that names an address beyond this host is refused, unless the
        operator trusts every process of the network (`insecure`).
Rule 3: an offer of ranks that listen on the loopback interface of another host is refused: decode
        would call its own.
Rule 4: the keys of members have no common secret, so offers are not sealed. The connection itself
        proves then that the called member has the name of the offer.
"""

import hmac
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from pdproto.net.hosts import is_loopback, loopback
from pdproto.node.link import host_of
from pdproto.transport.settings import Settings
from pdproto.vllm.early import Introduction
from pdproto.vllm.offer import Offer

Sealed = TypeVar("Sealed", Offer, Introduction)

SEAL_CHARACTERS: Final = 64

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class Seals:
    """The seals of a server with these settings."""

    def __init__(self, settings: Settings) -> None:
        keys = settings.load_keys()
        self._key: Final = b"" if keys is None else keys.sealing
        self._loopback: Final = loopback()
        self._needs_loopback: Final = keys is None and not settings.insecure

    def sealed(self, offer: Sealed) -> Sealed:
        """The offer with its loopback interface, if its ranks listen there, and with its seal, if
        this server has the secret of the cluster.
        """
        if any(is_loopback(host_of(endpoint) or "") for *_, endpoint in offer.ranks):
            offer = msgspec.structs.replace(offer, loopback=self._loopback)
        return msgspec.structs.replace(offer, seal=self._of(offer)) if self._key else offer

    def doubt(self, offer: Offer | Introduction) -> str | None:
        """Why the addresses of this offer are not called; None if they are."""
        if self._key and not hmac.compare_digest(offer.seal, self._of(offer)):
            return ("kv_transfer_params have no seal of this cluster: want those that prefill has "
                    "answered, unchanged, and the same secret (PDPROTO_KEYS) at both ends")
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

    def _of(self, offer: Offer | Introduction) -> str:
        unsealed = msgspec.structs.replace(offer, seal="")
        return hmac.new(self._key, _encode(unsealed), sha256).hexdigest()
