"""The operator creates and updates Deployments, on a cluster with its custom resource."""

from __future__ import annotations

from pathlib import Path

import kubernetes
import pytest
from kopf.testing import KopfRunner

from kubesched.api import Deployment
from kubesched.testing import Cluster

HERE = Path(__file__).parent
WEBSITE = {
    "apiVersion": "example.com/v1",
    "kind": "Website",
    "metadata": {"name": "shop"},
    "spec": {"image": "shop:v1", "replicas": 2},
}
OF = ("example.com", "v1", "default", "websites")


@pytest.mark.kubesched(files=[HERE / "website.yaml"])
def test_a_website_has_a_deployment_that_follows_it(
    kubesched_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(kubesched_cluster.kubeconfig_path)
    monkeypatch.setenv("KUBECONFIG", path)
    websites = kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(path))
    arguments = ["run", "--standalone", "--namespace=default", str(HERE / "website_operator.py")]
    with KopfRunner(arguments, timeout=30) as operator:
        websites.create_namespaced_custom_object(*OF, WEBSITE)
        kubesched_cluster.wait(Deployment, "shop", "Available", timeout_s=20)
        websites.patch_namespaced_custom_object(*OF, "shop", {"spec": {"replicas": 3}})
        kubesched_cluster.wait(
            Deployment, "shop", lambda shop: shop.status.ready_replicas == 3, timeout_s=20
        )
        with pytest.raises(kubernetes.client.ApiException) as refusal:
            websites.patch_namespaced_custom_object(*OF, "shop", {"spec": {"replicas": 30}})
        assert refusal.value.status == 422, "the schema says ten at most"
    assert operator.exception is None
    assert operator.exit_code == 0
