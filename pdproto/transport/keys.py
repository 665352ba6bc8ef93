"""Keys: the processes of a cluster recognize each other by them.

Form 1, a shared secret: one file for the whole cluster. Every process derives the same pair of
CURVE keys and the same certificate from it. So a process that has the secret may speak, and may
say that it is any rank.

Form 2, a file for each member, which is a server or a host: its own CURVE keys, its own
certificate, and the public keys of all members. Names are bound to keys: a node has the name of its
member, or one that begins with it and a slash.

Both ends of a connection prove that they have the key before the first message is read: by CURVE
between nodes, by mutual TLS at the registry.
"""

import logging
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from errno import ENOSPC
from pathlib import Path
from ssl import CERT_REQUIRED, PROTOCOL_TLS_CLIENT, PROTOCOL_TLS_SERVER, SSLContext, TLSVersion
from typing import Final

import msgspec
import zmq
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from zmq.utils import z85

from pdproto.node.link import Curve
from pdproto.runtime import checked

log = logging.getLogger("pdproto.transport")

SECRET_BYTES: Final = 32
WRITTEN: Final = re.compile(rf"[0-9a-f]{{{2 * SECRET_BYTES}}}")
FOR_OTHERS: Final = 0o077  # permissions of a file that only its owner needs
CLUSTER: Final = "pdproto cluster"  # the name in the certificate that signs the others
MEMBERS_MAX: Final = 4_096
MEMBER: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
AUTHORITY: Final = "authority.secret"  # in the folder of members: it stays with the operator
SUFFIX: Final = ".keys"  # of the file of a member
# A clock that jumps must not end a cluster: a new secret replaces a certificate.
BEGINS: Final = datetime(2000, 1, 1)
ENDS: Final = datetime(9999, 12, 31, 23, 59, 59)


class KeysError(ValueError):
    """Keys cannot be read. The message is one line that says how to correct it."""


@dataclass(frozen=True)
class Keys:
    """The keys of one process.

    curve: for the control connections of its nodes. certificate: its own, with its private key, for
    TLS; in PEM. trusted: the certificate that those of the peers must descend from, in PEM.
    sealing: a key for messages that a proxy passes on; empty for a member, who signs
    (signatures.py).
    """

    curve: Curve = field(repr=False)
    certificate: bytes = field(repr=False)
    trusted: bytes = field(repr=False)
    sealing: bytes = field(default=b"", repr=False)

    def server_tls(self) -> SSLContext:
        """For a server: each client must have a certificate of this cluster."""
        context = self._tls(SSLContext(PROTOCOL_TLS_SERVER))
        context.verify_mode = CERT_REQUIRED
        return context

    def client_tls(self) -> SSLContext:
        """For a client: the server must have a certificate of this cluster, at any address."""
        context = SSLContext(PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate names the cluster, and no host
        return self._tls(context)

    def _tls(self, context: SSLContext) -> SSLContext:
        context.minimum_version = TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self.trusted.decode())
        # ssl reads a private key only from a file: this one has no name, and no disk.
        file = os.memfd_create("pdproto-keys")
        try:
            os.write(file, self.certificate)
            context.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        return context


def new_secret() -> str:
    """A new secret of a cluster, as its file has it: 64 hexadecimal digits."""
    return secrets.token_hex(SECRET_BYTES)


def of_secret(text: str, source: str = "secret") -> Keys:
    """The keys of every process that has this secret.

    source: named in the error. Raises KeysError for a text that is no secret.
    """
    secret = _bytes_of(checked.one_of("text", text, str, "text"),
                       checked.text("source", source, checked.PATH_MAX))
    private = z85.encode(_derived(secret, b"curve"))
    public = zmq.curve_public(private)
    key = _tls_key(secret, b"tls")
    certificate = _signed(CLUSTER, key, key)
    return Keys(Curve(public, private, public), certificate + _written(key), certificate,
                _derived(secret, b"seals"))


def of_member(secret: str, member: str, members: Iterable[str]) -> Keys:
    """The keys of one member of a cluster. secret: of the cluster, which no member has itself.
    members: the names of all.

    Raises KeysError for a name that is none.
    """
    raw = _bytes_of(checked.one_of("secret", secret, str, "text"), "secret")
    every = _names(members)
    private = {name: z85.encode(_derived(raw, b"curve " + name.encode())) for name in every}
    if checked.text("member", member) not in private:
        raise KeysError(f"member {checked.shown(member)}: want one of the members")
    public = {name: zmq.curve_public(one) for name, one in private.items()}
    curve = Curve(public[member], private[member], member=member, members=public)
    authority, key = _tls_key(raw, b"tls"), _tls_key(raw, b"tls " + member.encode())
    certificate = _signed(member, key, authority) + _written(key)
    return Keys(curve, certificate, _signed(CLUSTER, authority, authority))


