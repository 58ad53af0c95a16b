"""JSON web tokens that are signed with an elliptic curve key (ES256)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

__all__ = ["TokenKey"]

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
_SIZE = 32
_ALGORITHM = "ES256"


class TokenKey:
    """Signs and verifies tokens."""

    def __init__(self, secret: bytes) -> None:
        """Derive the key from a secret: the same secret gives the same key."""
        number = int.from_bytes(hashlib.sha256(secret).digest(), "big") % (_ORDER - 1) + 1
        self._key = ec.derive_private_key(number, ec.SECP256R1())
        public = self._key.public_key()
        encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._identifier = _encoded(hashlib.sha256(encoded).digest())
        self._public = public

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token with these claims."""
        head = {"alg": _ALGORITHM, "kid": self._identifier}
        parts = (_encoded(msgspec.json.encode(part)) for part in (head, claims))
        content = ".".join(parts)
        signature = self._key.sign(content.encode(), ec.ECDSA(hashes.SHA256()))
        raw = b"".join(number.to_bytes(_SIZE, "big") for number in decode_dss_signature(signature))
        return f"{content}.{_encoded(raw)}"

    def verify(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token; None if this key has not signed it."""
        content, dot, signature = token.rpartition(".")
        try:
            raw = _decoded(signature)
            if not dot or len(raw) != 2 * _SIZE:
                return None
            halves = (int.from_bytes(part, "big") for part in (raw[:_SIZE], raw[_SIZE:]))
            self._public.verify(
                encode_dss_signature(*halves), content.encode(), ec.ECDSA(hashes.SHA256())
            )
            claims: dict[str, Any] = msgspec.json.decode(_decoded(content.rpartition(".")[2]))
        except (InvalidSignature, ValueError):
            return None
        return claims

    def key_set(self) -> dict[str, Any]:
        """Return the public key as a JSON web key set."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._identifier,
            "crv": "P-256",
            "alg": _ALGORITHM,
            "x": _encoded(numbers.x.to_bytes(_SIZE, "big")),
            "y": _encoded(numbers.y.to_bytes(_SIZE, "big")),
        }
        return {"keys": [key]}


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
