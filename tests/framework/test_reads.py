"""Parts of a pod: they cover the whole pod, and none overlaps another."""

from __future__ import annotations

from collections import Counter

from kubesched.api import PodSpec
from kubesched.framework import PodPart, PodsOnNode, Reads
from kubesched.framework.reads import POD_FIELDS


def test_every_field_of_the_spec_is_in_one_part() -> None:
    counts = Counter(
        path.removeprefix("spec.")
        for paths in POD_FIELDS.values()
        for path in paths
        if path.startswith("spec.")
    )
    # Affinity has a part for nodes and one for pods.
    assert counts == Counter(set(PodSpec.__struct_fields__) - {"affinity"})


def test_a_template_is_all_but_the_identity() -> None:
    assert PodPart.TEMPLATE | PodPart.IDENTITY == PodPart.ALL
    assert not PodPart.TEMPLATE & PodPart.IDENTITY
    assert set(POD_FIELDS) == set(PodPart.TEMPLATE)


def test_the_default_reads_everything_and_is_not_cached() -> None:
    reads = Reads()
    assert reads.pod == PodPart.ALL
    assert reads.pods_on_node is PodsOnNode.DETAIL
    assert reads.objects is None
    assert not reads.is_cacheable
    assert not Reads(other_nodes=False).is_cacheable  # the pod's name may matter
    assert not Reads(pod=PodPart.TEMPLATE).is_cacheable
    assert Reads(pod=PodPart.TEMPLATE, other_nodes=False).is_cacheable
