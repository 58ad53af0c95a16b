"""Deployments that were scaled down for the night get their previous size in the morning."""

from __future__ import annotations

import lightkube
import pytest
from lightkube.codecs import load_all_yaml
from night_shift import good_morning, good_night

from kubesched.api import Deployment
from kubesched.testing import Cluster

DEPLOYMENTS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: reports, namespace: default, labels: {example.com/night-shift: "true"}}
spec: &spec
  replicas: 3
  selector: {matchLabels: {app: reports}}
  template:
    metadata: {labels: {app: reports}}
    spec: {containers: [{name: c, image: reports}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: shop}]}
"""


@pytest.mark.kubesched(nodes=1)
def test_only_annotated_deployments_are_scaled_down(kubesched_cluster: Cluster) -> None:
    config = lightkube.KubeConfig.from_file(str(kubesched_cluster.kubeconfig_path))
    client = lightkube.Client(config=config)
    for each in load_all_yaml(DEPLOYMENTS):
        client.create(each)
    wait = kubesched_cluster.wait
    wait(Deployment, "reports", "Available")
    assert good_night(client) == ["reports"]
    wait(Deployment, "reports", lambda reports: reports.status.replicas == 0)
    assert good_night(client) == [], "it sleeps already"
    assert good_morning(client) == ["reports"]
    wait(Deployment, "reports", lambda reports: reports.status.ready_replicas == 3)
    wait(Deployment, "shop", lambda shop: shop.status.ready_replicas == 2)
