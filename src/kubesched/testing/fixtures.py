"""Pytest fixtures: a cluster for tests that connect to one over HTTP.

Pytest loads them wherever kubesched is installed. `kubesched_cluster` is a cluster of three nodes
for one test; a mark sets other options. `cluster_fixture` builds a fixture with another scope:

    @pytest.mark.kubesched(nodes=50, plugins=[SpareNodes])
    def test_it(kubesched_cluster): ...

    shared = cluster_fixture(nodes=10, scope="module")

While a cluster runs, `$KUBECONFIG` is its kubeconfig. The option `kubesched_hide_kubeconfig` hides
the user's own from modules that read it when they are imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from kubesched.testing.cluster import Cluster

__all__ = ["cluster_fixture", "kubesched_cluster"]

_MARK = "kubesched"
_HIDE = "kubesched_hide_kubeconfig"
Scope = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option."""
    parser.addini(_HIDE, "hide $KUBECONFIG and ~/.kube/config from tests", type="bool")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and hide the user's kubeconfig if the option is set."""
    if config.getini(_HIDE):
        from kubesched.testing.client_guard import hide_kubeconfig

        hide_kubeconfig()
    config.addinivalue_line(
        "markers", f"{_MARK}(nodes=3, plugins=(), ...): options of the fixture kubesched_cluster"
    )


def cluster_fixture(
    *, scope: Scope = "function", name: str | None = None, **options: Any
) -> Callable[..., Iterator[Cluster]]:
    """Build a fixture of a cluster in a thread, with the options of `kubesched.testing.Cluster`."""

    @pytest.fixture(scope=scope, name=name)
    def cluster() -> Iterator[Cluster]:
        yield from _cluster(options)

    return cluster


@pytest.fixture
def kubesched_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster in a thread, for clients over HTTP; the mark `kubesched` has its options."""
    mark = request.node.get_closest_marker(_MARK)
    yield from _cluster({} if mark is None else mark.kwargs)


def _cluster(options: dict[str, Any]) -> Iterator[Cluster]:
    # Imported here: every run of pytest imports this module, but few need a cluster.
    from kubesched.testing.client_guard import guarded_clients
    from kubesched.testing.cluster import cluster_in_thread

    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(cluster_in_thread(**options))
        if cluster.url:
            stack.enter_context(guarded_clients(cluster.url, cluster.kubeconfig_path))
        yield cluster
