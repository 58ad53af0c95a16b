"""The rules for certificate signing requests.

The spec of a request is immutable. Its conditions of approval are written by the subresource
`approval`, its certificate by `status`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, forbidden
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
)
from kubesched.cluster.apiserver.rules.validation.certificate_validation import (
    APPROVED,
    DENIED,
    check_certificate,
    check_condition_changes,
    check_conditions,
    check_request,
    organizations,
)
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_metadata_update
from kubesched.cluster.apiserver.rules.validation.names import path_segment

__all__ = ["CertificateRequestStrategy"]

_CLIENT = "kubernetes.io/kube-apiserver-client"
_MASTERS = "system:masters"
_APPROVAL = "approval"


class CertificateRequestStrategy(ResourceStrategy):
    """Restricts who may write which part of a request, and validates its content."""

    name_rule = staticmethod(path_segment)
    has_status = True
    has_stamps = True
    spec_parts = (_APPROVAL,)

    def admit(self, new: Json, _cluster: ObjectLookup, /) -> Json:
        spec = new.get("spec") or {}
        if spec.get("signerName") == _CLIENT and _MASTERS in _organizations(spec):
            text = f"use of {_CLIENT} signer with {_MASTERS} group is not allowed"
            plural = "certificatesigningrequests.certificates.k8s.io"
            raise api_errors.forbidden(plural, new["metadata"].get("name", ""), text)
        return new

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        return {**old, "metadata": new["metadata"]}

    def stamp_update(self, new: Json, old: Json, stamp: str, /) -> Json:
        """Set the missing times of conditions."""
        conditions = _conditions(new)
        if all(
            each.get("lastUpdateTime") and each.get("lastTransitionTime") for each in conditions
        ):
            return new
        since = {
            (each.get("type"), each.get("status")): each["lastTransitionTime"]
            for each in _conditions(old)
            if each.get("lastTransitionTime")
        }
        stamped = [
            {
                **each,
                "lastUpdateTime": each.get("lastUpdateTime") or stamp,
                "lastTransitionTime": each.get("lastTransitionTime")
                or since.get((each.get("type"), each.get("status")), stamp),
            }
            for each in conditions
        ]
        return {**new, "status": {**new["status"], "conditions": stamped}}

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        """Change the status, but not the content of conditions of approval."""
        status = dict(new.get("status") or {})
        if conditions := list(status.get("conditions") or ()):
            status["conditions"] = _with_approvals(conditions, _conditions(old))
        return {**old, "metadata": new["metadata"], "status": status}

    def prepare_part(self, _part: str, new: Json, old: Json, /) -> Json:
        status = {**(old.get("status") or {}), "conditions": list(_conditions(new))}
        return {**old, "metadata": new["metadata"], "status": status}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_request(new.get("spec") or {}))

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_metadata_update(new["metadata"], old["metadata"])

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        before, after = _certificate(old), _certificate(new)
        problems = _condition_problems(new, old, approves=False)
        if before != after:
            problems += check_certificate(after)
            if before:
                text = "updates may not modify existing certificate content"
                problems.append(forbidden("status.certificate", text))
        return problems + check_metadata_update(new["metadata"], old["metadata"])

    def check_part(self, _part: str, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = _condition_problems(new, old, approves=True)
        return problems + check_metadata_update(new["metadata"], old["metadata"])


def _organizations(spec: Json) -> tuple[str, ...]:
    try:
        return organizations(spec.get("request"))
    except ValueError:
        return ()  # validation reports it


def _conditions(request: Json) -> Sequence[Json]:
    return (request.get("status") or {}).get("conditions") or ()


def _certificate(request: Json) -> str:
    return (request.get("status") or {}).get("certificate") or ""


def _condition_problems(new: Json, old: Json, *, approves: bool) -> list[FieldProblem]:
    after, before = _conditions(new), _conditions(old)
    return [
        *check_conditions(after, before),
        *check_condition_changes(after, before, approves=approves),
    ]


def _with_approvals(new: list[Json], old: Sequence[Json]) -> list[Json]:
    """Return the new conditions with the approvals of the old ones, unless their number differs."""
    for kind in (APPROVED, DENIED):
        stored = [each for each in old if each.get("type") == kind]
        places = [place for place, each in enumerate(new) if each.get("type") == kind]
        if len(stored) == len(places):
            for place, each in zip(places, stored, strict=True):
                new[place] = each
    return new
