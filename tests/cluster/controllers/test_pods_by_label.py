"""The index of pods by label gives what a scan of all pods gives, and reads only what it has to."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.labels import NOTHING, Selector
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.testing import make_pod

SELECTORS = [
    "app=a",
    "app=a,tier=x",
    "tier!=x",
    "app in (a,b)",
    "app in (a),tier notin (x)",
    "!tier",
    "missing=1",
    "",
    ",".join([f"k{number}!=x" for number in range(20)] + ["app=a"]),
]


def random_pod(rng: random.Random, uid: str, version: int) -> Pod:
    labels = {key: rng.choice("abx") for key in ("app", "tier") if rng.random() < 0.7}
    namespace = "one" if int(uid) % 3 else "two"
    pod = make_pod(f"p{uid}", namespace=namespace, uid=uid, labels=labels)
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(version)))


@pytest.mark.parametrize("seed", range(5))
def test_the_index_agrees_with_a_scan(seed: int) -> None:
    rng = random.Random(seed)
    index, present = ObjectIndex(), dict[str, Pod]()
    for step in range(1, 400):
        uid = str(rng.randrange(30))
        if uid in present and rng.random() < 0.3:
            index.remove(uid)
            del present[uid]
        else:
            pod = random_pod(rng, uid, step)
            index.observe(pod)
            present[uid] = pod
        selector = Selector.parse(rng.choice(SELECTORS))
        for namespace in ("one", "two"):
            found = index.pods_matching(namespace, selector)
            assert sorted(pod.metadata.uid for pod in found) == sorted(
                uid
                for uid, pod in present.items()
                if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)
            )


def test_the_empty_selector_matches_no_pods() -> None:
    index = ObjectIndex()
    index.observe(make_pod("p", uid="1"))
    assert index.pods_matching("default", NOTHING) == []


def test_a_plan_reads_the_pods_of_its_selector_only(monkeypatch: pytest.MonkeyPatch) -> None:
    index = ObjectIndex()
    for number in range(1000):
        index.observe(make_pod(f"p{number}", uid=str(number), labels={"app": f"a{number % 100}"}))
    index.pods_matching("default", Selector.parse("app=a0"))
    compared: list[object] = []
    matches = Selector.matches

    def counted(selector: Selector, labels: dict[str, str]) -> bool:
        compared.append(labels)
        return matches(selector, labels)

    monkeypatch.setattr(Selector, "matches", counted)
    monkeypatch.delattr(ObjectIndex, "all")  # reads every pod
    assert len(index.pods_matching("default", Selector.parse("app=a7"))) == 10
    assert len(compared) == 10


def test_a_pod_that_changes_its_label_leaves_its_former_selector() -> None:
    index = ObjectIndex()
    pod = make_pod("p", uid="1", labels={"app": "a"})
    pod = replace(pod, metadata=replace(pod.metadata, resource_version="1"))
    index.observe(pod)
    assert index.pods_matching("default", Selector.parse("app=a")) == [pod]
    metadata = replace(pod.metadata, labels={"app": "b"}, resource_version="2")
    changed = replace(pod, metadata=metadata)
    index.observe(changed)
    assert index.pods_matching("default", Selector.parse("app=a")) == []
    assert index.pods_matching("default", Selector.parse("app=b")) == [changed]
