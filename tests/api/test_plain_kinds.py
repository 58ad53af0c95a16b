"""Built-in kinds without a complete type: a client can request each of them by its name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ObjectMeta
from kubesched.api.kinds import Kind, kind_of
from kubesched.api.plain_kinds import PLAIN_KINDS, Endpoints, plain_type
from kubesched.testing import Cluster


@pytest.mark.parametrize("kind", PLAIN_KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_every_plain_kind_is_found_by_its_type(kind: Kind) -> None:
    assert kind_of(kind.type) is kind
    assert plain_type(kind.api_version, kind.kind) is kind.type


def test_endpoints_are_created_read_and_changed() -> None:
    subsets: list[dict[str, Any]] = [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}]

    async def main() -> None:
        async with Cluster(nodes=0) as cluster:
            metadata = ObjectMeta(name="outside", namespace="default")
            await cluster.api.create(Endpoints(metadata=metadata, subsets=subsets))
            found = await cluster.api.get(Endpoints, "outside", "default")
            assert found.subsets[0]["addresses"] == [{"ip": "192.0.2.7"}]
            await cluster.api.update(replace(found, subsets=[]))
            assert (await cluster.api.get(Endpoints, "outside", "default")).subsets == []

    asyncio.run(main())
