"""SCRAM-SHA-256 (RFC 5802, RFC 7677): the server's side, without input and output.

A verifier has the form of PostgreSQL's: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`. It is enough
to check a client, and not to be one. API keys have 256 random bits, so the number of iterations
protects nothing; 4096 is the minimum that clients accept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4_096
_SALT_BYTES = 16


class ScramError(Exception):
    """A message of the client is not what the exchange needs, or the proof is wrong."""


@dataclass(frozen=True, slots=True)
class Verifier:
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int = ITERATIONS

    def __str__(self) -> str:
        keys = f"{_text(self.stored_key)}:{_text(self.server_key)}"
        return f"{MECHANISM}${self.iterations}:{_text(self.salt)}${keys}"


def verifier_of(password: str, salt: bytes) -> Verifier:
    """The verifier of a password of ASCII characters."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client_key = _hmac(salted, b"Client Key")
    return Verifier(salt, hashlib.sha256(client_key).digest(), _hmac(salted, b"Server Key"))


def read_verifier(text: str) -> Verifier:
    """Raises ValueError for other texts."""
    mechanism, cost, keys = text.split("$")
    iterations, _, salt = cost.partition(":")
    stored, _, server = keys.partition(":")
    if mechanism != MECHANISM:
        raise ValueError(f"{mechanism} is not {MECHANISM}")
    return Verifier(_bytes(salt), _bytes(stored), _bytes(server), int(iterations))


def missing_verifier(user: str, secret: bytes) -> Verifier:
    """A verifier for a user that does not exist, the same each time: the exchange does not say
    whether there is such a user. No password has it."""
    salt = _hmac(secret, b"salt" + user.encode())[:_SALT_BYTES]
    return Verifier(salt, _hmac(secret, b"stored" + user.encode()), secret)


class Exchange:
    """The exchange with one client: `first`, then `final`."""

    def __init__(self, verifier: Verifier, nonce: str) -> None:
        """`nonce`: printable ASCII without commas, random."""
        self._verifier = verifier
        self._nonce = nonce
        self._first_bare = self._server_first = ""

    def first(self, message: bytes) -> bytes:
        """Answer client-first-message. Raises ScramError."""
        text = _decoded(message)
        header, _, bare = text.partition(",,")
        if header not in {"n", "y"}:  # p: a binding to the channel, which is not offered
            raise ScramError("Channel binding is not offered.")
        fields = _fields(bare)
        if not fields.get("r"):
            raise ScramError("client-first-message has no nonce.")
        self._header = f"{header},,"
        self._first_bare = bare
        self._nonce = fields["r"] + self._nonce
        salt = _text(self._verifier.salt)
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes:
        """Answer client-final-message: the signature of the server. Raises ScramError."""
        text = _decoded(message)
        without_proof, _, proof = text.rpartition(",p=")
        fields = _fields(without_proof)
        header = base64.b64encode(self._header.encode()).decode()
        if fields.get("c") != header or fields.get("r") != self._nonce:
            raise ScramError("client-final-message belongs to another exchange.")
        signed = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        try:
            given = _bytes(proof)
        except ValueError:
            raise ScramError("The proof is not in base64.") from None
        signature = _hmac(self._verifier.stored_key, signed)
        if len(given) != len(signature):
            raise ScramError("The proof has another length.")
        client_key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
        found = hashlib.sha256(client_key).digest()
        if not hmac.compare_digest(found, self._verifier.stored_key):
            raise ScramError("The password is wrong.")
        return f"v={_text(_hmac(self._verifier.server_key, signed))}".encode()


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _fields(text: str) -> dict[str, str]:
    """The attributes of a message by their letters."""
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("A message is not in UTF-8.") from None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
