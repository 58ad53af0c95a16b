"""How strategic merge patches treat lists, as the Go types of the reference declare it."""

from __future__ import annotations

import pytest

from kubesched.cluster.apiserver.rules.patching.merge_rules import MergeRule, kind_merge_rules

# The `patchMergeKey` tags of the Go types; "" is a list of scalars that merges, and None a list
# that a patch replaces.
TAGS: list[tuple[str, str, str | None]] = [
    ("admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", "webhooks", "name"),
    ("admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", "webhooks.rules", None),
    (
        "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration",
        "webhooks.matchConditions",
        "name",
    ),
    ("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", "webhooks", "name"),
    ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "spec.variables", "name"),
    ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "spec.validations", None),
    ("apps/v1/Deployment", "spec.template.spec.containers", "name"),
    ("apps/v1/Deployment", "spec.template.spec.containers.ports", "containerPort"),
    ("apps/v1/Deployment", "spec.template.spec.containers.args", None),
    ("apps/v1/StatefulSet", "spec.volumeClaimTemplates", None),
    ("apps/v1/Deployment", "status.conditions", "type"),
    ("batch/v1/CronJob", "spec.jobTemplate.spec.template.spec.volumes", "name"),
    ("batch/v1/Job", "spec.podFailurePolicy.rules", None),
    ("certificates.k8s.io/v1/CertificateSigningRequest", "status.conditions", None),
    ("discovery.k8s.io/v1/EndpointSlice", "ports", None),
    ("autoscaling/v2/HorizontalPodAutoscaler", "status.conditions", "type"),
    ("autoscaling/v2/HorizontalPodAutoscaler", "spec.metrics", None),
    ("networking.k8s.io/v1/Ingress", "spec.rules", None),
    ("rbac.authorization.k8s.io/v1/ClusterRole", "rules", None),
    ("resource.k8s.io/v1/ResourceClaim", "status.reservedFor", "uid"),
    ("resource.k8s.io/v1/ResourceClaim", "spec.devices.requests", None),
    ("storage.k8s.io/v1/CSINode", "spec.drivers", "name"),
    ("/v1/Endpoints", "subsets", None),
    ("/v1/Node", "spec.taints", None),
    ("/v1/Node", "spec.podCIDRs", ""),
    ("/v1/Node", "status.addresses", "type"),
    ("/v1/Node", "status.images", None),
    ("/v1/Pod", "metadata.finalizers", ""),
    ("/v1/Pod", "metadata.ownerReferences", "uid"),
    ("/v1/Pod", "spec.tolerations", None),
    ("/v1/Pod", "spec.hostAliases", "ip"),
    ("/v1/Pod", "spec.topologySpreadConstraints", "topologyKey"),
    ("/v1/Pod", "spec.ephemeralContainers.volumeMounts", "mountPath"),
    ("/v1/Pod", "spec.containers.volumeDevices", "devicePath"),
    ("/v1/Pod", "status.containerStatuses", None),
    ("/v1/Pod", "status.podIPs", "ip"),
    ("/v1/Service", "spec.ports", "port"),
    ("/v1/ServiceAccount", "secrets", "name"),
    ("/v1/ServiceAccount", "imagePullSecrets", None),
    ("example.com/v1/Custom", "metadata.ownerReferences", "uid"),
    ("example.com/v1/Custom", "spec.containers", None),
]


def rule_at(kind: str, path: str) -> MergeRule:
    group, version, name = kind.split("/")
    rules = kind_merge_rules(group, version, name)
    *above, last = path.split(".")
    for field in above:
        rules = rules.field(field).inner
    return rules.field(last)


@pytest.mark.parametrize(("kind", "path", "key"), TAGS)
def test_lists_merge_as_their_go_types_declare(kind: str, path: str, key: str | None) -> None:
    rule = rule_at(kind, path)
    assert (rule.merges, rule.key or "") == (key is not None, key or "")


def test_the_selector_of_a_budget_is_replaced() -> None:
    assert rule_at("policy/v1/PodDisruptionBudget", "spec.selector").replaces
    assert not rule_at("apps/v1/Deployment", "spec.selector").replaces


def test_fields_of_users_are_not_stored() -> None:
    labels = kind_merge_rules("", "v1", "Pod").field("metadata").inner.field("labels").inner
    assert labels.field("one") is labels.field("another")
