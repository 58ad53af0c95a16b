"""A whole cluster for a test: API server, scheduler, kubelets, and nothing left afterwards.

Pods that a test creates are really scheduled and really (as far as anybody can see) run. The
cluster is there in process, through `api`, and for clients of all kinds on a free port of the
loopback interface, with the kubeconfig in `kubeconfig_path`.
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
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
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
    """A running cluster, while its block runs.

    `nodes` are made by `make_node` if they are a number. With `serve=False` there is no server,
    only `api`. `plugins` are classes, or factories by name; they run, unless a configuration is
    given that enables others. `configuration` may also be a file, its text, or a dict in its form.
    `files` are manifests that the cluster begins with. `feature_gates` are those of the scheduler
    and the API server that do not have their defaults. With `scheduler_flags` the scheduler is the
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
            features=frozenset(name for name in ALL_FEATURES if gates.enabled(name)),
        )
        self._manifests = load_manifests(paths) if (paths := [*files]) else []
        self._api = _BuildersApi(embedded.store, embedded.clock)
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
        """The cluster without a network in between; takes what the builders make as it is."""
        return self._api

    @property
    def url(self) -> str:
        return self._live.cluster.url

    @property
    def command(self) -> SchedulerCommand:
        """The process of `scheduler_flags`; it serves endpoints and can be stopped."""
        command = self._live.command
        assert command is not None, "the cluster was made without scheduler_flags"
        return command

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._live.cluster.token

    @property
    def kubeconfig_path(self) -> Path:
        """A kubeconfig of the administrator; the file goes with the cluster."""
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
        """Wait until an object exists and fulfils a condition, from any event loop.

        A text is the type of a condition in its status that is to be true, such as `Ready`.

        Raises:
            TimeoutError: it did not in time; the error says what it is like.
        """
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            there = self.wait_for(kind, name, condition, namespace=namespace, timeout_s=timeout_s)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there, self._loop))
        if not self.api.store.catalog.by_type(kind).namespaced:
            namespace = None
        fulfils: Callable[[T], object]
        if isinstance(condition, str):
            wanted = condition

            def fulfils(_: T) -> object:
                return self._has_condition(kind, name, namespace, wanted)
        else:
            fulfils = condition
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    with contextlib.suppress(_Outdated):
                        return await self._awaited(kind, name, fulfils, namespace)
        except TimeoutError:
            shown = f"{kind.__name__} {name if namespace is None else f'{namespace}/{name}'}"
            what = self._shown(kind, name, namespace)
            raise TimeoutError(f"{shown}: not within {timeout_s:g} s; {what}") from None

    def wait(
        self,
        kind: type[T],
        name: str,
        condition: Callable[[T], object] | str,
        *,
        namespace: str | None = "default",
        timeout_s: float = 10.0,
    ) -> T:
        """The same for a cluster in another thread, and code without an event loop."""
        return self.run(
            self.wait_for(kind, name, condition, namespace=namespace, timeout_s=timeout_s)
        )

    def run(self, work: Coroutine[Any, Any, A]) -> A:
        """Do something with the `api` of a cluster in another thread, and return what comes of it.

        For example `cluster.run(cluster.api.create(make_pod("p")))`.
        """
        assert self._loop is not None, "the cluster does not run"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def apply(self, *files: Path | str) -> None:
        """Create the objects of manifests; what is there already stays.

        Raises:
            ManifestError: something is wrong with them.
        """
        await apply_manifests(self.api, load_manifests([*files]), keep_existing=True)

    def _has_condition(self, kind: type[T], name: str, namespace: str | None, wanted: str) -> bool:
        conditions = self._status(kind, name, namespace).get("conditions", ())
        return any(
            each.get("type") == wanted and each.get("status") == "True" for each in conditions
        )

    def _status(self, kind: type[T], name: str, namespace: str | None) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.api.document(kind, name, namespace).get("status", {})
        return found

    def _shown(self, kind: type[T], name: str, namespace: str | None) -> str:
        """What an object is like, for a person who waited for it in vain."""
        try:
            status = self._status(kind, name, namespace)
        except ApiError:
            return "there is no such object"
        return f"its status is {json.dumps(status)}"

    async def _awaited(
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
        raise _Outdated

    async def __aenter__(self) -> Cluster:
        # One task of its own enters and leaves everything: fixtures may end in another task
        # than the one they began in.
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
    given: KubeSchedulerConfiguration | Mapping[str, Any] | Path | str | None,
    plugins: Registry,
    gates: FeatureGates,
) -> KubeSchedulerConfiguration | None:
    known_args = PluginRegistry(plugins).known_args()
    match given:
        case Mapping():
            whole = {"apiVersion": API_VERSION, "kind": KIND, **given}
            return configuration_from_builtins(whole, gates=gates, known_args=known_args)
        case Path():
            return load_configuration(given.read_bytes(), gates=gates, known_args=known_args)
        case str():
            return load_configuration(given.encode(), gates=gates, known_args=known_args)
    return given


class _Outdated(Exception):  # noqa: N818  a turn of a loop, not an error
    """A watch ended before what it was waiting for."""


class _BuildersApi(LocalApi):
    """Creates objects that builders made.

    Those have the marks of a server, for tests without one, and no more containers than a rule
    about pods needs.
    """

    async def create(self, new: T) -> T:
        metadata = replace(new.metadata, uid="", resource_version="")  # type: ignore[attr-defined]
        created = replace(new, metadata=metadata)
        if isinstance(created, Pod):
            containers = created.spec.containers or (Container(name="c"),)
            whole = tuple(replace(each, image=each.image or _IMAGE) for each in containers)
            created = replace(created, spec=replace(created.spec, containers=whole))
        return await super().create(created)


@contextlib.contextmanager
def cluster_in_thread(nodes: int | Iterable[Node] = 3, **options: Any) -> Iterator[Cluster]:
    """A cluster that runs in a thread, for tests and clients that know nothing of asyncio.

    What may be used from outside is what goes over the network (`url`, `token`,
    `kubeconfig_path`), `wait`, `run` and `wait_for`.
    """
    begun: list[Cluster] = []
    failures: list[BaseException] = []
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        async with Cluster(nodes, **options) as cluster:
            begun.append(cluster)
            ready.set()
            await asyncio.to_thread(stop.wait)

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as exc:  # it belongs to the caller's thread
            failures.append(exc)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="Cluster")
    thread.start()
    ready.wait()
    try:
        if begun:
            yield begun[0]
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
