"""Admission control by the policies in a store.

A policy applies to a write if one of its bindings matches the write. A policy is compiled when
it is first evaluated, and again after it has changed. Without bindings there is no cost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver.rules.admission import (
    MutationError,
    Review,
    compile_mutation,
    compile_policy,
)
from kubesched.cluster.apiserver.rules.admission.policy_matching import matches, selects
from kubesched.cluster.apiserver.rules.admission.policy_strategies import (
    BindingStrategy,
    MutationBindingStrategy,
    MutationStrategy,
    PolicyStrategy,
)
from kubesched.cluster.apiserver.rules.admission.type_checks import expression_warnings
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource, custom_resource
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import ResourceStrategy
from kubesched.cluster.apiserver.store.admission_webhooks import WebhookAdmission
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = [
    "BINDING",
    "MUTATION",
    "MUTATION_BINDING",
    "POLICY",
    "PolicyAdmission",
    "enforce_policies",
    "write_type_check",
]

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_MOST_WARNINGS = 20


def _cluster_wide(kind: str, plural: str, strategy: ResourceStrategy) -> Resource:
    categories = ("api-extensions",)
    resource = custom_resource(_GROUP, "v1", kind, plural, namespaced=False, categories=categories)
    made = plain_type(f"{_GROUP}/v1", kind)
    return msgspec.structs.replace(resource, strategy=strategy, type=made)


POLICY = _cluster_wide("ValidatingAdmissionPolicy", "validatingadmissionpolicies", PolicyStrategy())
BINDING = _cluster_wide(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", BindingStrategy()
)
MUTATION = _cluster_wide("MutatingAdmissionPolicy", "mutatingadmissionpolicies", MutationStrategy())
MUTATION_BINDING = _cluster_wide(
    "MutatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings",
    MutationBindingStrategy(),
)

_Compiled = TypeVar("_Compiled")


class _Policies(Generic[_Compiled]):
    """The policies of one kind with their bindings."""

    def __init__(
        self,
        store: Store,
        policy: Resource,
        binding: Resource,
        compile_spec: Callable[[Json], tuple[_Compiled, Any]],
    ) -> None:
        for resource in (policy, binding):
            store.register(resource)
        self.kind = policy.kind
        self.bindings = store.collection(binding).objects
        self._policies = store.collection(policy).objects
        self._compile = compile_spec
        self._compiled: dict[str, tuple[int, _Compiled]] = {}

    def matching(
        self, review: Review, labels: Mapping[str, str] | None
    ) -> Iterator[tuple[Record, Record]]:
        """Iterate over the policies that apply to a write, each with its matching binding."""
        for binding in self.bindings.values():
            spec = binding.data["spec"]
            record = self._policies.get(spec["policyName"])
            if record is None:
                continue
            constraints = record.data["spec"].get("matchConstraints") or {}
            if matches(constraints, review, labels) and matches(
                spec.get("matchResources") or {}, review, labels
            ):
                yield record, binding

    def compiled(self, record: Record) -> _Compiled:
        """Return the compiled policy from the cache, or compile it."""
        cached = self._compiled.get(record.key)
        if cached is None or cached[0] != record.revision:
            cached = (record.revision, self._compile(record.data["spec"])[0])
            self._compiled[record.key] = cached
        return cached[1]


class PolicyAdmission:
    """Mutates and validates writes by the policies in a store.

    The constructor registers the resources of policies and bindings in the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requester: Json = {}
        self._warnings: list[str] = []
        self._validating = _Policies(store, POLICY, BINDING, compile_policy)
        self._mutating = _Policies(store, MUTATION, MUTATION_BINDING, compile_mutation)
        self.webhooks = WebhookAdmission(store)

    @property
    def has_rules(self) -> bool:
        return bool(self._validating.bindings or self._mutating.bindings or self.webhooks.has_rules)

    def mutate(self, review: Review) -> Json:
        """Return the object of a write, changed by the mutating policies.

        Raises:
            ApiError: 422, a policy could not be applied.
        """
        assert review.new is not None
        if review.resource.group == _GROUP:
            return review.new
        review = msgspec.structs.replace(review, user=self._requester)
        namespace, labels = self._namespace(review)
        for record, binding in self._mutating.matching(review, labels):
            policy = self._mutating.compiled(record)
            for params in self._params(self._mutating.kind, record, binding, review):
                try:
                    changed = policy.apply(review, params, namespace)
                except MutationError as error:
                    raise _denied(
                        self._mutating.kind, record, binding, review, str(error)
                    ) from error
                review = msgspec.structs.replace(review, new=changed)
        review = self.webhooks.mutate(review, self._warnings)
        assert review.new is not None
        return review.new

    @contextlib.contextmanager
    def request_by(self, requester: Json) -> Iterator[list[str]]:
        """Evaluate policies for writes of this user while the block runs.

        `requester` is the user in the form of a review. The context variable is the list of
        warnings that policies raise for these writes.
        """
        self._requester, self._warnings = requester, []
        try:
            yield self._warnings
        finally:
            self._requester, self._warnings = {}, []

    def review(self, review: Review) -> None:
        """Evaluate the validating policies for a write.

        Raises:
            ApiError: a policy denies the write; 422 unless the policy has another reason.
        """
        if review.resource.group == _GROUP:
            return
        review = msgspec.structs.replace(review, user=self._requester)
        namespace, labels = self._namespace(review)
        kind = self._validating.kind
        for record, binding in self._validating.matching(review, labels):
            actions = binding.data["spec"].get("validationActions") or ()
            policy = self._validating.compiled(record)
            for params in self._params(kind, record, binding, review):
                for denial in policy.evaluate(review, params, namespace):
                    if "Deny" in actions:
                        raise _denied(kind, record, binding, review, denial.message, denial.reason)
                    if "Warn" in actions and len(self._warnings) < _MOST_WARNINGS:
                        self._warnings.append(
                            f"Validation failed for {kind} '{record.key}' with binding "
                            f"'{binding.key}': {denial.message}"
                        )
        self.webhooks.review(review, self._warnings)

    def _namespace(self, review: Review) -> tuple[Json | None, Mapping[str, str] | None]:
        """Return the namespace of a write and its labels, or None for cluster-scoped objects."""
        if not review.namespace:
            return None, None
        unknown: Json = {"metadata": {"name": review.namespace}}
        namespace = self._store.find("namespaces", review.namespace) or unknown
        return namespace, namespace["metadata"].get("labels") or {}

    def _params(
        self, policy_kind: str, record: Record, binding: Record, review: Review
    ) -> Iterator[Json | None]:
        """Iterate over the parameter objects; the policy is evaluated once with each."""
        kind, reference = record.data["spec"].get("paramKind"), binding.data["spec"].get("paramRef")
        if not kind or not reference:
            yield None
            return
        resource = self._store.catalog.by_manifest(kind.get("apiVersion", ""), kind.get("kind", ""))
        found = [] if resource is None else self._referenced(resource, reference, review)
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            text = (
                "failed to configure binding: no params found for policy binding with `Deny` "
                "parameterNotFoundAction"
            )
            raise _denied(policy_kind, record, binding, review, text)
        yield from found

    def _referenced(self, resource: Resource, reference: Json, review: Review) -> list[Json]:
        namespace = reference.get("namespace") or review.namespace
        scope = namespace if resource.namespaced else None
        if name := reference.get("name"):
            record = self._store.find_record(resource, scope, name)
            records = [] if record is None else [record]
        else:
            selector = reference.get("selector")
            records = [
                each
                for each in self._store.list(resource, scope).records
                if selects(selector, [each.data["metadata"].get("labels") or {}])
            ]
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**head, **each.data} for each in records]


