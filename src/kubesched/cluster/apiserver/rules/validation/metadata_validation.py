"""Validation of metadata, labels and label selectors, on creation and on update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    label_value,
    qualified_name,
)

__all__ = [
    "check_annotations",
    "check_label_selector",
    "check_labels",
    "check_metadata",
    "check_metadata_update",
    "check_new_finalizers",
]

NameRule = Callable[[str], Sequence[str]]

_ANNOTATIONS_LIMIT = 256 * 1024
_LONGEST_CACHED = 512
_NOTHING: Mapping[str, Any] = {}
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def check_metadata(
    metadata: Mapping[str, Any], *, namespaced: bool, name_rule: NameRule
) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if prefix := metadata.get("generateName"):
        # The generated suffix follows, so a trailing dash or dot is valid.
        checked = prefix[:-1] + "a" if prefix[-1:] in ("-", ".") and len(prefix) > 1 else prefix
        if complaints := _complaints(name_rule, checked):
            problems += [invalid("metadata.generateName", prefix, text) for text in complaints]
    name = metadata.get("name", "")
    if not name:
        problems.append(required("metadata.name", "name or generateName is required"))
    elif complaints := name_rule(name):
        problems += [invalid("metadata.name", name, text) for text in complaints]
    namespace = metadata.get("namespace", "")
    if namespaced:
        if not namespace:
            problems.append(required("metadata.namespace"))
        elif complaints := _complaints(dns_label, namespace):
            problems += [invalid("metadata.namespace", namespace, text) for text in complaints]
    elif namespace:
        problems.append(forbidden("metadata.namespace", "not allowed on this type"))
    problems += _check_common(metadata)
    return problems


def _complaints(rule: NameRule, text: str) -> Sequence[str]:
    """Return the error texts of a rule, from a cache, because many objects share their texts."""
    # Longer texts are invalid anyway and would waste memory.
    return _cached_complaints(rule, text) if len(text) <= _LONGEST_CACHED else rule(text)


@lru_cache(maxsize=1024)
def _cached_complaints(rule: NameRule, text: str) -> Sequence[str]:
    return rule(text)


def check_metadata_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if new is old:
        return problems
    if old.get("deletionTimestamp"):
        problems += check_new_finalizers(new, old)
    problems += [
        immutable(f"metadata.{field}", new.get(field))
        for field in _IMMUTABLE
        if new.get(field) != old.get(field)
    ]
    problems += _check_common(new, old)
    return problems


def check_new_finalizers(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldProblem]:
    extra = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
    if not extra:
        return []
    listed = "[]string{" + ", ".join(f'"{name}"' for name in extra) + "}"
    text = (
        "no new finalizers can be added if the object is being deleted, found new finalizers "
        + listed
    )
    return [forbidden("metadata.finalizers", text)]


def _check_common(
    metadata: Mapping[str, Any], known: Mapping[str, Any] = _NOTHING
) -> list[FieldProblem]:
    """Check metadata on creation and update.

    Parts that are the same objects as in the `known` metadata are valid and are not checked.
    """
    problems: list[FieldProblem] = []
    if (labels := metadata.get("labels")) and labels is not known.get("labels"):
        problems += check_labels(labels, "metadata.labels")
    annotations = metadata.get("annotations")
    if annotations and annotations is not known.get("annotations"):
        problems += check_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        problems += _check_owners(owners)
    for finalizer in metadata.get("finalizers", ()):
        problems += [
            invalid("metadata.finalizers", finalizer, text) for text in qualified_name(finalizer)
        ]
    return problems


def check_labels(labels: Mapping[str, str], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    for key, value in labels.items():
        if complaints := _complaints(qualified_name, key):
            problems += [invalid(path, key, text) for text in complaints]
        if complaints := label_value(value):
            problems += [invalid(path, value, text) for text in complaints]
    return problems


def check_annotations(annotations: Mapping[str, str], path: str) -> list[FieldProblem]:
    problems = []
    size = 0
    for key, value in annotations.items():
        if complaints := _complaints(qualified_name, key.lower()):
            problems += [invalid(path, key, text) for text in complaints]
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        problems.append(too_long(path, _ANNOTATIONS_LIMIT))
    return problems


def _check_owners(owners: Sequence[Mapping[str, Any]]) -> list[FieldProblem]:
    path = "metadata.ownerReferences"
    problems: list[FieldProblem] = []
    controller = ""
    for owner in owners:
        if not owner.get("apiVersion"):
            problems.append(invalid(f"{path}.apiVersion", "", "version must not be empty"))
        problems += [
            invalid(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if owner.get("controller"):
            known = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {known}'
                )
                problems.append(invalid(path, list(owners), text))
            else:
                controller = known
    return problems


def check_label_selector(selector: Mapping[str, Any] | None, path: str) -> list[FieldProblem]:
    if not selector:
        return []
    problems = check_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values", ())
        if operator in ("In", "NotIn"):
            if not values:
                problems.append(
                    required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                problems.append(forbidden(f"{at}.values", text))
        else:
            problems.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
        key = requirement.get("key", "")
        problems += [invalid(f"{at}.key", key, text) for text in qualified_name(key)]
        for number, value in enumerate(values):
            problems += [
                invalid(f"{at}.values[{number}]", value, text) for text in label_value(value)
            ]
    return problems
