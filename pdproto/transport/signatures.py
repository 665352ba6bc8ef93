"""Signatures by the keys of members, for messages that a proxy passes on.

A member signs with the key of its certificate, and sends the certificate along. Each member of the
cluster can check both. Nobody else can sign: the secret that made the keys stays with the operator.
"""

from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from pdproto.transport.keys import Keys

SIGNATURE_BYTES: Final = 64  # of Ed25519
MEMBERS: Final = 256  # whose certificates need not be checked anew


class Signer:
    """Signs with the keys of a member, and checks the signatures of all members."""

    def __init__(self, keys: Keys) -> None:
        key = load_pem_private_key(keys.certificate, None)
        assert isinstance(key, Ed25519PrivateKey)  # noqa: S101 - keys.py makes no others
        self._key: Final = key
        own = x509.load_pem_x509_certificate(keys.certificate)
        self._certificate: Final = own.public_bytes(Encoding.DER)
        self._authority: Final = x509.load_pem_x509_certificate(keys.trusted)
        self._public: Final = lru_cache(MEMBERS)(self._public_key)

    def sign(self, data: bytes) -> str:
        """The signature of these bytes, with the certificate of the key, in base64."""
        return b64encode(self._key.sign(data) + self._certificate).decode()

    def signer(self, data: bytes, signature: str) -> str | None:
        """The member of this cluster that has signed these bytes; None if none has. Takes any text.
        """
        try:
            raw = b64decode(signature, validate=True)
            member, key = self._public(raw[SIGNATURE_BYTES:])
            key.verify(raw[:SIGNATURE_BYTES], data)
        except (ValueError, TypeError, InvalidSignature):
            return None
        return member

    def _public_key(self, certificate: bytes) -> tuple[str, Ed25519PublicKey]:
        """The member that a certificate names, and its key. Raises ValueError, TypeError or
        InvalidSignature for a certificate of another cluster, or for none.
        """
        found = x509.load_der_x509_certificate(certificate)
        found.verify_directly_issued_by(self._authority)
        key = found.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise TypeError("its key is not one of Ed25519")
        (named,) = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(named.value), key
