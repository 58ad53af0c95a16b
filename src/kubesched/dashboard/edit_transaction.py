"""Applies the edits of a suggestion to a cluster: all of them, or none.

All edits are checked with dry runs before the first one is made. If a later request fails
nevertheless, the changes are reverted: deleted objects are created again, created ones are deleted,
and replaced ones get their old content.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod
from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.kinds import by_api_version_kind
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.foundation.util.clock import SECOND, Clock

__all__ = ["CheckedApi", "apply_edits"]

_MOST_EDITS: Final = 100
_ACTIONS: Final = ("create", "replace", "recreate", "delete")
_GONE: Final = 404
_EXISTS: Final = 409
_POLL_NS: Final = SECOND // 20
_POLLS: Final = 200


class CheckedApi(ApiAccess, Protocol):
    """An API server that can check requests without making a change."""

    def check_create(self, new: msgspec.Struct) -> None:
        """Raise the error that `create` would raise."""
        ...

    def check_update(self, changed: msgspec.Struct) -> None:
        """Raise the error that `update` would raise."""
        ...


class _Step(NamedTuple):
    """An edit with the stored object, and the object as it should be."""

    action: str
    kind: type[Any]
    name: str
    namespace: str | None
    before: Any  # None: to be created
    after: Any  # None: to be deleted

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.__name__} {place}{self.name}"


async def apply_edits(api: CheckedApi, edits: Any, clock: Clock) -> int:
    """Apply the edits, and return their number.

    Raises:
        BadRequestError: an edit is invalid or refused; nothing is changed then.
    """
    if not isinstance(edits, list) or not edits:
        raise BadRequestError("no edits")
    if len(edits) > _MOST_EDITS:
        raise BadRequestError(f"more than {_MOST_EDITS} edits at once")
    steps = [await _step(api, each) for each in edits]
    for step in steps:
        _check(api, step, steps)
    undo: list[Callable[[], Awaitable[Any]]] = []
    for step in steps:
        try:
            await _carry_out(api, step, clock, undo)
        except ApiError as error:
            raise await _restored(undo, f"{step}: {error}") from error
    return len(steps)


async def _step(api: CheckedApi, edit: Any) -> _Step:
    if not isinstance(edit, dict) or edit.get("action") not in _ACTIONS:
        raise BadRequestError("not an edit")
    kind = by_api_version_kind(str(edit.get("api_version")), str(edit.get("kind")))
    if kind is None:
        raise BadRequestError(f"no kind {edit.get('kind')!r}")
    name, action = str(edit.get("name")), str(edit["action"])
    namespace = str(edit.get("namespace", "")) or None
    before: Any = None
    if action != "create":
        before = await api.get(kind.type, name, namespace)
    if action == "delete":
        return _Step(action, kind.type, name, namespace, before, None)
    try:
        after: Any = msgspec.convert(edit.get("document"), kind.type)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{kind.kind} {name}: {error}") from error
    if action == "replace":
        after = replace(after, metadata=_with_identity(after.metadata, before.metadata))
    else:
        after = replace(after, metadata=_as_new(after.metadata))
    return _Step(action, kind.type, name, namespace, before, after)


def _with_identity(wanted: ObjectMeta, current: ObjectMeta) -> ObjectMeta:
    return replace(current, labels=wanted.labels, annotations=wanted.annotations)


def _as_new(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        generate_name=metadata.generate_name,
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_references=metadata.owner_references,
    )


def _check(api: CheckedApi, step: _Step, steps: Sequence[_Step]) -> None:
    """Check an edit with a dry run.

    Raises:
        BadRequestError: the server would refuse it.
    """
    try:
        if step.action == "replace":
            api.check_update(step.after)
        elif step.after is not None:
            api.check_create(step.after)
    except ApiError as error:
        # The old object still exists, and everything else has been checked before its name.
        if step.action == "recreate" and error.reason == "AlreadyExists":
            return
        if any(_is_named_in(error, other) for other in steps if other.action == "create"):
            return  # a dry run does not have the objects that an earlier edit creates
        raise BadRequestError(f"{step}: {error}; nothing has been changed") from error


def _is_named_in(error: ApiError, created: _Step) -> bool:
    return created.kind is not Pod and created.name in str(error) and error.code in (403, 422)


async def _carry_out(
    api: CheckedApi, step: _Step, clock: Clock, undo: list[Callable[[], Awaitable[Any]]]
) -> None:
    kind, name, namespace = step.kind, step.name, step.namespace
    if step.action == "replace":
        await api.update(step.after)
        undo.append(lambda: _put_back(api, step))
        return
    if step.before is not None:
        await api.delete(kind, name, namespace, grace_period_seconds=0)
        undo.append(
            lambda: api.create(replace(step.before, metadata=_as_new(step.before.metadata)))
        )
        if step.after is not None:
            await _wait_for_deletion(api, step, clock)
    if step.after is not None:
        await api.create(step.after)
        undo.append(lambda: api.delete(kind, name, namespace, grace_period_seconds=0))


async def _put_back(api: CheckedApi, step: _Step) -> None:
    current = await api.get(step.kind, step.name, step.namespace)
    metadata = _with_identity(step.before.metadata, current.metadata)
    await api.update(replace(step.before, metadata=metadata))


async def _wait_for_deletion(api: CheckedApi, step: _Step, clock: Clock) -> None:
    """Wait for the deletion of an object with finalizers, for a few seconds at most."""
    for _ in range(_POLLS):
        try:
            current: Any = await api.get(step.kind, step.name, step.namespace)
        except ApiError as error:
            if error.code == _GONE:
                return
            raise
        if current.metadata.uid != step.before.metadata.uid:
            return
        await clock.sleep(_POLL_NS)


async def _restored(undo: list[Callable[[], Awaitable[Any]]], problem: str) -> BadRequestError:
    """Revert the changes, the last one first, and return the error to raise."""
    failed = []
    for step in reversed(undo):
        try:
            await step()
        except ApiError as error:
            if error.code != _EXISTS:  # a controller has created it again
                failed.append(str(error))
    if failed:
        return BadRequestError(f"{problem}; not all could be restored: {'; '.join(failed)}")
    return BadRequestError(f"{problem}; what was changed has been restored")
