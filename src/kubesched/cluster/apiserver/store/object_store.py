"""The store of the embedded API server: every write to an object.

One counter numbers all writes. The `resourceVersion` of an object is the number of its last
write. The store is a plain class: it does no I/O, reads no clock and starts no tasks. Every
write takes the current time as an argument and is complete when it returns. A write that fails
raises `ApiError` and changes nothing. The reads are in `stored_objects.py`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from kubesched.api.access import PatchType
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.deletion_plan import (
    add_foreground_finalizer,
    ends_deletion,
    plan_deletion,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.errors.value_limit import check_object
from kubesched.cluster.apiserver.rules.generated_metadata import (
    format_timestamp,
    generated_name,
    generated_uid,
    inherited_metadata,
    new_metadata,
)
from kubesched.cluster.apiserver.rules.kubelet_reports import merge_report
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
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
from kubesched.cluster.apiserver.store.conversion_webhooks import VersionConversion
from kubesched.cluster.apiserver.store.first_objects import FIRST_OBJECTS
from kubesched.cluster.apiserver.store.list_pages import Page
from kubesched.cluster.apiserver.store.namespace_deletion import NamespaceDeletion
from kubesched.cluster.apiserver.store.preconditions import check_deletion, check_write
from kubesched.cluster.apiserver.store.quota_accounting import QuotaAccounting
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_objects import StoredObjects, key_of
from kubesched.cluster.apiserver.store.stored_records import ChangeType, Record, StoredChange
from kubesched.cluster.apiserver.store.typed_views import derive_struct, set_node, set_status
from kubesched.errors import QuantityError
from kubesched.foundation.util.randomness import independent_generator

__all__ = ["Deletion", "Store"]

Json = dict[str, Any]

# The number of changes per resource that the log holds at least. A watch can resume within them.
DEFAULT_HISTORY = 10_000
_NAME_ATTEMPTS = 8


class Deletion(NamedTuple):
    """The result of a deletion: the last state of the object."""

    record: Record
    gone: bool  # False if finalizers or a grace period delay the removal


class Admission(Protocol):
    """Admission control: changes or refuses writes before the store commits them."""

    @property
    def has_rules(self) -> bool:
        """Whether there is any rule that could concern a write."""

    def mutate(self, review: Review) -> Json:
        """Return the object to store. Raises ApiError to refuse the write."""

    def review(self, review: Review) -> None:
        """Raises ApiError to refuse a write."""


class Store(StoredObjects):
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
        super().__init__(features, history, independent_generator(self._rng))
        self._on_change = on_change
        # Reviews every write; None if there is no admission control.
        self.admission: Admission | None = None
        # Called after the last object of a custom resource was removed.
        self.emptied: Callable[[Resource, int], None] | None = None
        # The time of the last write that was called with one.
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

    def finish_deletions(self, now_ns: int) -> None:
        """Resume the deletion of namespaces that was under way when the process ended."""
        namespaces = self._collections["namespaces"]
        for record in list(namespaces.objects.values()):
            if "deletionTimestamp" in record.data["metadata"]:
                self._delete_namespace(record, now_ns)

    def recount_quotas(self, now_ns: int) -> None:
        """Correct the statuses of quotas that clients have changed."""
        self._now_ns = now_ns
        self._quotas.recount()

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
        document = _patched(resource, old.data, patch, patch_type)
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
        part = _written_part(resource, subresource) if subresource else "object"
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
        new, problems = _prepared(resource, part, subresource, new, old.data)
        if problems:
            raise api_errors.invalid(resource.group_kind, metadata["name"], problems)
        if part == "object":
            new = resource.strategy.admit_update(new, old.data, self)
        if is_reviewed:
            self._review_update(resource, metadata, new, old, subresource, dry_run=dry_run)
        if new == old.data:
            return old
        if "generation" in metadata and part in ("object", "spec"):
            new = _with_next_generation(resource, metadata, new, old.data)
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

    def _delete(
        self,
        resource: Resource,
        old: Record,
        grace_period_seconds: int | None,
        now_ns: int,
        *,
        foreground: bool = False,
    ) -> Deletion:
        data = add_foreground_finalizer(old.data) if foreground else old.data
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

    def _delete_namespace(self, old: Record, now_ns: int) -> Deletion:
        self._namespace_deletion.begin(old, now_ns)
        remaining = self._collections["namespaces"].objects.get(old.key)
        return Deletion(remaining or old, gone=remaining is None)

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
        _fetch_conversion(resource, data)
        self.revision = revision = self.revision + 1
        collection = self._collections[resource.group_resource]
        if base is None and previous is not None:
            base = previous.base
        record = Record.numbered(collection.resource, key, data, revision, base)
        self._publish(collection, StoredChange(kind, record, previous, revision))
        return record

    def _remove(self, resource: Resource, old: Record) -> Record:
        _fetch_conversion(resource, old.data)
        self.revision += 1
        record = old.with_revision(self.revision)
        self._publish(
            self.collection(resource), StoredChange("DELETED", record, old, record.revision)
        )
        if resource.namespaced:
            self._namespace_deletion.advance(old.data["metadata"]["namespace"], self._now_ns)
        if (
            self.emptied is not None
            and resource.type is None
            and not self.collection(resource).objects
        ):
            self.emptied(resource, self._now_ns)
        return record

    def _publish(self, collection: Collection, change: StoredChange) -> None:
        if self._on_change is not None:
            try:
                self._on_change(change)
            except BaseException:
                # No client may see the number of a failed write: after a restart the store would
                # use it again.
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


_WrittenPart = Literal["object", "spec", "status", "finalizers"]


def _check_is_new(requested: Json) -> None:
    if requested.get("resourceVersion", "") not in ("", "0", None):
        text = "resourceVersion should not be set on objects to be created"
        raise api_errors.unknown_failure(text)


def _fetch_conversion(resource: Resource, data: Json) -> None:
    """Make sure that the response to a write can be converted. Raises CallsNeededError."""
    if isinstance(resource.from_stored, VersionConversion):
        resource.from_stored.fetch([data])


def _written_part(resource: Resource, subresource: str) -> _WrittenPart:
    """Return the part of an object that a subresource writes. Raises ApiError 404."""
    strategy = resource.strategy
    if subresource == "finalize" and resource.group_resource == "namespaces":
        return "finalizers"
    if subresource in strategy.spec_parts:
        return "spec"
    if strategy.has_status and subresource in strategy.status_parts:
        return "status"
    raise api_errors.unknown_resource()


def _prepared(
    resource: Resource, part: _WrittenPart, subresource: str, new: Json, old: Json
) -> tuple[Json, list[FieldProblem]]:
    """Return the object with only the part changed that the write may change, and its problems."""
    strategy = resource.strategy
    if part == "object":
        new = strategy.prepare_update(new, old)
        return new, strategy.check_update(new, old)
    if part == "status":
        new = strategy.prepare_status(new, old)
        return new, strategy.check_status(new, old)
    if part == "spec":
        new = strategy.prepare_part(subresource, new, old)
        return new, strategy.check_part(subresource, new, old)
    spec = {**old.get("spec", {}), "finalizers": new.get("spec", {}).get("finalizers", [])}
    return {**old, "metadata": new["metadata"], "spec": spec}, []


def _with_next_generation(resource: Resource, metadata: Json, new: Json, old: Json) -> Json:
    """Increment the generation in `metadata` if the write changes the spec."""
    if not resource.strategy.changed(new, old):
        return new
    return {**new, "metadata": {**new["metadata"], "generation": metadata["generation"] + 1}}


def _patched(resource: Resource, old: Json, patch: Any, patch_type: PatchType) -> Json:
    if patch_type == "apply" or (patch_type == "strategic" and resource.type is None):
        raise api_errors.unsupported_patch(strategic=resource.type is not None)
    # The reference always has a status, so a path of a JSON patch may lead into an empty one.
    shows_status = patch_type == "json" and resource.strategy.has_status and "status" not in old
    rules = kind_merge_rules(resource.group, resource.version, resource.kind)
    shown = {**old, "status": {}} if shows_status else old
    try:
        patched = apply_patch(shown, patch, patch_type, rules)
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc
    if shows_status and patched.get("status") == {}:
        del patched["status"]
    return {key: value for key, value in patched.items() if key not in ("kind", "apiVersion")}
