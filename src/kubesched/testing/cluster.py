"""A whole cluster for a test: API server, scheduler, controllers and fake kubelets.

The scheduler binds the pods that a test creates, and the fake kubelets report them as running. The
test uses the cluster in process through `api`; clients of all kinds use the free port of the
loopback interface that the kubeconfig in `kubeconfig_path` names. Nothing remains after the block.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import ApiError, Container, Node, Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.strategies.server_features import SWITCHED_FEATURES
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.cluster.scheduler_command import SchedulerCommand
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.load import configuration_from_builtins, load_configuration
from kubesched.scheduler.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from kubesched.scheduler.options import SchedulerOptions
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, Registry
from kubesched.testing.objects.builders import make_node

__all__ = ["Cluster", "cluster_in_thread"]

T = TypeVar("T", bound=msgspec.Struct)
A = TypeVar("A")

_GONE = 410
_IMAGE = "example.com/app"


class Cluster:
    """A cluster that runs while its `async with` block runs.

    `nodes` are `Node` objects, or a number of nodes that `make_node` builds. With `serve=False`
    there is no server, only `api`. `plugins` are classes, or factories by name; they are enabled
    unless a `configuration` is given, which is an object, a file, its text, or a dict in its form.
    `files` are manifests to create at the start. `feature_gates` of the scheduler and the API
    server differ from their defaults. With `scheduler_flags` the scheduler is the
    whole command `kubesched run` with these flags (`command`); its configuration comes from them
    alone. Pods run as soon as they are bound, unless they say otherwise (docs/cluster.md).
    """

    def __init__(
        self,
        nodes: int | Iterable[Node] = 3,
        *,
        serve: bool = True,
        configuration: KubeSchedulerConfiguration | Mapping[str, Any] | Path | str | None = None,
        plugins: Iterable[type[Plugin]] | Registry = (),
        files: Iterable[Path | str] = (),
        feature_gates: Mapping[str, bool] | None = None,
        scheduler_flags: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(nodes, int):
            nodes = [make_node(f"node-{number}") for number in range(nodes)]
        self._nodes = tuple(nodes)
        gates = FeatureGates(feature_gates)
        embedded = EmbeddedCluster(
            RealClock(),
            derive(seed, "store"),
            listen=Listen() if serve else None,
            start_delay_ns=0,
            features=frozenset(name for name in SWITCHED_FEATURES if gates.enabled(name)),
        )
        self._manifests = load_manifests(paths) if (paths := [*files]) else []
        self._api = _BuildersApi(embedded.store, embedded.clock)
        self._api.webhook_calls = embedded.api.webhook_calls
        registry: Registry = (
            plugins if isinstance(plugins, Mapping) else {each.name: each for each in plugins}
        )
        options: SchedulerOptions = {
            "configuration": _configuration(configuration, registry, gates),
            "feature_gates": gates,
            "out_of_tree_registry": registry,
            "seed": seed,
        }
        if configuration is None and registry:
            enabled = [{"name": name} for name in registry]
            profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
            options["profiles"] = [profile]
        self._live = LiveCluster(embedded, flags=scheduler_flags, **options)
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kubeconfig_path: Path | None = None

    @property
    def api(self) -> LocalApi:
        """The API server without a network in between; accepts the builders' objects."""
        return self._api

    @property
    def url(self) -> str:
        return self._live.cluster.url

    @property
    def command(self) -> SchedulerCommand:
        """The process of `scheduler_flags`, which serves its endpoints and can be stopped."""
        command = self._live.command
        assert command is not None, "the cluster was made without scheduler_flags"
        return command

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._live.cluster.token

    @property
    def kubeconfig_path(self) -> Path:
        """A kubeconfig of the administrator; the file is deleted with the cluster."""
        assert self._kubeconfig_path is not None, "the cluster is not being served"
        return self._kubeconfig_path

    async def wait_for(
        self,
        kind: type[T],
        name: str,
        condition: Callable[[T], object] | str,
        *,
        namespace: str | None = "default",
        timeout_s: float = 10.0,
    ) -> T:
        """Wait until an object exists and fulfils a condition; works on any event loop.

        `condition` is a function of the object, or the type of a condition in its status that must
        be true, such as `Ready`.

        Raises:
            TimeoutError: the condition is not fulfilled in time; the error shows the object's
                status.
        """
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            wait = self.wait_for(kind, name, condition, namespace=namespace, timeout_s=timeout_s)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait, self._loop))
        if not self.api.store.catalog.by_type(kind).namespaced:
            namespace = None
        fulfils: Callable[[T], object]
        if isinstance(condition, str):
            condition_type = condition

            def fulfils(_: T) -> object:
                return self._has_condition(kind, name, namespace, condition_type)
        else:
            fulfils = condition
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    with contextlib.suppress(_WatchEnded):
                        return await self._watch_until(kind, name, fulfils, namespace)
        except TimeoutError:
            shown = f"{kind.__name__} {name if namespace is None else f'{namespace}/{name}'}"
            status = self._described_status(kind, name, namespace)
            raise TimeoutError(f"{shown}: not within {timeout_s:g} s; {status}") from None

    def wait(
        self,
        kind: type[T],
        name: str,
        condition: Callable[[T], object] | str,
        *,
        namespace: str | None = "default",
        timeout_s: float = 10.0,
    ) -> T:
        """Like `wait_for`, for a cluster in another thread, without an event loop."""
        return self.run(
            self.wait_for(kind, name, condition, namespace=namespace, timeout_s=timeout_s)
        )

    def run(self, work: Coroutine[Any, Any, A]) -> A:
        """Run a coroutine on the loop of a cluster in another thread, and return its result.

        For example `cluster.run(cluster.api.create(make_pod("p")))`.
        """
        assert self._loop is not None, "the cluster does not run"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def apply(self, *files: Path | str) -> None:
        """Create the objects of manifests; existing objects stay as they are.

        Raises:
            ManifestError: a file is invalid.
        """
        await apply_manifests(self.api, load_manifests([*files]), keep_existing=True)

    def _has_condition(
        self, kind: type[T], name: str, namespace: str | None, condition_type: str
    ) -> bool:
        conditions = self._status(kind, name, namespace).get("conditions", ())
        return any(
            each.get("type") == condition_type and each.get("status") == "True"
            for each in conditions
        )

    def _status(self, kind: type[T], name: str, namespace: str | None) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.api.document(kind, name, namespace).get("status", {})
        return found

    def _described_status(self, kind: type[T], name: str, namespace: str | None) -> str:
        """Describe an object's status for the error of a wait that timed out."""
        try:
            status = self._status(kind, name, namespace)
        except ApiError:
            return "there is no such object"
        return f"its status is {json.dumps(status)}"

    async def _watch_until(
        self, kind: type[T], name: str, condition: Callable[[T], object], namespace: str | None
    ) -> T:
        try:
            watch = self.api.watch(
                kind, namespace, resource_version="0", field_selector=f"metadata.name={name}"
            )
            async for event in watch:
                found = event.object
                if found is not None and event.type != "DELETED" and condition(found):
                    return found
        except ApiError as error:
            if error.code != _GONE:
                raise
        raise _WatchEnded

    async def __aenter__(self) -> Cluster:
        # A task of its own enters and leaves the cluster: a fixture may be torn down in another
        # task than the one that set it up.
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="Cluster")
        ready = asyncio.create_task(self._ready.wait(), name="Cluster.ready")
        try:
            await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._task.done():
            await self._task
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        for node in self._nodes:
            await self.api.create(node)
        await apply_manifests(self.api, self._manifests)
        async with self._live.running():
            with self._written_kubeconfig():
                self._ready.set()
                await self._stopping.wait()

    @contextlib.contextmanager
    def _written_kubeconfig(self) -> Iterator[None]:
        if not self.url:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="kubesched-") as folder:
            self._kubeconfig_path = Path(folder) / "kubeconfig"
            self._kubeconfig_path.touch(mode=0o600)
            self._kubeconfig_path.write_text(self._live.cluster.kubeconfig())
            yield


