from __future__ import annotations

from kubesched.api import ContainerImage, Node, NodeStatus, ObjectMeta
from kubesched.framework import ImageState
from kubesched.scheduler.backend.image_table import ImageTable


def node(name: str, *images: tuple[int, str]) -> Node:
    reported = tuple(ContainerImage(names=(image,), size_bytes=size) for size, image in images)
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(images=reported))


def test_a_name_that_a_node_mentions_twice_counts_once_with_its_first_size() -> None:
    table, twice = ImageTable(), node("n1", (10, "a"), (20, "a"))
    table.add(twice)
    assert table.states(twice) == {"a": ImageState(10, 1)}
    other = node("n2", (30, "a"))
    table.add(other)
    assert table.states(other) == {"a": ImageState(10, 2)}
    table.remove(twice)
    assert table.states(other) == {"a": ImageState(10, 1)}
    table.remove(other)
    assert table.states(other) == {}


def test_nodes_with_the_same_count_share_one_state() -> None:
    table, first, second = ImageTable(), node("n1", (10, "a")), node("n2", (10, "a"))
    table.add(first)
    table.add(second)
    assert table.states(first)["a"] is table.states(second)["a"]
