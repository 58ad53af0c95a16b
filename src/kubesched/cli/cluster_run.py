"""One run of `kubesched up`: a live cluster, its server and page, and the workload to place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import click
import msgspec

from kubesched.api import Deployment, Node, Pod, ReplicaSet, ReplicationController, StatefulSet
from kubesched.api.pod_facts import pod_key
from kubesched.api.time import format_time
from kubesched.cli.cluster_page import ClusterPage
from kubesched.cli.cluster_summary import ClusterSummary, summarize, tried_in_vain
from kubesched.cli.hangups import hangup_handler
from kubesched.cli.kubeconfig_file import kubeconfig_file
from kubesched.cli.named_clusters import ClusterFolder, ClusterRecord
from kubesched.cli.pending_headlines import pending_headlines
from kubesched.cli.placement_display import PlacementDisplay
from kubesched.cli.workload_progress import WorkloadProgress
from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.cluster.apiserver.rules.strategies.server_features import SWITCHED_FEATURES
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifest_kinds import stored_definitions
from kubesched.cluster.manifests import Manifest, load_manifests
from kubesched.cluster.nodes.behavior_rules import load_behavior_rules
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.errors import KubeschedError
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.kubeconfig import kubectl_files
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.loop_watchdog import LoopWatchdog
from kubesched.foundation.util.memory_trimmer import MemoryTrimmer
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.process.configuration_reloader import (
    ConfigurationReloader,
    LoadedConfiguration,
    ReloadOutcome,
)
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["ClusterRun", "ReloadOptions", "RunOptions", "Started"]

_CREATED_PER_TURN: Final = 50
_SAMPLES: Final = ("nodes.yaml", "workload.yaml")


class ReloadOptions(msgspec.Struct, frozen=True):
    """How the configuration file is loaded again, and whether it is watched."""

    path: Path
    load: Callable[[], LoadedConfiguration]
    sha256: str
    watches: bool


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    files: tuple[str, ...]
    configuration: KubeSchedulerConfiguration
    reload: ReloadOptions | None = None
    plugins: PluginRegistry
    listen: Listen | None
    kubeconfig: Path | None
    data: Path | None
    behavior_file: Path | None
    rbac: bool
    folder: ClusterFolder | None  # of a named cluster
    seed: int
    verify_engine: bool
    gates: FeatureGates
    timeout_ns: int
    pace_ns: int  # between the creation of two pods
    stays: bool  # after the workload is decided, until a signal
    is_quiet: bool  # shows no progress
    announces: bool  # prints the addresses at the start


class Started(msgspec.Struct, frozen=True):
    """A cluster whose workload is decided: the summary, and how to reach it."""

    summary: ClusterSummary
    address: str = ""
    dashboard: str = ""
    kubeconfig: str = ""
    # Of a named cluster: its context, and the user's file that has the context too.
    context: str = ""
    context_file: str = ""


class ClusterRun:
    """A run of an embedded cluster, from its creation to its end."""

    def __init__(self, options: RunOptions) -> None:
        """Load the files and build the cluster; nothing runs yet.

        Raises:
            ConfigError: a file or the configuration is invalid.
            KubeschedError: the data file cannot be used.
        """
        self._options = options
        self._clock = clock = RealClock()
        seed = options.seed
        # Load manifests first: invalid ones must not create a new data file. An existing file may
        # define the kinds that manifests need.
        continues = options.data is not None and options.data.exists()
        manifests = load_manifests(options.files) if options.files and not continues else None
        behavior: Callable[[Pod], Behavior] = behavior_of
        scripts = None
        if options.behavior_file is not None:
            behavior = rules = load_behavior_rules(options.behavior_file, seed)
            scripts = rules.scripts
        cluster = EmbeddedCluster(
            clock,
            derive(seed, "store"),
            listen=options.listen,
            data=options.data,
            behavior=behavior,
            scripts=scripts,
            rbac=options.rbac,
            features=frozenset(name for name in SWITCHED_FEATURES if options.gates.enabled(name)),
        )
        if options.files and continues:
            manifests = _further_manifests(cluster, options.files)
        if manifests is None:
            # A cluster that continues has its own workload.
            manifests = _sample() if cluster.is_new else []
        self._manifests = manifests
        self._live_cluster = live = LiveCluster(
            cluster,
            configuration=options.configuration,
            out_of_tree_registry=options.plugins,
            verify_engine=options.verify_engine,
            feature_gates=options.gates,
            seed=options.seed,
        )
        self._cluster = cluster
        self._page: ClusterPage | None = None
        if options.listen is not None:
            self._page = ClusterPage(
                live, clock, options.plugins, host=options.listen.host, gates=options.gates
            )
        settle_collector()

    async def run(self, on_started: Callable[[Started], None]) -> ClusterSummary:
        """Place the workload, call `on_started`, and keep running if the options say so."""
        async with self._served() as served:
            return await self._place_workload(on_started, served)

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[Started]:
        """Serve the cluster and write kubeconfigs, which are removed at the end."""
        unserved = Started(summarize((), (), ()))
        async with self._live_cluster.serving():
            if self._page is None:
                yield unserved
                return
            address, text = self._cluster.url, self._cluster.kubeconfig()
            if self._options.announces:
                click.echo(f"API server: {address}", err=True)
                click.echo(f"Dashboard:  {self._page.link()}", err=True)
            folder = self._options.folder
            if folder is None:
                with kubeconfig_file(text, self._options.kubeconfig) as entry:
                    path = str(entry.path)
                    yield msgspec.structs.replace(unserved, address=address, kubeconfig=path)
                return
            with self._recorded(folder, text) as record:
                yield msgspec.structs.replace(
                    unserved,
                    address=address,
                    kubeconfig=str(folder.kubeconfig),
                    context=record.context,
                    context_file=record.kubeconfig,
                )

    @contextlib.contextmanager
    def _recorded(self, folder: ClusterFolder, text: str) -> Iterator[ClusterRecord]:
        """Write the cluster's address to its folder and to the user's kubeconfig."""
        shared = self._options.kubeconfig or _users_kubeconfig(folder)
        with kubeconfig_file(text, shared, folder.context) as entry:
            write_private(folder.kubeconfig, entry.own_text())
            record = ClusterRecord(
                pid=os.getpid(),
                since=format_time(self._clock.now_ns()),
                address=self._cluster.url,
                kubeconfig=str(entry.path.absolute()),
                context=entry.context,
                context_before=entry.context_before,
            )
            folder.write_record(record)
            yield record
        folder.write_record(msgspec.structs.replace(record, has_ended=True))

    async def _place_workload(
        self, on_started: Callable[[Started], None], served: Started
    ) -> ClusterSummary:
        live, api, clock = self._live_cluster, self._cluster.api, self._clock
        # Load dumped objects before controllers run: they would create the pods of owners again.
        dumped = [each for each in self._manifests if each.is_dumped]
        fresh = [each for each in self._manifests if not each.is_dumped]
        other_objects = [each for each in fresh if not isinstance(each.object, Pod)]
        keep = not self._cluster.is_new
        await live.apply(dumped)
        await live.apply(other_objects, keep_existing=keep)
        workload = [each for each in fresh if isinstance(each.object, Pod)]
        pods = SharedInformer(api, Pod, clock, derive(0, "up"))
        names = frozenset(live.scheduler.profiles)
        followed = WorkloadProgress(live, names, _named_pods(workload))
        pods.add_handler(followed.note)
        kinds = {type(each.object) for each in other_objects}
        display = PlacementDisplay(
            api, pods, followed, kinds, clock, is_quiet=self._options.is_quiet
        )
        interrupted = asyncio.Event()
        reloader = self._build_reloader()
        _handle_signals(interrupted, reloader)
        maintenance = (LoopWatchdog(), MemoryTrimmer(clock))
        after = () if reloader is None else (reloader,)
        async with live.running(before=(*maintenance, pods), after=after):
            await pods.wait_for_sync()
            settle_collector()
            # First the pods of owners: placement depends on the order of creation.
            await display.until_created(interrupted, sum(map(_pods_at_once, other_objects)))
            await self._create(workload, display, interrupted)
            undecided = await display.until_decided(interrupted, self._options.timeout_ns)
            known = pods.store.list()
            summary = summarize(
                (await api.list(Node)).items,
                known,
                names,
                held=followed.held(known, clock.now_ns()),
                undecided=undecided,
                remarks=await display.remarks(),
                explanations=await self._explanations(known),
            )
            link = "" if self._page is None else self._page.link()
            on_started(msgspec.structs.replace(served, summary=summary, dashboard=link))
            if self._options.stays:
                await interrupted.wait()
        return summary

    async def _explanations(self, pods: Iterable[Pod]) -> Mapping[str, str]:
        """Return the first line of the explanation of each pending pod, if there is one."""
        if not any(map(tried_in_vain, pods)):
            return {}
        options = self._options
        return await pending_headlines(self._live_cluster, options.plugins, options.gates)

    def _build_reloader(self) -> ConfigurationReloader | None:
        options = self._options.reload
        if options is None:
            return None
        path = options.path

        def report(outcome: ReloadOutcome) -> None:
            if outcome.error is not None:
                click.echo(
                    f"{path} was not loaded, the old one stays in use: {outcome.why}", err=True
                )
            elif outcome.result == "unchanged":
                click.echo(f"{path} has not changed", err=True)
            else:
                click.echo(f"{path} was loaded", err=True)

        return ConfigurationReloader(
            str(path),
            options.load,
            self._live_cluster.reload_scheduler,
            report,
            self._clock,
            sha256=options.sha256,
            watches=options.watches,
        )

    async def _create(
        self, workload: Sequence[Manifest], display: PlacementDisplay, interrupted: asyncio.Event
    ) -> None:
        keep, pace_ns = not self._cluster.is_new, self._options.pace_ns
        for number, pod in enumerate(workload, start=1):
            await self._live_cluster.apply([pod], keep_existing=keep)
            if pace_ns and not await self._clock.wait(interrupted, timeout_ns=pace_ns):
                await display.show()
            elif number % _CREATED_PER_TURN == 0:
                await asyncio.sleep(0)


def _handle_signals(interrupted: asyncio.Event, reloader: ConfigurationReloader | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    on_hangup: Callable[[], object] = interrupted.set
    if reloader is not None:
        on_hangup = hangup_handler(reloader.request, interrupted.set)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)


def _further_manifests(cluster: EmbeddedCluster, files: Sequence[str | Path]) -> list[Manifest]:
    """Load manifests for a cluster with stored state; it may have definitions of their kinds."""
    try:
        return load_manifests(files, stored_definitions(cluster.store))
    except KubeschedError:
        cluster.close()
        raise


def _users_kubeconfig(folder: ClusterFolder) -> Path:
    """Return the kubeconfig that kubectl reads, unless it belongs to a named cluster."""
    (path, *_) = kubectl_files(os.environ)
    if path.absolute().is_relative_to(folder.path.parent):
        (path,) = kubectl_files({**os.environ, "KUBECONFIG": ""})
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _named_pods(manifests: Iterable[Manifest]) -> list[str]:
    """Return the keys of the pods whose names are not generated."""
    pods = (each.object for each in manifests)
    return [pod_key(pod) for pod in pods if isinstance(pod, Pod) and pod.metadata.name]


def _sample() -> list[Manifest]:
    with contextlib.ExitStack() as stack:
        samples = resources.files("kubesched.cli") / "samples"
        paths = [str(stack.enter_context(resources.as_file(samples / name))) for name in _SAMPLES]
        return load_manifests(paths)


def _pods_at_once(manifest: Manifest) -> int:
    """Return how many pods a controller creates for an object without waiting for any of them."""
    match manifest.object:
        case Deployment() | ReplicaSet() | ReplicationController() as owner:
            return 1 if owner.spec.replicas is None else owner.spec.replicas
        case StatefulSet(spec=spec):
            replicas = 1 if spec.replicas is None else spec.replicas
            return replicas if spec.pod_management_policy == "Parallel" else min(replicas, 1)
    return 0