def _denied(
    kind: str,
    record: Record,
    binding: Record,
    review: Review,
    text: str,
    reason: str = "Invalid",
) -> ApiError:
    message = f"{kind} '{record.key}' with binding '{binding.key}' denied request: {text}"
    plural = review.resource.group_resource
    return api_errors.denied_by_policy(plural, review.name, message, reason)


def enforce_policies(store: Store) -> PolicyAdmission:
    """Set up admission by policies in a store. Idempotent."""
    if not isinstance(store.admission, PolicyAdmission):
        store.admission = PolicyAdmission(store)
    return store.admission


def write_type_check(store: Store, record: Record, now_ns: int) -> Record:
    """Check the types of a policy's expressions and write the result into its status."""

    def find(group: str, version: str, plural: str) -> Resource | None:
        for resource in store.catalog.all():
            if (resource.group, resource.version, resource.plural) == (group, version, plural):
                return resource
        return None

    warnings = expression_warnings(record.data["spec"], find)
    status = {
        "observedGeneration": record.data["metadata"].get("generation", 1),
        "typeChecking": {"expressionWarnings": warnings} if warnings else {},
    }
    changed = {**record.data, "status": {**record.data.get("status", {}), **status}}
    return store.update(POLICY, None, record.key, changed, now_ns, subresource="status")
