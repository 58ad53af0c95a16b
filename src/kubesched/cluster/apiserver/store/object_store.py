"""The embedded cluster's storage: versioned objects, their rules, and a log to follow.

One counter numbers all writes; an object's `resourceVersion` is the number of its last one.
A plain class: no I/O, no clock, no tasks. Every write takes the time, completes before it
returns, and either happens whole or raises `ApiError` and changes nothing. Here are the writes;
reading is `stored_objects.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from kubesched.api.access import PatchType
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.deletion_plan import (
    ends_deletion,
    in_foreground,
    plan_deletion,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import (
    generated_name,
    generated_uid,
    inherited_metadata,
    new_metadata,
    stamp,
)
from kubesched.cluster.apiserver.rules.kubelet_reports import with_report
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
from kubesched.cluster.apiserver.rules.request_documents import (
    check_details,
    checked_document,
    cleaned,
    unreadable,
)
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.strategies.pod_strategy import bind
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.apiserver.rules.validation.pod_validation import check_restarts
from kubesched.cluster.apiserver.store.first_objects import FIRST_OBJECTS
from kubesched.cluster.apiserver.store.list_pages import Page
from kubesched.cluster.apiserver.store.namespace_deletion import NamespaceDeletion
from kubesched.cluster.apiserver.store.preconditions import check_deletion, check_write
from kubesched.cluster.apiserver.store.quota_accounting import QuotaAccounting
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_objects import StoredObjects, key_of
from kubesched.cluster.apiserver.store.stored_records import ChangeType, Record, StoredChange
from kubesched.cluster.apiserver.store.typed_views import derive, on_node, with_status
from kubesched.errors import QuantityError
from kubesched.foundation.util.randomness import beside

__all__ = ["Deletion", "Store"]

Json = dict[str, Any]

# Changes per resource that a late watcher can still catch up with, at least.
DEFAULT_HISTORY = 10_000
_NAME_ATTEMPTS = 8


class Deletion(NamedTuple):
    """A deleted object as it last was, and whether it is gone or only on its way."""

    record: Record
    gone: bool


class Admission(Protocol):
    """Has a say in what is written."""

    @property
    def has_rules(self) -> bool:
        """Whether it would look at a write at all."""

    def mutate(self, review: Review) -> Json:
        """The object of a write as it is to be stored. Raises ApiError to refuse the write."""

    def review(self, review: Review) -> None:
        """Raises ApiError to refuse a write."""


class Store(StoredObjects):
    """All objects of a cluster. A new one has what every cluster begins with."""

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        now_ns: int = 0,
        history: int = DEFAULT_HISTORY,
        on_change: Callable[[StoredChange], None] | None = None,
        empty: bool = False,
        features: frozenset[str] = ALL_FEATURES,
    ) -> None:
        """`on_change` hears of every change first and may raise to undo it. An `empty` store
        lacks what clusters begin with, and is to be restored. Without a feature, kinds and fields
        that belong to it are not there.
        """
        self._rng = rng or random.Random(0)
        super().__init__(features, history, beside(self._rng))
        self._on_change = on_change
        # Asked about writes, unless nobody has set it.
        self.admission: Admission | None = None
        # The time of the last write that gave one.
        self._now_ns = now_ns
        self._namespace_deletion = NamespaceDeletion(
            self._collections,
            self._empty_namespace,
            lambda record, data: self._commit(
                "MODIFIED", record.resource, record.key, data, record
            ),
            self._finish,
        )
        self._quotas = QuotaAccounting(self._collections, self._write_quota)
        self._quota_records = self._collections["resourcequotas"].objects
        self._pods = self.catalog.by_url("", "v1", "pods")
        for api_version, kind, body in () if empty else FIRST_OBJECTS:
            stored = self.catalog.by_manifest(api_version, kind)
            assert stored is not None
            self.create(stored, None, body, now_ns)

    def finish_deletions(self, now_ns: int) -> None:
        """Go on with deletions of namespaces that an earlier life of the store had begun."""
        namespaces = self._collections["namespaces"]
        for record in list(namespaces.objects.values()):
            if "deletionTimestamp" in record.data["metadata"]:
                self._delete_namespace(record, now_ns)

    # Writing

    def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Json,
        now_ns: int,
        *,
        dry_run: bool = False,
        trusted: bool = False,
    ) -> Record:
        """Store a new object. `trusted` says that the body was made from its type.

        Raises:
            ApiError: 400, 403, 404 (no such namespace), 409 or 422.
        """
        document = body if trusted else checked_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        strategy = resource.strategy
        given: Json = document.get("metadata", {})
        namespace = self._namespace_for(resource, given, namespace)
        if given.get("resourceVersion", "") not in ("", "0", None):
            text = "resourceVersion should not be set on objects to be created"
            raise api_errors.unknown_failure(text)
        created = stamp(now_ns)
        counted = strategy.counts_generations
        metadata = new_metadata(
            given, namespace, generated_uid(self._rng), created, counted=counted
        )
        new = self._defaulted(resource, {**document, "metadata": metadata}, None)
        if self.admission is not None and self.admission.has_rules:
            wanted = self.admission.mutate(
                Review(resource, "CREATE", metadata.get("name", ""), namespace, new)
            )
            new = self._defaulted(resource, wanted, None)
        new = strategy.prepare_create(strategy.admit(new, self), created)
        objects = self.collection(resource).objects
        if not metadata.get("name") and metadata.get("generateName"):
            new = self._named(new, namespace, objects)
        problems = strategy.check(new, namespaced=resource.namespaced)
        name = new["metadata"].get("name", "")
        if problems:
            raise api_errors.invalid(resource.group_kind, name, problems)
        key = key_of(namespace, name)
        if key in objects:
            raise api_errors.already_exists(resource.group_resource, name)
        if self.admission is not None and self.admission.has_rules:
            self.admission.review(Review(resource, "CREATE", name, namespace, new, dry_run=dry_run))
        if self._quota_records and namespace:
            self._quotas.check(resource, namespace, new)
        if dry_run:
            return self._shown(resource, Record(self._stored_as(resource), key, new, self.revision))
        return self._shown(resource, self._commit("ADDED", resource, key, new, None))

    def load(
        self, resource: Resource, body: Json, now_ns: int, *, keep_deletion: bool = False
    ) -> Record | None:
        """Take over an object as another server had it, with its identity and its status.

        Nothing is admitted or checked beyond its types; a namespace that is missing is made.
        None if an object of that name is there, which stays as it is.

        Raises:
            ApiError: 400, it is not an object of this kind.
        """
        document = checked_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        given: Json = document.get("metadata", {})
        dropped = _OF_ANOTHER_SERVER - _DELETION if keep_deletion else _OF_ANOTHER_SERVER
        metadata = {key: value for key, value in given.items() if key not in dropped}
        metadata.setdefault("uid", generated_uid(self._rng))
        metadata.setdefault("creationTimestamp", stamp(now_ns))
        namespace = metadata.get("namespace", "")
        if resource.namespaced and self.find("namespaces", namespace) is None:
            self.create(
                self._collections["namespaces"].resource,
                None,
                {"metadata": {"name": namespace}},
                now_ns,
            )
        key = key_of(namespace, metadata["name"])
        if key in self.collection(resource).objects:
            return None
        new = self._defaulted(resource, {**document, "metadata": metadata}, None)
        return self._shown(resource, self._commit("ADDED", resource, key, new, None))

    def update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Json,
        now_ns: int,
        *,
        subresource: str = "",
        dry_run: bool = False,
        trusted: bool = False,
    ) -> Record:
        """Replace an object, or only its status.

        Raises:
            ApiError: 400, 404, 409 (based on an older version, or another uid) or 422.
        """
        document = body if trusted else checked_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        old = self._stored(resource, namespace, name)
        changed = self._replace(resource, old, document, subresource, now_ns, dry_run=dry_run)
        return self._shown(resource, changed)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        now_ns: int,
        *,
        patch_type: PatchType = "strategic",
        subresource: str = "",
        dry_run: bool = False,
        trusted: bool = False,
    ) -> Record:
        """Change parts of an object, or of its status.

        `trusted` says that code of this process made the patch: its types are checked, and neither
        the form of its times nor what it makes the object grow to.

        Raises:
            ApiError: as `update`; 422 for a patch that cannot be applied.
        """
        stored = self._stored(resource, namespace, name)
        old = stored if resource.from_stored is None else self._shown(resource, stored)
        document = _patched(resource, old.data, patch, patch_type)
        if patch_type != "strategic":  # which leaves no null behind
            document = cleaned(document, old.data)
        if not trusted:
            check_details(resource, document, old.data)
            check_object(document)
        base: tuple[Any, Json] | None = None
        if resource.type is not None:
            try:
                base = (derive(old.typed, old.data, document), document)
            except msgspec.ValidationError as exc:
                raise unreadable(resource, str(exc)) from exc
        if resource.to_stored is not None:
            document, base = resource.to_stored(document), None
        changed = self._replace(
            resource, stored, document, subresource, now_ns, base=base, dry_run=dry_run
        )
        return self._shown(resource, changed)

    def _replace(
        self,
        resource: Resource,
        old: Record,
        document: Json,
        subresource: str,
        now_ns: int,
        *,
        base: tuple[Any, Json] | None = None,
        dry_run: bool = False,
    ) -> Record:
        strategy = resource.strategy
        self._now_ns = now_ns
        is_finalizing = subresource == "finalize" and resource.group_resource == "namespaces"
        is_part = strategy.has_status and subresource in strategy.status_parts
        is_spec = subresource in strategy.spec_parts
        if subresource and not is_finalizing and not is_part and not is_spec:
            raise api_errors.unknown_resource()
        metadata = old.data["metadata"]
        given = document.get("metadata", {})
        if given is not metadata:
            check_write(resource, old, given)
            metadata = inherited_metadata(given, metadata)
            document = {**document, "metadata": metadata}
        new = self._defaulted(resource, document, old.data)
        if self.admission is not None and self.admission.has_rules:
            new = self._mutated(resource, new, old, subresource)
            base = None
        if is_finalizing:
            spec = {**old.data.get("spec", {}), "finalizers": new["spec"].get("finalizers", [])}
            new, problems = {**old.data, "metadata": new["metadata"], "spec": spec}, []
        elif is_spec:
            new = strategy.prepare_part(subresource, new, old.data)
            problems = strategy.check_part(subresource, new, old.data)
        elif subresource:
            new = strategy.prepare_status(new, old.data)
            problems = strategy.check_status(new, old.data)
        else:
            new = strategy.prepare_update(new, old.data)
            problems = strategy.check_update(new, old.data)
        if problems:
            raise api_errors.invalid(resource.group_kind, metadata["name"], problems)
        if self.admission is not None and self.admission.has_rules:
            home = metadata.get("namespace", "")
            self.admission.review(
                Review(
                    resource, "UPDATE", metadata["name"], home, new, old.data, subresource, dry_run
                )
            )
        if new == old.data:
            return old
        counts = not subresource or is_spec
        if counts and "generation" in metadata and strategy.changed(new, old.data):
            bumped = {**new["metadata"], "generation": metadata["generation"] + 1}
            new = {**new, "metadata": bumped}
        if dry_run:
            return Record(self._stored_as(resource), old.key, new, old.revision)
        if resource.group_resource == "namespaces":
            changed = self._commit("MODIFIED", resource, old.key, new, old, base=base)
            self._namespace_deletion.go_on(old.key, now_ns)
            return changed
        if ends_deletion(new, old.data):
            self._remove(resource, old)
            return Record(self._stored_as(resource), old.key, new, old.revision)
        return self._commit("MODIFIED", resource, old.key, new, old, base=base)

    def _mutated(self, resource: Resource, new: Json, old: Record, subresource: str) -> Json:
        """A changed object as admission wants it."""
        assert self.admission is not None
        metadata = new["metadata"]
        home = metadata.get("namespace", "")
        asked = Review(resource, "UPDATE", metadata["name"], home, new, old.data, subresource)
        return self._defaulted(resource, self.admission.mutate(asked), old.data)

    def bind(self, namespace: str, name: str, uid: str, node: str, now_ns: int) -> Record:
        """Assign a pod to a node, once. Raises ApiError 404 or 409."""
        pods = self._pods
        old = self._stored(pods, namespace, name)
        check_write(pods, old, {"uid": uid})
        if not node:
            raise api_errors.unknown_failure("target.name: Required value")
        bound = bind(old.data, node, stamp(now_ns), self)
        base = None if old.base is None else on_node(*old.base, bound)
        return self._commit("MODIFIED", pods, old.key, bound, old, base=base)

    def report(self, namespace: str, name: str, uid: str, report: Json, now_ns: int) -> Record:
        """Write what a kubelet says of a pod (`with_report`), as a patch of its status would.

        Raises:
            ApiError: 404, 409 for another uid, or 422.
        """
        pods = self._pods
        old = self._stored(pods, namespace, name)
        data = old.data
        metadata = data["metadata"]
        is_reviewed = self.admission is not None and self.admission.has_rules
        if is_reviewed or "deletionTimestamp" in metadata or metadata["uid"] != uid:
            patch = {"metadata": {"uid": uid}, "status": report}
            return self.patch(
                pods, namespace, name, patch, now_ns, subresource="status", trusted=True
            )
        self._now_ns = now_ns
        before = data.get("status", {})  # what was restored from a file may have none
        status = with_report(before, report)
        policy = data["spec"].get("restartPolicy", "")
        if problems := check_restarts(status, before, policy):
            raise api_errors.invalid(pods.group_kind, name, problems)
        if status == before:
            return old
        new = {**data, "status": status}
        base = None if old.base is None else (with_status(old.base[0], status), new)
        return self._commit("MODIFIED", pods, old.key, new, old, base=base)

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        now_ns: int,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> Deletion:
        """Delete an object, or begin to. With `Foreground` propagation it stays until what it
        owns is gone, which is for a garbage collector to see to.

        Raises:
            ApiError: 404; 409 for another uid or version than the one given.
        """
        old = self._stored(resource, namespace, name)
        check_deletion(resource, old, uid, resource_version)
        if self.admission is not None and self.admission.has_rules:
            home = old.data["metadata"].get("namespace", "")
            self.admission.review(
                Review(resource, "DELETE", name, home, None, old.data, dry_run=dry_run)
            )
        if dry_run:
            return Deletion(self._shown(resource, old), gone=False)
        if resource.group_resource == "namespaces":
            return self._delete_namespace(old, now_ns)
        foreground = propagation == "Foreground"
        deletion = self._delete(resource, old, grace_period_seconds, now_ns, foreground=foreground)
        return Deletion(self._shown(resource, deletion.record), deletion.gone)

    def _delete(
        self,
        resource: Resource,
        old: Record,
        grace_period_seconds: int | None,
        now_ns: int,
        *,
        foreground: bool = False,
    ) -> Deletion:
        data = in_foreground(old.data) if foreground else old.data
        self._now_ns = now_ns
        plan = plan_deletion(resource.strategy, data, grace_period_seconds, now_ns)
        if plan.marked is not None:
            old = self._commit("MODIFIED", resource, old.key, plan.marked, old)
        if not plan.remove:
            return Deletion(old, gone=False)
        return Deletion(self._remove(resource, old), gone=True)

    def delete_collection(
        self,
        resource: Resource,
        namespace: str | None,
        now_ns: int,
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation: str = "",
    ) -> Page:
        """Delete what a list shows, and return that list. `propagation` is as for `delete`."""
        page = self.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )
        objects = self.collection(resource).objects
        foreground = propagation == "Foreground"
        for record in page.records:
            old = objects[record.key]
            self._delete(resource, old, grace_period_seconds, now_ns, foreground=foreground)
        return page

    def _delete_namespace(self, old: Record, now_ns: int) -> Deletion:
        self._namespace_deletion.begin(old, now_ns)
        remaining = self._collections["namespaces"].objects.get(old.key)
        return Deletion(remaining or old, gone=remaining is None)

    # Helpers

    def _namespace_for(self, resource: Resource, given: Json, namespace: str | None) -> str:
        """The namespace that a new object belongs to, which must be there and stay."""
        if not resource.namespaced:
            return ""
        if given.get("namespace", namespace) != namespace:
            text = (
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
            raise api_errors.bad_request(text)
        if not namespace:
            raise api_errors.bad_request("an empty namespace may not be set during creation")
        home = self.find("namespaces", namespace)
        if home is None:
            raise api_errors.not_found("namespaces", namespace)
        if "deletionTimestamp" in home["metadata"]:
            name = given.get("name") or given.get("generateName", "")
            raise api_errors.namespace_terminating(resource.group_resource, name, namespace)
        return namespace

    def _defaulted(self, resource: Resource, new: Json, old: Json | None) -> Json:
        try:
            return resource.strategy.default(new, old)
        except QuantityError as exc:
            raise unreadable(resource, str(exc)) from exc

    def _named(self, new: Json, namespace: str, objects: Mapping[str, Record]) -> Json:
        prefix = new["metadata"]["generateName"]
        for _ in range(_NAME_ATTEMPTS):
            name = generated_name(prefix, self._rng)
            if key_of(namespace, name) not in objects:
                break
        return {**new, "metadata": {**new["metadata"], "name": name}}

    def _commit(
        self,
        kind: ChangeType,
        resource: Resource,
        key: str,
        data: Json,
        previous: Record | None,
        *,
        base: tuple[Any, Json] | None = None,
    ) -> Record:
        self.revision = revision = self.revision + 1
        collection = self._collections[resource.group_resource]
        if base is None and previous is not None:
            base = previous.base
        record = Record.numbered(collection.resource, key, data, revision, base)
        self._publish(collection, StoredChange(kind, record, previous, revision))
        return record

    def _remove(self, resource: Resource, old: Record) -> Record:
        self.revision += 1
        record = old.with_revision(self.revision)
        self._publish(
            self.collection(resource), StoredChange("DELETED", record, old, record.revision)
        )
        if resource.namespaced:
            self._namespace_deletion.go_on(old.data["metadata"]["namespace"], self._now_ns)
        return record

    def _publish(self, collection: Collection, change: StoredChange) -> None:
        if self._on_change is not None:
            try:
                self._on_change(change)
            except BaseException:
                # A number that nothing has is not told: after a restart it would be given again.
                self.revision = change.revision - 1
                raise
        collection.commit(change)
        if self._quota_records:
            self._quotas.account(collection.resource, change)

    def _empty_namespace(self, record: Record, now_ns: int) -> None:
        self._delete(record.resource, record, None, now_ns)

    def _finish(self, record: Record) -> None:
        self._remove(record.resource, record)

    def _write_quota(self, old: Record, data: Json) -> None:
        self._commit("MODIFIED", old.resource, old.key, data, old)


_DELETION = frozenset({"deletionGracePeriodSeconds", "deletionTimestamp"})
# Metadata that means nothing outside the server that wrote it.
_OF_ANOTHER_SERVER = frozenset(
    {
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "managedFields",
        "resourceVersion",
        "selfLink",
    }
)


def _patched(resource: Resource, old: Json, patch: Any, patch_type: PatchType) -> Json:
    if patch_type == "apply" or (patch_type == "strategic" and resource.type is None):
        raise api_errors.unsupported_patch(strategic=resource.type is not None)
    # A path of a JSON patch may lead into a status of which nothing is known yet.
    shows_status = patch_type == "json" and resource.strategy.has_status and "status" not in old
    try:
        patched = apply_patch({**old, "status": {}} if shows_status else old, patch, patch_type)
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc
    if shows_status and patched.get("status") == {}:
        del patched["status"]
    return {key: value for key, value in patched.items() if key not in ("kind", "apiVersion")}
