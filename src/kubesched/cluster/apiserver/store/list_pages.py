"""Pages of a list and the continue tokens that connect them.

A continue token has the reference's format: unpadded base64 of JSON with the revision of the
list and the first key of the next page. The key is relative to the namespace if the list has one.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_left
from typing import NamedTuple

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors.api_errors import bad_request, expired
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.selector_matching import Selection
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["CURRENT", "Continuation", "Page", "select_page", "too_old_to_continue"]

# The revision in a token that continues with the current objects, not with those of a revision.
CURRENT = -1

_VERSION = "meta.k8s.io/v1"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Page(NamedTuple):
    """A part of a list, ordered by key."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    # The number of objects after this page; None if there is a selector.
    remaining: int | None = None


class Continuation(NamedTuple):
    revision: int
    start: str  # the first key of the next page

    def token(self) -> str:
        document = {"v": _VERSION, "rv": self.revision, "start": self.start}
        text = json.dumps(document, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> Continuation:
        """Parse a token. Raises ApiError 400 if it is invalid."""
        try:
            padded = token + "=" * (-len(token) % 4)
            document = json.loads(base64.urlsafe_b64decode(padded))
            if document["v"] != _VERSION:
                raise ValueError(f"server does not recognize this encoded version {document['v']}")
            revision, start = document["rv"], document["start"]
            if not isinstance(revision, int) or not isinstance(start, str):
                raise ValueError("incorrect encoded start resourceVersion or key")
            return cls(revision, start)
        except (ValueError, KeyError, TypeError) as exc:
            raise bad_request(f"continue key is not valid: {exc}") from exc


def too_old_to_continue(continuation: Continuation) -> ApiError:
    """Create a 410 error with a token that continues with the current objects."""
    return expired(_TOO_OLD, Continuation(CURRENT, continuation.start).token())


def select_page(
    collection: Collection, selection: Selection, revision: int, start: str = "", limit: int = 0
) -> Page:
    """Return at most `limit` objects of a selection at a revision, from the key `start` on."""
    objects = collection.objects_at(revision)
    keys = collection.keys() if objects is collection.objects else sorted(objects)
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    first = bisect_left(keys, prefix + start) if prefix or start else 0
    # "0" is the character after "/", so this is the first key after those of the namespace.
    end = bisect_left(keys, f"{selection.namespace}0") if prefix else len(keys)
    records: list[Record] = []
    for index in range(first, end):
        record = objects[keys[index]]
        if selection.selective and not selection.matches(record):
            continue
        if limit and len(records) == limit:
            last = records[-1].key.removeprefix(prefix)
            token = Continuation(revision, f"{last}\0").token()
            remaining = None if selection.selective else end - index
            return Page(records, revision, token, remaining)
        records.append(record)
    return Page(records, revision)
