"""kubectl commands that make the edits of a suggestion, if one or two lines suffice.

Changes are written as a JSON patch of the difference, so that other fields are not affected.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from kubesched.api import PriorityClass
from kubesched.api.base import ApiObject
from kubesched.explain.explanation import Edit

__all__ = ["command_of_edits"]

# `kubectl set resources` works with these kinds.
_WITH_TEMPLATES: Final = frozenset(
    ["DaemonSet", "Deployment", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"]
)
# Kinds of which a new object is one short line of JSON.
_SHORT: Final = frozenset(["PersistentVolumeClaim"])
_REQUEST: Final = re.compile(
    r"(?:/spec/template)?/spec/containers/(\d+)/resources/(requests|limits)/([^/]+)"
)

_Operation = dict[str, Any]


def command_of_edits(edits: Sequence[tuple[Edit, ApiObject | None]]) -> str:
    """Return a command that makes all edits of objects; empty if an edit needs a file."""
    commands = [_command(edit, before) for edit, before in edits]
    return " && ".join(commands) if all(commands) else ""


def _command(edit: Edit, before: ApiObject | None) -> str:
    target = f"{edit.kind.lower()} {edit.name}"
    if edit.namespace:
        target += f" -n {edit.namespace}"
    if edit.action == "delete":
        return f"kubectl delete {target}"
    document = edit.document or {}
    if edit.action == "create":
        return _creation(edit, document)
    if before is None:
        return ""
    old = msgspec.to_builtins(before)
    operations = list(_difference(old.get("spec", {}), document.get("spec", {}), "/spec"))
    if edit.action == "replace":
        labels = _labelling(target, old, document)
        if labels and operations:
            return ""
        if not operations:
            return labels
        amounts = _set_resources(edit.kind, old, operations)
        if amounts:
            return f"kubectl set resources {target} {amounts}"
        return f"kubectl patch {target} --type=json -p {_json(operations)}"
    return _recreation(edit.kind, target, old, operations)


def _creation(edit: Edit, document: dict[str, Any]) -> str:
    if edit.kind == PriorityClass.kind:
        return f"kubectl create priorityclass {edit.name} --value={document.get('value', 0)}"
    if edit.kind not in _SHORT:
        return ""
    text = shlex.quote(msgspec.json.encode(document).decode())
    return f"echo {text} | kubectl create -f -"


def _labelling(target: str, old: Any, document: dict[str, Any]) -> str:
    """Return a command that sets labels; empty if labels do not differ or go."""
    before = old.get("metadata", {}).get("labels", {})
    after = document.get("metadata", {}).get("labels", {})
    if before == after or not before.keys() <= after.keys():
        return ""
    changed = [f"{key}={after[key]}" for key in after if before.get(key) != after[key]]
    return f"kubectl label {target} --overwrite {' '.join(changed)}"


def _recreation(kind: str, target: str, old: Any, operations: list[_Operation]) -> str:
    """Return a pipeline that changes, deletes and recreates an object."""
    steps = [f"kubectl get {target} -o json"]
    if amounts := _set_resources(kind, old, operations):
        steps.append(f"kubectl set resources --local -f - {amounts} -o json")
    elif operations:
        steps.append(f"kubectl patch --local -f - --type=json -p {_json(operations)} -o json")
    steps.append("kubectl replace --force -f -")
    return " | ".join(steps)


def _json(operations: Sequence[_Operation]) -> str:
    return shlex.quote(msgspec.json.encode(operations).decode())


def _set_resources(kind: str, old: Any, operations: Sequence[_Operation]) -> str:
    """Return the arguments of `kubectl set resources`; empty if it cannot make the changes."""
    if kind not in _WITH_TEMPLATES or not operations:
        return ""
    changes: dict[str, list[str]] = {}
    names = set()
    for each in operations:
        found = _REQUEST.fullmatch(each["path"])
        if found is None or each["op"] == "remove":
            return ""
        names.add(int(found[1]))
        resource = found[3].replace("~1", "/").replace("~0", "~")
        changes.setdefault(found[2], []).append(f"{resource}={each['value']}")
    if len(names) != 1:
        return ""
    spec = old["spec"] if kind == "Pod" else old["spec"]["template"]["spec"]
    container = spec["containers"][names.pop()]["name"]
    amounts = (f"--{field}={','.join(values)}" for field, values in sorted(changes.items()))
    return " ".join([f"-c {container}", *amounts])


def _difference(before: Any, after: Any, path: str) -> Iterator[_Operation]:
    """Yield the operations of a JSON patch that turns a value into another."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in after:
                yield {"op": "remove", "path": place}
            else:
                yield from _difference(before[key], after[key], place)
        for key in after:
            if key not in before:
                place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
                yield {"op": "add", "path": place, "value": after[key]}
        return
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        if len(before) == len(after):
            for number, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from _difference(one, other, f"{path}/{number}")
            return
        if list(after[: len(before)]) == list(before):
            for added in after[len(before) :]:
                yield {"op": "add", "path": f"{path}/-", "value": added}
            return
    yield {"op": "replace", "path": path, "value": after}
