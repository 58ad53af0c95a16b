"""The names of events, and their references to objects (docs/reference/02 §8.2)."""

from __future__ import annotations

import random
import re
import uuid

from kubesched.api.base import ApiObject
from kubesched.api.reference import ObjectReference

__all__ = ["EventNames", "reference_to"]

# Letters and digits, between which there are dashes or one dot: never tried in two ways.
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+")
_DNS_SUBDOMAIN_LIMIT = 253


class EventNames:
    """Makes a unique name for every event of a process."""

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self._last_stamp_ns = 0

    def name(self, regarding: str, now_ns: int) -> str:
        # Virtual time does not advance between events, but their names must differ.
        self._last_stamp_ns = max(now_ns, self._last_stamp_ns + 1)
        name = f"{regarding}.{self._last_stamp_ns:x}"
        if len(name) <= _DNS_SUBDOMAIN_LIMIT and _DNS_SUBDOMAIN.fullmatch(name):
            return name
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def reference_to(regarded: ApiObject) -> ObjectReference:
    """Return a reference to an object in its current version."""
    metadata = regarded.metadata  # type: ignore[attr-defined]  # every kind has it
    return ObjectReference(
        kind=regarded.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=regarded.api_version,
        resource_version=metadata.resource_version,
    )
