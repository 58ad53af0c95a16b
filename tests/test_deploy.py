"""The manifests of deploy/ parse, are consistent, and grant the permissions of the scheduler."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.api.kinds import kind_of
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.util.clock import ManualClock
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.load import load_configuration
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.server.options.command_line import parse_command_line

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"


def documents() -> list[dict[str, Any]]:
    return [
        document
        for path in sorted(DEPLOY.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if path.name != "static-pod.yaml"
    ]


def one(kind: str, name: str = "kubesched") -> dict[str, Any]:
    (found,) = [
        document
        for document in documents()
        if document["kind"] == kind and document.get("metadata", {}).get("name") == name
    ]
    return found


def allowed() -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each permission of the cluster role."""
    return {
        (group, resource, verb)
        for rule in one("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_configuration_is_valid() -> None:
    configuration = load_configuration((DEPLOY / "config.yaml").read_bytes())
    assert [profile.scheduler_name for profile in configuration.profiles] == ["kubesched"]
    names = one("Role", "kubesched-leader-election")["rules"][1]["resourceNames"]
    assert configuration.leader_election.resource_name in names
    assert "kube-scheduler" in names, "it may replace kube-scheduler"
    assert configuration.leader_election.resource_namespace == "kube-system"


def test_the_role_allows_listing_and_watching_every_watched_kind() -> None:
    clock = ManualClock()
    gates = FeatureGates({"GenericWorkload": True, "GangScheduling": True})
    scheduler = Scheduler(LocalApi(Store(), clock), clock, feature_gates=gates)
    rights = allowed()
    for informer in scheduler.informers.components():
        kind = kind_of(informer.kind)
        for verb in ("get", "list", "watch"):
            assert (kind.group, kind.plural, verb) in rights


WRITES = [
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("", "pods", "delete"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("", "persistentvolumes", "update"),
    ("", "persistentvolumeclaims", "update"),
    ("", "events", "create"),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
]


@pytest.mark.parametrize("right", WRITES, ids=" ".join)
def test_the_role_allows_the_scheduler_all_its_writes(right: tuple[str, str, str]) -> None:
    assert right in allowed()


def test_the_role_is_that_of_the_chapter() -> None:
    """The roles have the same groups and resources as those of the reference."""
    chapter = (ROOT / "docs" / "reference" / "02-server.md").read_text()
    table = chapter.partition("ClusterRole `system:kube-scheduler`:")[2].partition("For scraping")[
        0
    ]
    for group, resource, _ in allowed():
        assert resource in table, resource
        assert group in table, group


def test_the_deployment_has_two_replicas_with_probes_and_the_account() -> None:
    deployment = one("Deployment")["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    assert pod["serviceAccountName"] == one("ServiceAccount")["metadata"]["name"]
    (container,) = pod["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert container["ports"][0]["containerPort"] == 10259
    mounted = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= mounted


def test_kustomization_names_files_that_exist() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    for resource in kustomization["resources"]:
        assert (DEPLOY / resource).is_file()


def test_a_changed_configuration_rolls_the_pods() -> None:
    """The generated name carries a checksum, and kustomize writes it where pods refer to it."""
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    (generator,) = kustomization["configMapGenerator"]
    volumes = one("Deployment")["spec"]["template"]["spec"]["volumes"]
    (mounted,) = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    assert generator == {"name": mounted, "files": ["config.yaml"]}
    options = kustomization.get("generatorOptions", {})
    assert not options.get("disableNameSuffixHash")
    assert not [each for each in documents() if each["kind"] == "ConfigMap"], "it would not roll"


def test_the_static_pod_mounts_what_its_flags_name() -> None:
    pod = yaml.safe_load((DEPLOY / "static-pod.yaml").read_text())["spec"]
    (container,) = pod["containers"]
    named = {arg.partition("=")[2] for arg in container["args"] if "=/etc" in arg}
    assert named == {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {volume["hostPath"]["path"] for volume in pod["volumes"]} == named
    options = [arg for arg in container["args"] if arg.startswith("--")]
    assert not parse_command_line(options).arguments


def test_the_image_pins_what_the_package_needs_by_hash() -> None:
    lines = (DEPLOY / "requirements.txt").read_text().replace("\\\n", "").splitlines()
    pinned = {line.partition(" ")[0]: line for line in lines if not line.startswith("#")}
    developed = set((ROOT / "requirements-dev.txt").read_text().splitlines())
    assert set(pinned) <= developed
    assert all("--hash=sha256:" in line for line in pinned.values())
    names = {pin.partition("==")[0].lower().replace("_", "-") for pin in pinned}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[>=<]", each)[0].lower() for each in project["dependencies"]}
    assert declared <= names


def test_the_image_runs_without_root_and_without_a_compiler() -> None:
    build, final = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1:]
    assert "--require-hashes -r requirements.txt" in build
    assert "apt-get" not in final
    (user,) = re.findall(r"^USER (\d+):\d+$", final, re.MULTILINE)
    assert (
        int(user) == one("Deployment")["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    )
    assert re.search(r'^ENTRYPOINT \["kubesched"\]$', final, re.MULTILINE)
