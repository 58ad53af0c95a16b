"""The store of the embedded API server: every write to an object.

One counter numbers all writes. The `resourceVersion` of an object is the number of its last
write. The store is a plain class: it does no I/O, reads no clock and starts no tasks. Every
write takes the current time as an argument and is complete when it returns. A write that fails
raises `ApiError` and changes nothing. The reads are in `stored_objects.py`, the log and the
numbers in `committed_objects.py`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubesched.api.access import PatchType
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.deletion_plan import ends_deletion
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import (
    format_timestamp,
    generated_name,
    generated_uid,
    inherited_metadata,
    new_metadata,
)
from kubesched.cluster.apiserver.rules.kubelet_reports import merge_report
from kubesched.cluster.apiserver.rules.request_documents import (
    check_document,
    check_types_of_fields,
    decode_details,
    invalid_body,
    remove_nulls,
)
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.strategies.pod_strategy import bind
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.apiserver.rules.validation.pod_validation import check_restarts
from kubesched.cluster.apiserver.store.committed_objects import CommittedObjects, Deletion
from kubesched.cluster.apiserver.store.first_objects import FIRST_OBJECTS
from kubesched.cluster.apiserver.store.list_pages import Page
from kubesched.cluster.apiserver.store.object_updates import (
    patched_document,
    prepared_update,
    with_next_generation,
    written_part,
)
from kubesched.cluster.apiserver.store.preconditions import check_deletion, check_write
from kubesched.cluster.apiserver.store.stored_objects import key_of
from kubesched.cluster.apiserver.store.stored_records import Record, StoredChange
from kubesched.cluster.apiserver.store.typed_views import derive_struct, set_node, set_status
from kubesched.errors import QuantityError
from kubesched.foundation.util.randomness import independent_generator

__all__ = ["Store"]

Json = dict[str, Any]

# The number of changes per resource that the log holds at least. A watch can resume within them.
DEFAULT_HISTORY = 10_000
_NAME_ATTEMPTS = 8


class Admission(Protocol):
    """Admission control: changes or refuses writes before the store commits them."""

    @property
    def has_rules(self) -> bool:
        """Whether there is any rule that could concern a write."""

    def mutate(self, review: Review) -> Json:
        """Return the object to store. Raises ApiError to refuse the write."""

    def review(self, review: Review) -> None:
        """Raises ApiError to refuse a write."""


class Store(CommittedObjects):
    """All objects of a cluster.

    A new store contains the initial namespaces and priority classes (`FIRST_OBJECTS`).
    """

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
        """Create the initial objects, unless `empty` says that the caller restores a state.

        The store calls `on_change` before it commits a change. If `on_change` raises, the change
        does not happen. Kinds and fields that need a feature exist only if `features` has it.
        """
        self._rng = rng or random.Random(0)
        super().__init__(features, history, independent_generator(self._rng), now_ns, on_change)
        # Reviews every write; None if there is no admission control.
        self.admission: Admission | None = None
        self._checks_quotas = True
        self._pods = self.catalog.by_url("", "v1", "pods")
        for api_version, kind, body in () if empty else FIRST_OBJECTS:
            stored = self.catalog.by_manifest(api_version, kind)
            assert stored is not None
            self.create(stored, None, body, now_ns)

    def draw_seed(self) -> int:
        """Return a number for the generated values of a write that may be repeated."""
        return self._rng.getrandbits(64)

    @contextlib.contextmanager
    def drawing_from(self, rng: random.Random) -> Iterator[None]:
        """Generate uids and names from another source while the block runs."""
        before, self._rng = self._rng, rng
        try:
            yield
        finally:
            self._rng = before

    # Writing

    @contextlib.contextmanager
    def own_writes(self) -> Iterator[None]:
        """Write objects of the server itself: no policy and no quota refuses them.

        Otherwise policies could prevent the start of a cluster.
        """
        admission, self.admission, self._checks_quotas = self.admission, None, False
        try:
            yield
        finally:
            self.admission, self._checks_quotas = admission, True

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
        """Store a new object.

        `trusted` says that the caller encoded the body from a typed struct, so the store does
        not check its types again.

        Raises:
            ApiError: 400, 403, 404 (no such namespace), 409 or 422.
        """
        document = body if trusted else check_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        strategy = resource.strategy
        requested: Json = document.get("metadata", {})
        namespace = self._namespace_for(resource, requested, namespace)
        _check_is_new(requested)
        created = format_timestamp(now_ns)
        counted = strategy.counts_generations
        metadata = new_metadata(
            requested, namespace, generated_uid(self._rng), created, counted=counted
        )
        new = self._defaulted(resource, {**document, "metadata": metadata}, None)
        if self.admission is not None and self.admission.has_rules:
            mutated = self.admission.mutate(
                Review(
                    resource,
                    "CREATE",
                    metadata.get("name", ""),
                    namespace,
                    new,
                    dry_run=dry_run,
                )
            )
            new = self._defaulted(resource, mutated, None)
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
        if self._quota_records and namespace and self._checks_quotas:
            self._quotas.check(resource, namespace, new)
        if resource.prune_for_store is not None:
            new = resource.prune_for_store(new)
        if dry_run:
            return self._as_served(
                resource, Record(self._stored_resource(resource), key, new, self.revision)
            )
        return self._as_served(resource, self._commit("ADDED", resource, key, new, None))

    def load(
        self, resource: Resource, body: Json, now_ns: int, *, keep_deletion: bool = False
    ) -> Record | None:
        """Import an object from another server, with its uid and its status.

        With `keep_deletion` an object that is being deleted stays in that state.

        The store checks only the types of its fields. No admission and no validation run. The
        store creates the namespace if it does not exist. If an object of that name exists, the
        store leaves it unchanged and returns None.

        Raises:
            ApiError: 400, it is not an object of this kind.
        """
        document = check_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        imported: Json = document.get("metadata", {})
        dropped = _SERVER_METADATA - _DELETION if keep_deletion else _SERVER_METADATA
        metadata = {key: value for key, value in imported.items() if key not in dropped}
        metadata.setdefault("uid", generated_uid(self._rng))
        metadata.setdefault("creationTimestamp", format_timestamp(now_ns))
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
        new = resource.strategy.complete_loaded(new)
        return self._as_served(resource, self._commit("ADDED", resource, key, new, None))

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
        """Replace an object, or only the part that a subresource writes.

        Raises:
            ApiError: 400, 404, 409 (based on an older version, or another uid) or 422.
        """
        document = body if trusted else check_document(resource, body)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
        old = self._get_stored(resource, namespace, name)
        changed = self._replace(resource, old, document, subresource, now_ns, dry_run=dry_run)
        return self._as_served(resource, changed)

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
        """Apply a patch to an object, or only to the part that a subresource writes.

        `trusted` says that code in this process built the patch. The store then checks the types
        of the result, but not the format of its times nor its size.

        Raises:
            ApiError: as `update`; 422 for a patch that cannot be applied.
        """
        stored = self._get_stored(resource, namespace, name)
        old = stored if resource.from_stored is None else self._as_served(resource, stored)
        document = patched_document(resource, old.data, patch, patch_type)
        if patch_type != "strategic":  # a strategic patch leaves no null values
            document = remove_nulls(document, old.data)
        if not trusted:
            if resource.type is not None:
                check_types_of_fields(resource, document, old.data)
            document = decode_details(resource, document, old.data)
            check_object(document)
        base: tuple[Any, Json] | None = None
        if resource.type is not None:
            try:
                base = (derive_struct(old.typed, old.data, document), document)
            except msgspec.ValidationError as exc:
                raise invalid_body(resource, str(exc)) from exc
        if resource.to_stored is not None:
            document, base = resource.to_stored(document), None
        changed = self._replace(
            resource, stored, document, subresource, now_ns, base=base, dry_run=dry_run
        )
        return self._as_served(resource, changed)

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
        self._now_ns = now_ns
        part = written_part(resource, subresource) if subresource else "object"
        metadata = old.data["metadata"]
        requested = document.get("metadata", {})
        if requested is not metadata:
            check_write(resource, old, requested)
            metadata = inherited_metadata(requested, metadata)
            document = {**document, "metadata": metadata}
        new = self._defaulted(resource, document, old.data)
        is_reviewed = self.admission is not None and self.admission.has_rules
        if is_reviewed:
            new = self._mutated(resource, new, old, subresource, dry_run=dry_run)
            base = None
        if resource.strategy.has_stamps:
            new = resource.strategy.stamp_update(new, old.data, format_timestamp(now_ns))
        new, problems = prepared_update(resource, part, subresource, new, old.data)
        if problems:
            raise api_errors.invalid(resource.group_kind, metadata["name"], problems)
        if part == "object":
            new = resource.strategy.admit_update(new, old.data, self)
        if is_reviewed:
            self._review_update(resource, metadata, new, old, subresource, dry_run=dry_run)
        if resource.prune_for_store is not None:
            new = resource.prune_for_store(new)
        if new == old.data:
            return old
        if "generation" in metadata and part in ("object", "spec"):
            new = with_next_generation(resource, metadata, new, old.data)
        if dry_run:
            return Record(self._stored_resource(resource), old.key, new, old.revision)
        if resource.group_resource == "namespaces":
            changed = self._commit("MODIFIED", resource, old.key, new, old, base=base)
            self._namespace_deletion.advance(old.key, now_ns)
            return changed
        if ends_deletion(new, old.data):
            self._remove(resource, old)
            return Record(self._stored_resource(resource), old.key, new, old.revision)
        return self._commit("MODIFIED", resource, old.key, new, old, base=base)

    def _mutated(
        self, resource: Resource, new: Json, old: Record, subresource: str, *, dry_run: bool
    ) -> Json:
        """Run mutating admission on an object that is being updated."""
        assert self.admission is not None
        metadata = new["metadata"]
        namespace = metadata.get("namespace", "")
        review = Review(
            resource, "UPDATE", metadata["name"], namespace, new, old.data, subresource, dry_run
        )
        return self._defaulted(resource, self.admission.mutate(review), old.data)

    def _review_update(
        self,
        resource: Resource,
        metadata: Json,
        new: Json,
        old: Record,
        subresource: str,
        *,
        dry_run: bool,
    ) -> None:
        """Run validating admission of an update. Raises ApiError."""
        assert self.admission is not None
        namespace = metadata.get("namespace", "")
        self.admission.review(
            Review(
                resource,
                "UPDATE",
                metadata["name"],
                namespace,
                new,
                old.data,
                subresource,
                dry_run,
            )
        )

    def bind(self, namespace: str, name: str, uid: str, node: str, now_ns: int) -> Record:
        """Assign a pod to a node, once. Raises ApiError 404 or 409."""
        pods = self._pods
        old = self._get_stored(pods, namespace, name)
        check_write(pods, old, {"uid": uid})
        if not node:
            raise api_errors.unknown_failure("target.name: Required value")
        bound = bind(old.data, node, format_timestamp(now_ns), self)
        base = None if old.base is None else set_node(*old.base, bound)
        return self._commit("MODIFIED", pods, old.key, bound, old, base=base)

    def report(self, namespace: str, name: str, uid: str, report: Json, now_ns: int) -> Record:
        """Write a kubelet's report into the status of a pod.

        The result is that of a strategic merge patch, but faster (see `merge_report`).

        Raises:
            ApiError: 404, 409 for another uid, or 422.
        """
        pods = self._pods
        old = self._get_stored(pods, namespace, name)
        data = old.data
        metadata = data["metadata"]
        is_reviewed = self.admission is not None and self.admission.has_rules
        if is_reviewed or "deletionTimestamp" in metadata or metadata["uid"] != uid:
            patch = {"metadata": {"uid": uid}, "status": report}
            return self.patch(
                pods, namespace, name, patch, now_ns, subresource="status", trusted=True
            )
        self._now_ns = now_ns
        before = data.get("status", {})  # a pod that was restored from a file may have none
        status = merge_report(before, report)
        policy = data["spec"].get("restartPolicy", "")
        if problems := check_restarts(status, before, policy):
            raise api_errors.invalid(pods.group_kind, name, problems)
        if status == before:
            return old
        new = {**data, "status": status}
        base = None if old.base is None else (set_status(old.base[0], status), new)
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
        """Delete an object, or mark it as being deleted.

        With `Foreground` propagation the object stays until its dependents are gone. A garbage
        collector deletes those and then removes the finalizer.

        Raises:
            ApiError: 404; 409 if `uid` or `resource_version` is not that of the object.
        """
        old = self._get_stored(resource, namespace, name)
        check_deletion(resource, old, uid, resource_version)
        if self.admission is not None and self.admission.has_rules:
            namespace_name = old.data["metadata"].get("namespace", "")
            self.admission.review(
                Review(resource, "DELETE", name, namespace_name, None, old.data, dry_run=dry_run)
            )
        if dry_run:
            return Deletion(self._as_served(resource, old), gone=False)
        if resource.group_resource == "namespaces":
            return self._delete_namespace(old, now_ns)
        foreground = propagation == "Foreground"
        deletion = self._delete(resource, old, grace_period_seconds, now_ns, foreground=foreground)
        return Deletion(self._as_served(resource, deletion.record), deletion.gone)

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
        """Delete all objects that a list with these selectors returns, and return that list.

        `propagation` has the same meaning as for `delete`.
        """
        page = self.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )
        objects = self.collection(resource).objects
        foreground = propagation == "Foreground"
        for record in page.records:
            old = objects[record.key]
            self._delete(resource, old, grace_period_seconds, now_ns, foreground=foreground)
        return page

    # Helpers

    def _namespace_for(self, resource: Resource, metadata: Json, namespace: str | None) -> str:
        """Check and return the namespace of a new object.

        The namespace must exist and must not be terminating.
        """
        if not resource.namespaced:
            return ""
        if metadata.get("namespace", namespace) != namespace:
            text = (
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
            raise api_errors.bad_request(text)
        if not namespace:
            raise api_errors.bad_request("an empty namespace may not be set during creation")
        found = self.find("namespaces", namespace)
        if found is None:
            raise api_errors.not_found("namespaces", namespace)
        if "deletionTimestamp" in found["metadata"]:
            name = metadata.get("name") or metadata.get("generateName", "")
            raise api_errors.namespace_terminating(resource.group_resource, name, namespace)
        return namespace

    def _defaulted(self, resource: Resource, new: Json, old: Json | None) -> Json:
        try:
            return resource.strategy.default(new, old)
        except QuantityError as exc:
            raise invalid_body(resource, str(exc)) from exc

    def _named(self, new: Json, namespace: str, objects: Mapping[str, Record]) -> Json:
        prefix = new["metadata"]["generateName"]
        for _ in range(_NAME_ATTEMPTS):
            name = generated_name(prefix, self._rng)
            if key_of(namespace, name) not in objects:
                break
        return {**new, "metadata": {**new["metadata"], "name": name}}


_DELETION = frozenset({"deletionGracePeriodSeconds", "deletionTimestamp"})
# Metadata that is valid only on the server that wrote it.
_SERVER_METADATA = frozenset(
    {
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "managedFields",
        "resourceVersion",
        "selfLink",
    }
)


def _check_is_new(requested: Json) -> None:
    if requested.get("resourceVersion", "") not in ("", "0", None):
        text = "resourceVersion should not be set on objects to be created"
        raise api_errors.unknown_failure(text)
