"""Objects as typed Go clients encode them: as protobuf with zeros and empty structures.

Each object is created twice, from JSON and from protobuf. Both results must be equal.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kubesched.cluster.apiserver.http.protobuf import PROTOBUF, write_protobuf
from tests.cluster.apiserver.http.client import Client
from tests.cluster.apiserver.http.go_form import as_in_go
from tests.integration.certificates import make_request

Json = dict[str, Any]

POD: Json = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "value": "b"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "resources": {"requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/x"}],
        }
    ],
    "tolerations": [
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    ],
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "z",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                    },
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTOR: Json = {"matchLabels": {"a": "b"}}
REQUEST = base64.b64encode(make_request("ann", "devs")[1]).decode()
NEVER = {**POD, "restartPolicy": "Never"}
OBJECTS: list[tuple[str, str, str, Json]] = [
    ("v1", "Pod", "pods", {"spec": POD}),
    ("v1", "Namespace", "namespaces", {}),
    (
        "v1",
        "Node",
        "nodes",
        {
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"capacity": {"cpu": "4"}},
        },
    ),
    (
        "v1",
        "Service",
        "services",
        {
            "spec": {
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}],
                "selector": {"a": "b"},
            }
        },
    ),
    ("v1", "Secret", "secrets", {"data": {"a": "AAEC"}, "immutable": False}),
    ("v1", "ConfigMap", "configmaps", {"data": {"a": "b"}, "binaryData": {"c": "AAEC"}}),
    (
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "storageClassName": "s",
            }
        },
    ),
    (
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
            }
        },
    ),
    (
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": TEMPLATE}},
    ),
    (
        "v1",
        "ResourceQuota",
        "resourcequotas",
        {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}},
    ),
    (
        "v1",
        "LimitRange",
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    ),
    ("v1", "ServiceAccount", "serviceaccounts", {"automountServiceAccountToken": False}),
    ("v1", "PodTemplate", "podtemplates", {"template": TEMPLATE}),
    (
        "v1",
        "Event",
        "events",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "R",
            "message": "m",
            "type": "Normal",
            "count": 1,
            "source": {"component": "x"},
        },
    ),
    (
        "v1",
        "Endpoints",
        "endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ),
    (
        "apps/v1",
        "Deployment",
        "deployments",
        {"spec": {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE}},
    ),
    (
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ),
    (
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"serviceName": "x", "selector": SELECTOR, "template": TEMPLATE}},
    ),
    ("apps/v1", "DaemonSet", "daemonsets", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("apps/v1", "ControllerRevision", "controllerrevisions", {"revision": 1, "data": {"a": 1}}),
    ("batch/v1", "Job", "jobs", {"spec": {"completions": 2, "template": {"spec": NEVER}}}),
    (
        "batch/v1",
        "CronJob",
        "cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": NEVER}}}}},
    ),
    (
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    ),
    (
        "coordination.k8s.io/v1",
        "Lease",
        "leases",
        {
            "spec": {
                "holderIdentity": "h",
                "leaseDurationSeconds": 10,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            }
        },
    ),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {"value": 0, "description": "d"}),
    (
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        {"provisioner": "p", "reclaimPolicy": "Retain"},
    ),
    ("storage.k8s.io/v1", "CSIDriver", "csidrivers", {"spec": {"attachRequired": False}}),
    (
        "storage.k8s.io/v1",
        "CSINode",
        "csinodes",
        {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 0}}]}},
    ),
    (
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "x"}}},
    ),
    (
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        {"storageClassName": "s", "capacity": "1Gi"},
    ),
    (
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        {"driverName": "d", "parameters": {"a": "b"}},
    ),
    (
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        {"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}},
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        {
            "spec": {
                "rules": [
                    {
                        "host": "a",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            }
        },
    ),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "Role",
        "roles",
        {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        },
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {"spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}},
    ),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}],
        },
    ),
    (
        "events.k8s.io/v1",
        "Event",
        "events",
        {
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c",
            "reportingInstance": "i",
            "action": "A",
            "reason": "R",
            "type": "Normal",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "note": "n",
        },
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        "flowschemas",
        {"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 5}},
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        {
            "spec": {
                "type": "Limited",
                "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
            }
        },
    ),
    (
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        {"spec": {"request": REQUEST, "signerName": "a.example/b", "usages": ["client auth"]}},
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        {
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["apps"],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["deployments"],
                        }
                    ]
                },
                "validations": [{"expression": "object.spec.replicas > 1"}],
            }
        },
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        {
            "spec": {
                "policyName": "p",
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
            }
        },
    ),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        {
            "spec": {
                "reinvocationPolicy": "Never",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["apps"],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["deployments"],
                        }
                    ]
                },
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": "Object{}"},
                    }
                ],
            }
        },
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        {
            "webhooks": [
                {
                    "name": "a.b.c",
                    "clientConfig": {"service": {"name": "s", "namespace": "n"}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["pods"],
                        }
                    ],
                }
            ]
        },
    ),
    (
        "resource.k8s.io/v1",
        "ResourceClaim",
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}},
    ),
    (
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        {
            "spec": {
                "spec": {
                    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
                }
            }
        },
    ),
    (
        "resource.k8s.io/v1",
        "DeviceClass",
        "deviceclasses",
        {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    ),
    (
        "resource.k8s.io/v1",
        "ResourceSlice",
        "resourceslices",
        {
            "spec": {
                "driver": "d",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
                "devices": [{"name": "a", "attributes": {"x": {"int": 0}}}],
            }
        },
    ),
]

SERVER_METADATA = ("uid", "creationTimestamp", "resourceVersion")


def created(document: Json | bytes, api_version: str, kind: str, plural: str) -> Json:
    client = Client()
    resource = client.store.catalog.by_manifest(api_version, kind)
    assert resource is not None
    base = f"/apis/{api_version}" if "/" in api_version else "/api/v1"
    path = f"{base}/namespaces/default/{plural}" if resource.namespaced else f"{base}/{plural}"
    content_type = PROTOBUF if isinstance(document, bytes) else "application/json"
    code, made = client.send("POST", path, document, content_type=content_type)
    assert code == 201, made
    shown = {k: v for k, v in made["metadata"].items() if k not in SERVER_METADATA}
    result: Json = without_empty_metadata({**made, "metadata": shown})
    return result


def without_empty_metadata(value: Any) -> Any:
    """Remove empty metadata of templates, which users may omit and Go clients always encode."""
    if isinstance(value, dict):
        return {
            key: without_empty_metadata(part)
            for key, part in value.items()
            if (key, part) != ("metadata", {})
        }
    return [without_empty_metadata(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "body"), OBJECTS, ids=[f"{e[0]} {e[1]}" for e in OBJECTS]
)
def test_the_json_and_protobuf_forms_are_equal(
    api_version: str, kind: str, plural: str, body: Json
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **body}
    from_json = created(document, api_version, kind, plural)
    assert created(as_in_go(document, api_version, kind), api_version, kind, plural) == from_json
    assert created(write_protobuf(document), api_version, kind, plural) == from_json
