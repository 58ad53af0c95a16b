"""An embedded cluster with a scheduler and a workload, from its parts to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import click
import msgspec

from kubesched.api import Deployment, Node, Pod, ReplicaSet, ReplicationController, StatefulSet
from kubesched.api.pod_facts import pod_key
from kubesched.api.time import format_time
from kubesched.cli.cluster_page import ClusterPage
from kubesched.cli.cluster_summary import ClusterSummary, summarize
from kubesched.cli.kubeconfig_file import kubeconfig_file
from kubesched.cli.named_clusters import ClusterFolder, ClusterRecord
from kubesched.cli.placement_display import PlacementDisplay
from kubesched.cli.workload_progress import WorkloadProgress
from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
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
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["ClusterRun", "RunOptions", "Started"]

_CREATED_PER_TURN: Final = 50
_SAMPLES: Final = ("nodes.yaml", "workload.yaml")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster is run with."""

    files: tuple[str, ...]
    configuration: KubeSchedulerConfiguration
    plugins: PluginRegistry
    listen: Listen | None
    kubeconfig: Path | None
    data: Path | None
    behavior_file: Path | None
    rbac: bool
    folder: ClusterFolder | None  # of a cluster with a name
    seed: int
    verify_engine: bool
    gates: FeatureGates
    timeout_ns: int
    pace_ns: int  # between two pods of the workload
    stays: bool  # after the workload is decided, until it is told to end
    is_quiet: bool  # shows no progress
    announces: bool  # says where it is before it begins


class Started(msgspec.Struct, frozen=True):
    """A cluster whose workload is decided."""

    summary: ClusterSummary
    address: str = ""
    dashboard: str = ""
    kubeconfig: str = ""
    # For a cluster with a name: its context, and the file of the user that has it too.
    context: str = ""
    context_file: str = ""


