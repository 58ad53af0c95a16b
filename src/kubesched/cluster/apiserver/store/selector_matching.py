"""Selection of objects by namespace, label selector and field selector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kubesched.api.fields import FieldSelector
from kubesched.api.labels import Selector
from kubesched.api.plain_kinds import PlainObject
from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.errors.api_errors import bad_request
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.conversion_webhooks import VersionConversion
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.errors import SelectorError

__all__ = ["Selection"]


class Selection:
    """A parsed selection of objects."""

    __slots__ = ("everything", "matches", "namespace", "selective")

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        labels: Selector | None,
        fields: FieldSelector | None,
    ) -> None:
        self.namespace = namespace if resource.namespaced else None
        # Whether there is a label or field selector.
        self.selective = labels is not None or fields is not None
        # Whether every object matches.
        self.everything = not self.selective and not self.namespace
        # Tests an object. Every watcher calls this for every change.
        self.matches = _test(self.namespace, labels, fields, resource)

    @classmethod
    def parse(
        cls, resource: Resource, namespace: str | None, label_selector: str, field_selector: str
    ) -> Selection:
        """Parse the selectors of a request. Raises ApiError 400 if one is invalid."""
        labels: Selector | None = None
        fields: FieldSelector | None = None
        try:
            if label_selector:
                labels = Selector.parse(label_selector)
                if labels.is_empty:
                    labels = None
            if field_selector:
                fields = FieldSelector.parse(field_selector, cast("Any", resource.type))
                _check_selectable(resource, fields)
        except SelectorError as exc:
            raise bad_request(str(exc)) from exc
        return cls(resource, namespace, labels, fields)


def _check_selectable(resource: Resource, fields: FieldSelector) -> None:
    """Raises ApiError 400 for a field that a custom resource does not declare as selectable."""
    strategy = resource.strategy
    if not isinstance(strategy, CustomStrategy):
        return
    declared = frozenset() if strategy.custom is None else strategy.custom.selectable
    for term in fields.terms:
        if term.path not in ("metadata.name", "metadata.namespace", *declared):
            raise bad_request(f"field label not supported: {term.path}")


def _test(
    namespace: str | None, labels: Selector | None, fields: FieldSelector | None, resource: Resource
) -> Callable[[Record], bool]:
    has_fields = None if fields is None else _field_test(resource, fields)
    if has_fields is not None and not namespace and labels is None:
        return has_fields

    def matches(record: Record) -> bool:
        metadata = record.data["metadata"]
        if namespace and metadata.get("namespace") != namespace:
            return False
        if labels is not None and not labels.matches(metadata.get("labels", {})):
            return False
        return has_fields is None or has_fields(record)

    return matches


def _field_test(resource: Resource, fields: FieldSelector) -> Callable[[Record], bool]:
    shown = resource.from_stored
    if shown is not None and not isinstance(shown, VersionConversion):
        return lambda record: fields.matches(shown(record.data))
    if resource.type is None or issubclass(resource.type, PlainObject):
        return lambda record: fields.matches(record.data)
    # Only the struct has the default of an absent field, such as `false`.
    return fields.for_kind(resource.type, held_as="typed")
