"""Names, uids and timestamps: what the server itself writes into metadata."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api.time import format_time

__all__ = ["generated_name", "generated_uid", "inherited_metadata", "new_metadata", "stamp"]

Json = dict[str, Any]

# No vowels and no look-alikes, so that no words come out.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LETTER_BITS = len(_ALPHABET).bit_length()
# What is drawn for each number of so many bits; for those that are too large, nothing.
_DRAWN = [*_ALPHABET, *[""] * (2**_LETTER_BITS - len(_ALPHABET))]
_SUFFIX_LENGTH = 5
# Of a uid's 128 bits, four say that it is random (version 4), and two how it is laid out.
_VERSION_BITS = 0x4 << 76 | 0x8 << 60
_RANDOM_BITS = ~(0xF << 76 | 0xC << 60)
_PREFIX_LENGTH = 63 - _SUFFIX_LENGTH
_SERVER_FIELDS = (
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)
_INHERITED = ("uid", "creationTimestamp", "managedFields")


def generated_name(prefix: str, rng: random.Random) -> str:
    # The letters that rng.choice would draw, in a third of the time.
    draw, suffix = rng.getrandbits, ""
    while len(suffix) < _SUFFIX_LENGTH:
        suffix += _DRAWN[draw(_LETTER_BITS)]
    return prefix[:_PREFIX_LENGTH] + suffix


def generated_uid(rng: random.Random) -> str:
    """A random (version 4) UUID."""
    digits = f"{rng.getrandbits(128) & _RANDOM_BITS | _VERSION_BITS:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def stamp(now_ns: int) -> str:
    return format_time(now_ns)


def new_metadata(given: Json, namespace: str, uid: str, created: str, *, counted: bool) -> Json:
    """Metadata of a new object; what only the server may say is not taken from the user."""
    metadata = {key: value for key, value in given.items() if key not in _SERVER_FIELDS}
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = created
    if counted:
        metadata["generation"] = 1
    return metadata


def inherited_metadata(given: Json, old: Json) -> Json:
    """Metadata of an update, with what the user left out or may not say taken from before."""
    metadata = dict(given)
    for field in ("name", "namespace", *_INHERITED):
        if field in old and not metadata.get(field):
            metadata[field] = old[field]
    for field in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in old:
            metadata[field] = old[field]
        else:
            metadata.pop(field, None)
    metadata["resourceVersion"] = old["resourceVersion"]
    return metadata