class ClusterRun:
    """One life of a cluster. `run` lasts until it is over."""

    def __init__(self, options: RunOptions) -> None:
        """Raises ConfigError or KubeschedError with what is wrong: nothing runs yet."""
        self._options = options
        self._clock = clock = RealClock()
        seed = options.seed
        # A new file is not made for manifests that are wrong; what an old one defines counts.
        goes_on = options.data is not None and options.data.exists()
        given = load_manifests(options.files) if options.files and not goes_on else None
        behavior: Callable[[Pod], Behavior] = behavior_of
        if options.behavior_file is not None:
            behavior = load_behavior_rules(options.behavior_file, seed)
        cluster = EmbeddedCluster(
            clock,
            derive(seed, "store"),
            listen=options.listen,
            data=options.data,
            behavior=behavior,
            rbac=options.rbac,
            features=frozenset(name for name in ALL_FEATURES if options.gates.enabled(name)),
        )
        if options.files and goes_on:
            given = _further_manifests(cluster, options.files)
        # A cluster that goes on has a workload of its own.
        self._manifests = given if given is not None else _sample() if cluster.is_new else []
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
            self._page = ClusterPage(live, clock, options.plugins, host=options.listen.host)
        settle_collector()

    async def run(self, tell: Callable[[Started], None]) -> ClusterSummary:
        """Place the workload, tell of it, and go on if it is to stay."""
        async with self._served() as served:
            return await self._live(tell, served)

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[Started]:
        """Serve the cluster, with kubeconfigs that are gone afterwards; yields where it is."""
        nowhere = Started(summarize((), (), ()))
        async with self._live_cluster.serving():
            if self._page is None:
                yield nowhere
                return
            address, text = self._cluster.url, self._cluster.kubeconfig()
            if self._options.announces:
                click.echo(f"API server: {address}", err=True)
                click.echo(f"Dashboard:  {self._page.link()}", err=True)
            folder = self._options.folder
            if folder is None:
                with kubeconfig_file(text, self._options.kubeconfig) as entry:
                    path = str(entry.path)
                    yield msgspec.structs.replace(nowhere, address=address, kubeconfig=path)
                return
            with self._recorded(folder, text) as record:
                yield msgspec.structs.replace(
                    nowhere,
                    address=address,
                    kubeconfig=str(folder.kubeconfig),
                    context=record.context,
                    context_file=record.kubeconfig,
                )

    @contextlib.contextmanager
    def _recorded(self, folder: ClusterFolder, text: str) -> Iterator[ClusterRecord]:
        """Say in the folder and in the user's kubeconfig where the cluster is."""
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

    async def _live(self, tell: Callable[[Started], None], served: Started) -> ClusterSummary:
        live, api, clock = self._live_cluster, self._cluster.api, self._clock
        # What was dumped is there before controllers begin: they would make its pods anew.
        dumped = [each for each in self._manifests if each.is_dumped]
        fresh = [each for each in self._manifests if not each.is_dumped]
        surroundings = [each for each in fresh if not isinstance(each.object, Pod)]
        keep = not self._cluster.is_new
        await live.apply(dumped)
        await live.apply(surroundings, keep_existing=keep)
        pods = SharedInformer(api, Pod, clock, derive(0, "up"))
        names = frozenset(live.scheduler.profiles)
        given = [each.object for each in fresh if isinstance(each.object, Pod)]
        followed = WorkloadProgress(
            live, names, [pod_key(pod) for pod in given if pod.metadata.name]
        )
        pods.add_handler(followed.note)
        kinds = {type(each.object) for each in surroundings}
        display = PlacementDisplay(
            api, pods, followed, kinds, clock, is_quiet=self._options.is_quiet
        )
        interrupted = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
        keepers = (LoopWatchdog(), MemoryTrimmer(clock))
        async with live.running(before=(*keepers, pods)):
            await pods.wait_for_sync()
            settle_collector()
            # Before the others: where pods go depends on the order in which they come.
            await display.until_known(interrupted, sum(map(_made_at_once, surroundings)))
            workload = [each for each in fresh if isinstance(each.object, Pod)]
            await self._create(workload, display, interrupted)
            undecided = await display.until_decided(interrupted, self._options.timeout_ns)
            nodes, known = await api.list(Node), pods.store.list()
            summary = summarize(
                nodes.items,
                known,
                names,
                held=followed.held(known, clock.now_ns()),
                undecided=undecided,
                remarks=await display.remarks(),
            )
            link = "" if self._page is None else self._page.link()
            tell(msgspec.structs.replace(served, summary=summary, dashboard=link))
            if self._options.stays:
                await interrupted.wait()
        return summary

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


def _further_manifests(cluster: EmbeddedCluster, files: Sequence[str | Path]) -> list[Manifest]:
    """Load manifests for a cluster that continues, of kinds that it may define itself."""
    try:
        return load_manifests(files, stored_definitions(cluster.store))
    except KubeschedError:
        cluster.close()
        raise


def _users_kubeconfig(folder: ClusterFolder) -> Path:
    """The file in which kubectl looks, and kind puts its contexts; not one of our own."""
    (path, *_) = kubectl_files(os.environ)
    if path.absolute().is_relative_to(folder.path.parent):
        (path,) = kubectl_files({**os.environ, "KUBECONFIG": ""})
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _sample() -> list[Manifest]:
    with contextlib.ExitStack() as stack:
        samples = resources.files("kubesched.cli") / "samples"
        paths = [str(stack.enter_context(resources.as_file(samples / name))) for name in _SAMPLES]
        return load_manifests(paths)


def _made_at_once(manifest: Manifest) -> int:
    """How many pods a workload makes without waiting for any of them."""
    match manifest.object:
        case Deployment() | ReplicaSet() | ReplicationController() as owner:
            return 1 if owner.spec.replicas is None else owner.spec.replicas
        case StatefulSet(spec=spec):
            wanted = 1 if spec.replicas is None else spec.replicas
            return wanted if spec.pod_management_policy == "Parallel" else min(wanted, 1)
    return 0
