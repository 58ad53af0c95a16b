from __future__ import annotations

import pytest

from kubesched.errors import CacheError
from kubesched.scheduler.backend.node_tree import NodeTree, zone_key
from kubesched.testing import make_node

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def tree_of(**zone_of: str) -> NodeTree:
    tree = NodeTree()
    for name, zone in zone_of.items():
        tree.add(make_node(name, labels={ZONE: zone}))
    return tree


def test_nodes_are_listed_round_robin_over_zones_in_the_order_they_were_added() -> None:
    tree = tree_of(a="z1", d="z1", b="z2", c="z3", e="z3", f="z3")
    assert tree.listing().names() == ["a", "b", "c", "d", "e", "f"]


def test_a_zone_that_emptied_and_came_back_is_listed_last() -> None:
    tree = tree_of(a="z1", b="z2")
    tree.remove(make_node("a", labels={ZONE: "z1"}))
    tree.add(make_node("c", labels={ZONE: "z1"}))
    assert tree.listing().names() == ["b", "c"]


def test_a_node_that_changes_its_zone_moves_to_the_end_of_the_new_zone() -> None:
    tree = tree_of(a="z1", b="z2", c="z2")
    tree.update(make_node("a", labels={ZONE: "z1"}), make_node("a", labels={ZONE: "z2"}))
    assert tree.listing().names() == ["b", "c", "a"]


def test_a_duplicate_is_ignored_and_an_unknown_node_cannot_be_removed() -> None:
    tree = tree_of(a="z1")
    tree.add(make_node("a", labels={ZONE: "z1"}))
    assert len(tree) == 1
    with pytest.raises(CacheError):
        tree.remove(make_node("b", labels={ZONE: "z1"}))


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({}, ""),
        ({ZONE: "z"}, ":\x00:z"),
        ({"topology.kubernetes.io/region": "r"}, "r:\x00:"),
        ({ZONE: "new", OLD_ZONE: "old"}, ":\x00:old"),
        ({ZONE: "new", OLD_ZONE: ""}, ""),
    ],
    ids=["no labels", "zone", "region", "the old label wins", "even when it is empty"],
)
def test_zone_key(labels: dict[str, str], want: str) -> None:
    assert zone_key(make_node("n", labels=labels)) == want