def _configuration(
    configuration: KubeSchedulerConfiguration | Mapping[str, Any] | Path | str | None,
    plugins: Registry,
    gates: FeatureGates,
) -> KubeSchedulerConfiguration | None:
    known_args = PluginRegistry(plugins).known_args()
    match configuration:
        case Mapping():
            document = {"apiVersion": API_VERSION, "kind": KIND, **configuration}
            return configuration_from_builtins(document, gates=gates, known_args=known_args)
        case Path():
            return load_configuration(
                configuration.read_bytes(), gates=gates, known_args=known_args
            )
        case str():
            return load_configuration(configuration.encode(), gates=gates, known_args=known_args)
    return configuration


class _WatchEnded(Exception):  # noqa: N818  ends a turn of a loop, and is not an error
    """A watch ended before the condition was fulfilled."""


class _BuildersApi(LocalApi):
    """Accepts objects of the builders, which a server would reject.

    Builders set uids and resource versions, for tests without a server, and omit containers and
    images.
    """

    async def create(self, new: T) -> T:
        metadata = replace(new.metadata, uid="", resource_version="")  # type: ignore[attr-defined]
        created = replace(new, metadata=metadata)
        if isinstance(created, Pod):
            containers = created.spec.containers or (Container(name="c"),)
            complete = tuple(replace(each, image=each.image or _IMAGE) for each in containers)
            created = replace(created, spec=replace(created.spec, containers=complete))
        return await super().create(created)


@contextlib.contextmanager
def cluster_in_thread(nodes: int | Iterable[Node] = 3, **options: Any) -> Iterator[Cluster]:
    """Run a cluster in a thread, for tests and clients without asyncio.

    Other threads may use `url`, `token`, `kubeconfig_path`, `wait`, `run` and `wait_for`.
    """
    started: list[Cluster] = []
    failures: list[BaseException] = []
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        async with Cluster(nodes, **options) as cluster:
            started.append(cluster)
            ready.set()
            await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as exc:  # raised again in the caller's thread
            failures.append(exc)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="Cluster")
    thread.start()
    ready.wait()
    try:
        if started:
            yield started[0]
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
