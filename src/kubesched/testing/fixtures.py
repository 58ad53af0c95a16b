"""A pytest fixture: `pytest_plugins = ["kubesched.testing.fixtures"]` makes it available."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubesched.testing.cluster import Cluster, cluster_in_thread

__all__ = ["kubesched_cluster"]


@pytest.fixture
def kubesched_cluster() -> Iterator[Cluster]:
    """A cluster of three nodes in a thread, for clients over HTTP."""
    with cluster_in_thread() as cluster:
        yield cluster
