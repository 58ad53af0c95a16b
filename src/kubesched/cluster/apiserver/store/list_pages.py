"""Pages of a list: where the next one starts, and at which revision.

A continue token is the reference's: unpadded base64 of JSON with the revision of the list and
the first key not yet shown, relative to the namespace if the list has one.
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

# The revision of a token whose list may go on with what is there now.
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
    """Some objects of a list, in order of their keys."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    # How many follow; unknown when a selector had to be applied to them.
    remaining: int | None = None


class Continuation(NamedTuple):
    revision: int
    # Keys from here on are still to be shown.
    start: str

    def token(self) -> str:
        document = {"v": _VERSION, "rv": self.revision, "start": self.start}
        text = json.dumps(document, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> Continuation:
        """Read a token. Raises ApiError 400 for one that this server never gave."""
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
    """410 with a token that goes on with what is there now."""
    return expired(_TOO_OLD, Continuation(CURRENT, continuation.start).token())


def select_page(
    collection: Collection, selection: Selection, revision: int, start: str = "", limit: int = 0
) -> Page:
    """The objects of a selection at a revision, from a key on, at most `limit` of them."""
    objects = collection.objects_at(revision)
    keys = collection.keys() if objects is collection.objects else sorted(objects)
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    first = bisect_left(keys, prefix + start) if prefix or start else 0
    # "0" is the character after "/": the first key behind all of the namespace.
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