def read(path: str) -> Keys:
    """The keys in a file that `pdproto node keys` has written. Raises KeysError."""
    path = checked.path("path", path)
    try:
        text = Path(path).read_text(encoding="ascii")
        if Path(path).stat().st_mode & FOR_OTHERS:
            log.warning("%s: other users of this host may read it: chmod 600 %s", path, path)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if not text.startswith("{"):
        return of_secret(text, path)
    try:
        return msgspec.json.decode(text, type=Keys)
    except msgspec.MsgspecError as error:
        raise KeysError(f"{path}: not as `pdproto node keys` writes it: {error}") from None


def write_secret(path: str) -> None:
    """Write a new secret to a new file that only its owner can read. Raises OSError, also if the
    file is there already.
    """
    _write(Path(checked.path("path", path)), f"{new_secret()}\n".encode(), "xb")


def write_members(folder: str, members: Iterable[str]) -> list[str]:
    """Write a file of keys for each of these members, and for those whose files are there. Returns
    the paths.

    The secret from which all keys derive stays in the folder. The keys of a member never change;
    its file gets the names of new members. Raises OSError and KeysError.
    """
    members = _names(members)
    place = Path(checked.path("folder", folder))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = place / AUTHORITY
    if not secret.exists():
        write_secret(str(secret))
    every = sorted({*members, *(file.stem for file in place.glob(f"*{SUFFIX}"))})
    keys = {name: of_member(secret.read_text(encoding="ascii"), name, every) for name in every}
    for name, one in keys.items():
        new = place / f"{name}.{os.getpid()}.partial"
        _write(new, msgspec.json.encode(one), "wb")
        new.replace(place / f"{name}{SUFFIX}")
    return [str(place / f"{name}{SUFFIX}") for name in every]


def _bytes_of(text: str, source: str) -> bytes:
    if WRITTEN.fullmatch(text.strip()) is None:
        raise KeysError(f"{source}: want {2 * SECRET_BYTES} hexadecimal digits, as "
                        f"`pdproto node keys FILE` writes them")
    return bytes.fromhex(text.strip())


def _names(members: Iterable[str]) -> tuple[str, ...]:
    """The names of members, each once. Raises KeysError."""
    try:
        return checked.node_names("members", members, MEMBERS_MAX, _name)
    except ValueError as error:
        raise KeysError(str(error)) from None


def _name(name: str, value: object) -> str:
    """The name of a member. Raises KeysError."""
    member = checked.one_of(name, value, str, "text")
    if MEMBER.fullmatch(member) is None or member == CLUSTER:
        raise KeysError(f"member {checked.shown(member)}: want 1 to 64 letters, digits, dots, "
                        f"dashes or underscores, a letter or digit first")
    return member


def _write(path: Path, text: bytes, mode: str) -> None:
    """Write a file that only its owner can read, whole or not at all. Raises OSError."""
    with open(path, mode, buffering=0, opener=_for_owner) as file:
        try:
            if file.write(text) < len(text):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        except OSError as error:
            path.unlink()
            raise OSError(error.errno, error.strerror, str(path)) from None


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _derived(secret: bytes, use: bytes) -> bytes:
    return HKDF(SHA256(), SECRET_BYTES, salt=None, info=b"pdproto 1 " + use).derive(secret)


def _tls_key(secret: bytes, use: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_derived(secret, use))


def _written(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _signed(name: str, key: Ed25519PrivateKey, authority: Ed25519PrivateKey) -> bytes:
    """The certificate of this key for this name. The same keys give the same bytes, because an
    Ed25519 signature takes no random numbers.
    """
    public = key.public_key()
    return (
        x509.CertificateBuilder().subject_name(_called(name)).issuer_name(_called(CLUSTER))
        .public_key(public).serial_number(1 + int.from_bytes(public.public_bytes_raw()[:8]))
        .not_valid_before(BEGINS).not_valid_after(ENDS)
        .add_extension(x509.BasicConstraints(ca=name == CLUSTER, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(authority, None)
        .public_bytes(Encoding.PEM)
    )


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
