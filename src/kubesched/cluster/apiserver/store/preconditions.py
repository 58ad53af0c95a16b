"""Preconditions: the uid and the version on which a write or deletion is based."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.util.ints import whole_number

__all__ = ["check_deletion", "check_write", "parse_revision"]


def parse_revision(text: str) -> int:
    """Parse a resourceVersion. Raises ApiError if it is not a number."""
    number = whole_number(text)
    if number is None:
        message = (
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing '
            f'"{text}": invalid syntax'
        )
        raise api_errors.unknown_failure(message)
    return number


def check_write(resource: Resource, old: Record, metadata: dict[str, Any]) -> None:
    """Refuse a write that is based on another object or on an older version.

    `metadata` is the metadata of the request. Raises ApiError 409, or 422 if the kind requires a
    version and the request has none.
    """
    stored = old.data["metadata"]
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    if uid and uid != stored["uid"]:
        raise api_errors.wrong_uid(
            resource.group_resource, old.key, stored["name"], uid, stored["uid"]
        )
    if version and version != "0":  # "0" is the same as no version
        if version != stored["resourceVersion"]:
            raise api_errors.stale(resource.group_resource, stored["name"])
    elif not resource.strategy.unconditional_update:
        problem = FieldProblem(
            "metadata.resourceVersion",
            "FieldValueInvalid",
            "Invalid value: 0x0: must be specified for an update",
        )
        raise api_errors.invalid(resource.group_resource, stored["name"], [problem])


def check_deletion(resource: Resource, old: Record, uid: str, resource_version: str) -> None:
    """Refuse a deletion whose preconditions name another uid or another version."""
    stored = old.data["metadata"]
    if uid and uid != stored["uid"]:
        text = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({stored['uid']}). The object might have been deleted and then recreated"
        )
    elif resource_version and resource_version != stored["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({stored['resourceVersion']}). The object might have been "
            "modified"
        )
    else:
        return
    raise api_errors.conflict(resource.group_kind, stored["name"], text)
