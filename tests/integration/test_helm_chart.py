"""The chart of deploy/chart: valid objects for each set of values, and no value without effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import kubesched
from kubesched.scheduler.config import complete_configuration, load_configuration
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.server.options.command_line import parse_command_line
from tests.cluster.apiserver.http.client import Client
from tests.integration.helm_chart import CHART, ROOT, SETS, helm, one, render

PROMETHEUS_KINDS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}

# A different value for each path of values.yaml. The path of an object represents all of it.
OTHER_VALUES: dict[str, Any] = {
    "mode": "replacement",
    "schedulerName": "other",
    "replicas": 5,
    "image.repository": "registry.example.com/kubesched",
    "image.tag": "1.2.3",
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
    "extenders": [{"urlPrefix": "http://extender.example.com"}],
    "clientConnection.qps": 50,
    "clientConnection.burst": 60,
    "leaderElection": {"leaseDuration": "30s"},
    "configuration": {"podMaxBackoffSeconds": 5},
    "featureGates": {"GenericWorkload": True},
    "verbosity": 4,
    "logFormat": "json",
    "page": True,
    "explainEvents": True,
    "watchConfig": True,
    "extraArgs": ["--verify-engine"],
    "plugins.modules": ["house.rules:NightShift"],
    "plugins.files": {"rules.py": "x = 1\n"},
    "plugins.configMap": {"name": "shared", "files": ["a.py"]},
    "serviceAccount.create": False,
    "serviceAccount.name": "other",
    "serviceAccount.annotations": {"example.com/a": "b"},
    "rbac.create": False,
    "resources": {"requests": {"cpu": "2"}},
    "priorityClassName": "",
    "terminationGracePeriodSeconds": 60,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/a": "b"},
    "podDisruptionBudget.create": False,
    "podDisruptionBudget.maxUnavailable": "50%",
    "podMonitor.create": True,
    "podMonitor.interval": "10s",
    "podMonitor.labels": {"example.com/a": "b"},
    "prometheusRule.create": True,
    "prometheusRule.labels": {"example.com/a": "b"},
    "dashboards.create": True,
    "dashboards.labels": {"example.com/a": "b"},
    "dashboards.annotations": {"example.com/a": "b"},
}


def paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Return the paths of a values file; an empty or free object is one value."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and path not in OTHER_VALUES:
            yield from paths(value, f"{path}.")
        else:
            yield path


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def everything_on(path: str) -> dict[str, Any]:
    """Return values in which the part of a path is created at all."""
    part = path.split(".")[0]
    return {part: {"create": True}} if path.startswith(("podM", "prom", "dash")) else {}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_the_linter_finds_no_problems(values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout


def test_each_value_is_covered() -> None:
    documented = set(paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert documented == set(OTHER_VALUES)


@pytest.mark.parametrize("path", OTHER_VALUES)
def test_each_value_changes_the_objects(path: str) -> None:
    base = everything_on(path) if not path.endswith(".create") else {}
    changed = {**base}
    part, value = path.split(".")[0], nested(path, OTHER_VALUES[path])
    changed[part] = {**base.get(part, {}), **value[part]} if part in base else value[part]
    assert render(changed) != render(base)


def checksum(values: dict[str, Any]) -> str:
    (deployment,) = (each for each in render(values) if each["kind"] == "Deployment")
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["checksum/config"])


def test_with_watch_config_only_fields_that_need_a_restart_replace_the_pods() -> None:
    profiles = {"profiles": [{"schedulerName": "a"}], "configuration": {"podMaxBackoffSeconds": 5}}
    extenders = {"extenders": [{"urlPrefix": "http://extender.example.com"}]}
    assert checksum(profiles) != checksum({})
    watched = {"watchConfig": True}
    assert checksum({**watched, **profiles}) == checksum(watched)
    assert checksum({**watched, **extenders}) != checksum(watched)


@pytest.mark.parametrize("path", ["replica", "image.name", "podMonitor.crate", "plugins.file"])
def test_a_misspelt_value_is_refused(path: str) -> None:
    done = helm("template", "kubesched", str(CHART), values=nested(path, "x"))
    assert done.returncode != 0
    assert path.rpartition(".")[2] in done.stderr


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_the_api_server_accepts_the_objects(values: dict[str, Any]) -> None:
    client = Client()
    for kind, plural in PROMETHEUS_KINDS.items():
        client.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind, plural)
        )
    for document in render(values):
        resource = client.store.catalog.by_manifest(document["apiVersion"], document["kind"])
        assert resource is not None, document["kind"]
        prefix = "/apis" if "/" in document["apiVersion"] else "/api"
        namespace = document["metadata"].get("namespace")
        local = f"/namespaces/{namespace}" if namespace else ""
        options = "dryRun=All&fieldValidation=Strict"
        path = f"{prefix}/{document['apiVersion']}{local}/{resource.plural}?{options}"
        status, body = client.send("POST", path, document)
        assert status == 201, body


def definition(kind: str, plural: str) -> dict[str, Any]:
    """Return a definition of a kind of the Prometheus operator that accepts any spec."""
    group = "monitoring.coreos.com"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_the_scheduler_accepts_its_arguments_and_configuration(values: dict[str, Any]) -> None:
    objects = render(values)
    container = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    options = [option for option in container["args"] if option.startswith("-")]
    assert not parse_command_line(options).arguments
    files = [option for option in options if option.startswith("--plugin=/etc/kubesched-plugins/")]
    shipped = one(objects, "ConfigMap", "kubesched-plugins")["data"] if files else {}
    assert [option.rpartition("/")[2] for option in files] == list(shipped)

    plugins = out_of_tree_plugins([str(ROOT / "examples" / name) for name in shipped])
    text = one(objects, "ConfigMap", "kubesched-config")["data"]["config.yaml"]
    configuration = load_configuration(text, known_args=plugins.known_args())
    complete_configuration(configuration, {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()})
    if values.get("mode") == "shadow":
        assert configuration.profiles[0].scheduler_name == "default-scheduler"
        return
    lease = configuration.leader_election
    rule = one(objects, "Role", "kubesched-leader-election")
    assert lease.resource_namespace == rule["metadata"]["namespace"]
    assert [lease.resource_name] in [each.get("resourceNames") for each in rule["rules"]]
    replaces = values.get("mode") == "replacement"
    assert lease.resource_name == ("kube-scheduler" if replaces else "kubesched")
    assert configuration.profiles[0].scheduler_name == (
        "default-scheduler" if replaces else "kubesched"
    )


def test_the_roles_are_those_of_the_kustomization() -> None:
    ours = one(render({}), "ClusterRole")["rules"]
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()))
    assert ours == one(documents, "ClusterRole")["rules"]
    monitored = render({"podMonitor": {"create": True}})
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "podmonitor.yaml").read_text()))
    name = "kubesched-metrics"
    assert (
        one(monitored, "ClusterRole", name)["rules"] == one(documents, "ClusterRole", name)["rules"]
    )


def test_the_pods_are_those_of_the_kustomization() -> None:
    """The chart's default pods differ only in labels, names and the arguments that have values."""
    chart = one(render({}), "Deployment")["spec"]["template"]["spec"]
    plain = yaml.safe_load(
        (ROOT / "deploy" / "deployment.yaml").read_text().partition("\n---\n")[0]
    )["spec"]["template"]["spec"]
    (ours,), (theirs,) = chart.pop("containers"), plain.pop("containers")
    for varied in ("topologySpreadConstraints", "volumes"):
        del chart[varied], plain[varied]
    del ours["imagePullPolicy"]  # the kustomization leaves it to the cluster's default
    for varied in ("image", "args"):
        del ours[varied], theirs[varied]
    assert chart == plain
    assert ours == theirs


def test_a_changed_configuration_or_plugin_replaces_the_pods() -> None:
    def template(values: dict[str, Any]) -> str:
        return json.dumps(one(render(values), "Deployment")["spec"]["template"])

    assert template({"clientConnection": {"qps": 1, "burst": 1}}) != template({})
    one_rule, other = ({"plugins": {"files": {"a.py": text}}} for text in ("x = 1", "x = 2"))
    assert template(one_rule) != template(other)


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (kubesched.__version__,) * 2
