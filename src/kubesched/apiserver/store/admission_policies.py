"""Ask the policies that a store holds about every write to it.

A policy holds where a binding says so. Policies are compiled when they are first asked, and
again when they change; with none in the store nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.apiserver.rules import api_errors
from kubesched.apiserver.rules.admission import Policy, Review, compile_policy
from kubesched.apiserver.rules.admission.matching import matches, selects
from kubesched.apiserver.rules.admission.strategies import BindingStrategy, PolicyStrategy
from kubesched.apiserver.rules.admission.type_checks import expression_warnings
from kubesched.apiserver.rules.served_resources import Resource, custom_resource
from kubesched.apiserver.store.object_store import Store
from kubesched.apiserver.store.records import Record

__all__ = ["BINDING", "POLICY", "PolicyAdmission", "enforce_policies", "type_checked"]

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"


def _cluster_wide(kind: str, plural: str, strategy: PolicyStrategy | BindingStrategy) -> Resource:
    categories = ("api-extensions",)
    resource = custom_resource(_GROUP, "v1", kind, plural, namespaced=False, categories=categories)
    return msgspec.structs.replace(resource, strategy=strategy)


POLICY = _cluster_wide("ValidatingAdmissionPolicy", "validatingadmissionpolicies", PolicyStrategy())
BINDING = _cluster_wide(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", BindingStrategy()
)


class PolicyAdmission:
    """Judges writes by the policies in a store, which it makes room for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        for resource in (POLICY, BINDING):
            store.register(resource)
        self._policies = store.collection(POLICY).objects
        self._bindings = store.collection(BINDING).objects
        self._compiled: dict[str, tuple[int, Policy]] = {}

    @property
    def has_rules(self) -> bool:
        return bool(self._bindings)

    def review(self, review: Review) -> None:
        """Let a write pass, or refuse it.

        Raises:
            ApiError: a policy denies it; 422 unless the policy says another reason.
        """
        if review.resource.group == _GROUP:
            return
        namespace = self._namespace(review)
        labels = None if namespace is None else namespace["metadata"].get("labels") or {}
        for binding in self._bindings.values():
            spec = binding.data["spec"]
            record = self._policies.get(spec["policyName"])
            if record is None or "Deny" not in (spec.get("validationActions") or ()):
                continue
            constraints = record.data["spec"].get("matchConstraints") or {}
            if matches(constraints, review, labels) and matches(
                spec.get("matchResources") or {}, review, labels
            ):
                self._judge(record, binding, review, namespace)

    def _judge(
        self, record: Record, binding: Record, review: Review, namespace: Json | None
    ) -> None:
        policy = self._policy(record)
        for params in self._params(record.data["spec"], binding, review):
            for denial in policy.judge(review, params, namespace):
                raise api_errors.denied_by_policy(
                    review.resource.group_resource,
                    review.name,
                    f"ValidatingAdmissionPolicy '{record.key}' with binding '{binding.key}' "
                    f"denied request: {denial.message}",
                    denial.reason,
                )

    def _policy(self, record: Record) -> Policy:
        known = self._compiled.get(record.key)
        if known is None or known[0] != record.revision:
            known = (record.revision, compile_policy(record.data["spec"])[0])
            self._compiled[record.key] = known
        return known[1]

    def _namespace(self, review: Review) -> Json | None:
        if not review.namespace:
            return None
        return self._store.find("namespaces", review.namespace) or {
            "metadata": {"name": review.namespace}
        }

    def _params(self, spec: Json, binding: Record, review: Review) -> Iterator[Json | None]:
        """The parameters that a policy is to be evaluated with, one evaluation for each."""
        kind, reference = spec.get("paramKind"), binding.data["spec"].get("paramRef")
        if not kind or not reference:
            yield None
            return
        resource = self._store.catalog.by_manifest(kind.get("apiVersion", ""), kind.get("kind", ""))
        found = [] if resource is None else self._referenced(resource, reference, review)
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise api_errors.denied_by_policy(
                review.resource.group_resource,
                review.name,
                f"ValidatingAdmissionPolicy '{binding.data['spec']['policyName']}' with binding "
                f"'{binding.key}' denied request: failed to configure binding: no params found for "
                "policy binding with `Deny` parameterNotFoundAction",
                "Invalid",
            )
        yield from found

    def _referenced(self, resource: Resource, reference: Json, review: Review) -> list[Json]:
        namespace = reference.get("namespace") or review.namespace
        home = namespace if resource.namespaced else None
        if name := reference.get("name"):
            record = self._store.find_record(resource, home, name)
            records = [] if record is None else [record]
        else:
            chosen = self._store.list(resource, home).records
            records = [
                each
                for each in chosen
                if selects(reference.get("selector"), [each.data["metadata"].get("labels") or {}])
            ]
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**head, **each.data} for each in records]


def enforce_policies(store: Store) -> None:
    """Let a store have policies, and ask them. Idempotent."""
    if store.admission is None:
        store.admission = PolicyAdmission(store)


def type_checked(store: Store, record: Record, now_ns: int) -> Record:
    """A policy whose status says how its expressions fit the kinds that it is about."""

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
