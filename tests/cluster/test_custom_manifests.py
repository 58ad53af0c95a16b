"""Files with definitions, custom objects, policies and roles, as operators ship them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.manifest_kinds import stored_definitions
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.errors import ManifestError
from kubesched.foundation.util.clock import ManualClock

OPERATOR = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: before-its-definition}
spec: {size: 2}
---
apiVersion: example.com/v1
kind: Rack
metadata: {name: of-the-cluster}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, maximum: 5}, color: {type: string, default: red}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: racks.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: racks, kind: Rack}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: ["*"]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations: [{expression: object.spec.replicas < 10}]
"""


def load(text: str, folder: Path) -> Store:
    file = folder / "all.yaml"
    file.write_text(text)
    clock = ManualClock(10**18)
    api = LocalApi(Store(random.Random(1), now_ns=clock.now_ns()), clock)
    asyncio.run(apply_manifests(api, load_manifests([file])))
    return api.store


def test_an_operators_files_are_taken_whole(tmp_path: Path) -> None:
    store = load(OPERATOR, tmp_path)

    def stored(group: str, plural: str, name: str, namespace: str | None = None) -> Any:
        return store.get(store.catalog.by_url(group, "v1", plural), namespace, name).data

    widget = stored("example.com", "widgets", "before-its-definition", "default")
    assert widget["spec"] == {"size": 2, "color": "red"}
    assert "namespace" not in stored("example.com", "racks", "of-the-cluster")["metadata"]
    assert stored("rbac.authorization.k8s.io", "clusterroles", "operator")["rules"]
    policy = stored("networking.k8s.io", "networkpolicies", "deny", "default")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert stored("admissionregistration.k8s.io", "validatingadmissionpolicies", "small")


def test_schema_violations_are_found_before_the_cluster_runs(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"all.yaml:5: spec.size: Invalid value: 9"):
        load(OPERATOR.replace("size: 2", "size: 9"), tmp_path)


def test_an_undefined_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match='no kind "Gadget" is known'):
        load(OPERATOR.replace("kind: Rack\nmetadata", "kind: Gadget\nmetadata"), tmp_path)


def test_definitions_that_a_cluster_already_has_are_used(tmp_path: Path) -> None:
    definition, widget = tmp_path / "definition.yaml", tmp_path / "widget.yaml"
    parts = OPERATOR.split("---\n")
    definition.write_text(next(each for each in parts if "widgets.example.com" in each))
    widget.write_text(parts[0])
    api = LocalApi(Store(random.Random(0)), ManualClock(0))
    asyncio.run(apply_manifests(api, load_manifests([definition])))
    with pytest.raises(ManifestError, match="CustomResourceDefinition missing"):
        load_manifests([widget])
    known = load_manifests([widget], stored_definitions(api.store))
    asyncio.run(apply_manifests(api, known))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(parts[0].replace("size: 2", "size: many"))
    with pytest.raises(ManifestError, match=r"spec\.size"):
        load_manifests([wrong], stored_definitions(api.store))
