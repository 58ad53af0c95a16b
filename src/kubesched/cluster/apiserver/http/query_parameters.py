"""Query parameters, parsed and checked as in the reference."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    forbidden,
    invalid,
    not_supported,
)
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.go_format import parse_duration

__all__ = [
    "ListOptions",
    "check_timeout",
    "is_dry_run",
    "parse_grace_period",
    "parse_list_options",
    "parse_propagation_policy",
]

_LIST_OPTIONS = "ListOptions.meta.k8s.io"
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_MATCHES = ("Exact", "NotOlderThan")


class ListOptions(msgspec.Struct, frozen=True):
    """The options of a list or watch."""

    label_selector: str
    field_selector: str
    limit: int
    continue_token: str
    resource_version: str
    match: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    timeout_seconds: int

    @property
    def is_exact(self) -> bool:
        """Whether the list shows the objects at its resource version, not at a later one.

        Without a match, a limit makes a version exact: the behavior from before `Exact` existed.
        """
        if self.match:
            return self.match == "Exact"
        return self.limit > 0 and self.resource_version not in ("", "0")


def check_timeout(request: Request) -> None:
    """Raises ApiError 400 if `timeout` is not a duration.

    The value has no other effect, because every request is answered at once.
    """
    text = request.query.get("timeout", "")
    if not text:
        return
    try:
        parse_duration(text)
    except ValueError as exc:
        raise api_errors.bad_request(
            f"invalid timeout specified in the request URL - {exc}"
        ) from None


def parse_list_options(request: Request) -> ListOptions:
    """Parse the options of a list or watch. Raises ApiError 400 or 422."""
    query = request.query
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=_number(query, "limit"),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        watch=request.query.flag("watch"),
        bookmarks=request.query.flag("allowWatchBookmarks"),
        initial_events=(
            request.query.flag("sendInitialEvents") if "sendInitialEvents" in query else None
        ),
        timeout_seconds=_number(query, "timeoutSeconds"),
    )
    problem = _problem(options)
    if problem is not None:
        raise api_errors.invalid(_LIST_OPTIONS, "", [problem])
    return options


def _problem(options: ListOptions) -> Any:
    match, version = options.match, options.resource_version
    if options.watch:
        if options.initial_events is None:
            if match:
                text = (
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided"
                )
                return forbidden("resourceVersionMatch", text)
        elif match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            return forbidden("resourceVersionMatch", text)
        elif not options.bookmarks and options.initial_events:
            text = "sendInitialEvents requires setting allowWatchBookmarks to true"
            return forbidden("allowWatchBookmarks", text)
        return None
    if options.initial_events is not None:
        return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return None
    if not version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        return forbidden("resourceVersionMatch", text)
    if options.continue_token:
        text = "resourceVersionMatch is forbidden when continue is provided"
        return forbidden("resourceVersionMatch", text)
    if match not in _MATCHES:
        return not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        return forbidden("resourceVersionMatch", text)
    return None


def _number(query: Any, name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        number = int(text)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax'
        raise api_errors.bad_request(message) from None
    if not MIN_INT64 <= number <= MAX_INT64:
        message = f'strconv.ParseInt: parsing "{text[:100]}": value out of range'
        raise api_errors.bad_request(message)
    return number


def is_dry_run(request: Request, options: dict[str, Any] | None = None) -> bool:
    """Whether a write is a dry run. Raises ApiError 422."""
    value = request.query.get("dryRun", "")
    if not value and options and options.get("dryRun"):
        value = str(options["dryRun"][0])
    if value not in ("", "All"):
        kind = {"POST": "CreateOptions", "PATCH": "PatchOptions", "PUT": "UpdateOptions"}
        name = kind.get(request.method, "DeleteOptions")
        raise api_errors.unsupported_option(f"{name}.meta.k8s.io", "dryRun", value, ("All",))
    return value == "All"


def parse_grace_period(request: Request, options: dict[str, Any]) -> int | None:
    """Return the grace period of a deletion in seconds, if there is one. Raises ApiError 400."""
    seconds = options.get("gracePeriodSeconds")
    if seconds is None and "gracePeriodSeconds" in request.query:
        return _number(request.query, "gracePeriodSeconds")
    if seconds is not None and not isinstance(seconds, int):
        raise api_errors.bad_request("gracePeriodSeconds must be a number")
    return seconds


def parse_propagation_policy(request: Request, options: dict[str, Any]) -> str:
    """Return the propagation policy of a deletion; empty if none is set. Raises ApiError 422."""
    value = options.get("propagationPolicy") or request.query.get("propagationPolicy", "")
    if options.get("orphanDependents") is not None:
        if value:
            text = "orphanDependents and deletionPropagation cannot be both set"
            problem = invalid("propagationPolicy", value, text)
            raise api_errors.invalid("DeleteOptions.meta.k8s.io", "", [problem])
        return "Orphan" if options["orphanDependents"] else "Background"
    if value and value not in _PROPAGATIONS:
        kind = "DeleteOptions.meta.k8s.io"
        choices = (*_PROPAGATIONS, "nil")
        raise api_errors.unsupported_option(kind, "propagationPolicy", str(value), choices)
    return str(value)
