"""`kubesched.connect`: access to a cluster in one call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import kubesched
from kubesched.api import Node
from kubesched.api.custom_kinds import custom_kind
from kubesched.api.meta import ObjectMeta
from kubesched.cluster.apiserver.rules.resources.served_resources import custom_resource
from kubesched.errors import ConfigError
from kubesched.testing import Cluster, make_node


def test_a_kubeconfig_is_enough() -> None:
    async def main() -> list[str]:
        async with Cluster(nodes=2) as cluster:
            api = kubesched.connect(cluster.kubeconfig_path)
            try:
                await api.create(make_node("mine", resource_version="", uid=""))
                return sorted(node.metadata.name for node in (await api.list(Node)).items)
            finally:
                await api.close()

    assert len(asyncio.run(main())) == 3


def test_a_context_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: []\ncontexts: []\nusers: []\n")
    with pytest.raises(ConfigError, match="nowhere"):
        kubesched.connect(path, context="nowhere")


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such kubeconfig file"):
        kubesched.connect(tmp_path / "nope")


def test_custom_objects_are_created_and_patched() -> None:
    """The kind is known by its plural name only, as for a plugin that waits for objects."""
    kind = custom_kind("widgets.v1.example.com")
    assert kind is not None

    async def main() -> tuple[str, object]:
        async with Cluster(nodes=1) as cluster:
            cluster.api.store.register(
                custom_resource("example.com", "v1", "Widget", "widgets", namespaced=True)
            )
            api = kubesched.connect(cluster.kubeconfig_path)
            try:
                new = kind.type(  # type: ignore[call-arg]
                    metadata=ObjectMeta(name="w", namespace="default"), spec={"size": 1}
                )
                created = await api.create(new)
                changed = await api.patch(kind.type, "w", "default", {"spec": {"size": 2}})
                local = await cluster.api.patch(
                    kind.type, "w", "default", {"spec": {"colour": "red"}}
                )
                assert changed.spec == {"size": 2}  # type: ignore[attr-defined]
                return created.metadata.name, local.spec  # type: ignore[attr-defined]
            finally:
                await api.close()

    assert asyncio.run(main()) == ("w", {"size": 2, "colour": "red"})
