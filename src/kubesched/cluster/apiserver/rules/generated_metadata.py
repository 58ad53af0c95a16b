"""Metadata that the server generates: names, uids, timestamps."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api.time import format_time

__all__ = [
    "format_timestamp",
    "generated_name",
    "generated_uid",
    "inherited_metadata",
    "new_metadata",
]

Json = dict[str, Any]

# The reference's alphabet: without vowels, which could form words, and without similar characters.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LETTER_BITS = len(_ALPHABET).bit_length()
# The letter for each number of `_LETTER_BITS` bits; empty for numbers beyond the alphabet.
_DRAWN = [*_ALPHABET, *[""] * (2**_LETTER_BITS - len(_ALPHABET))]
_SUFFIX_LENGTH = 5
# Four of a uid's 128 bits are the version (4: random) and two are the variant.
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
    # Draws the same letters as rng.choice, in a third of the time.
    draw, suffix = rng.getrandbits, ""
    while len(suffix) < _SUFFIX_LENGTH:
        suffix += _DRAWN[draw(_LETTER_BITS)]
    return prefix[:_PREFIX_LENGTH] + suffix


def generated_uid(rng: random.Random) -> str:
    """Generate a random (version 4) UUID."""
    digits = f"{rng.getrandbits(128) & _RANDOM_BITS | _VERSION_BITS:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def format_timestamp(now_ns: int) -> str:
    return format_time(now_ns)


def new_metadata(requested: Json, namespace: str, uid: str, created: str, *, counted: bool) -> Json:
    """Return the metadata of a new object. Fields that only the server sets are overwritten.

    `counted` says whether the kind counts generations.
    """
    metadata = {key: value for key, value in requested.items() if key not in _SERVER_FIELDS}
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = created
    if counted:
        metadata["generation"] = 1
    return metadata


def inherited_metadata(requested: Json, old: Json) -> Json:
    """Return the metadata of an update.

    Fields that the request omits, or that only the server sets, come from the old metadata.
    """
    metadata = dict(requested)
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
