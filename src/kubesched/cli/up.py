"""`kubesched up`: an embedded cluster, the scheduler, and a workload to place."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Collection, Coroutine, Mapping, Sequence
from importlib import resources
from pathlib import Path

import click
import msgspec

from kubesched.api import Deployment, Node, Pod, ReplicaSet, StatefulSet
from kubesched.api.access import ApiAccess
from kubesched.api.pod_facts import pod_key
from kubesched.cli.cluster_page import ClusterPage
from kubesched.cli.cluster_summary import ClusterSummary, render, summarize
from kubesched.cli.kubeconfig_file import kubeconfig_file
from kubesched.cli.listen_address import ListenAddress
from kubesched.cli.workload_progress import OWNERS, Owner, WorkloadProgress
from kubesched.client.informer import Informer
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.cluster.manifests import Manifest, apply_manifests, load_manifests
from kubesched.cluster.nodes.behavior_rules import load_behavior_rules
from kubesched.cluster.nodes.pod_behavior import behavior_of
from kubesched.config.defaults import default_configuration
from kubesched.config.load import load_configuration
from kubesched.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.config.problems import find_problems
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.runtime.plugin_loading import load_plugin, out_of_tree_plugins
from kubesched.runtime.plugin_registry import PluginRegistry
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import MILLISECOND, SECOND, Clock, RealClock
from kubesched.util.collector import settle_collector
from kubesched.util.components import Component, running
from kubesched.util.errors import ConfigError, KubeschedError
from kubesched.util.loop_watchdog import LoopWatchdog
from kubesched.util.randomness import derive

__all__ = ["up"]

_REFRESH_NS = 100 * MILLISECOND
_MADE_WITHIN_NS = 5 * SECOND  # pods of workloads; those that are refused never come
_PLAIN_REFRESH_NS = 1 * SECOND
_SAMPLE_PACE_NS = 10 * MILLISECOND
_CREATED_PER_TURN = 50
_SAMPLES = ("nodes.yaml", "workload.yaml")


@click.command(
    epilog="Example: kubesched up -f nodes.yaml -f pods.yaml -o json",
    short_help="Run a cluster in this process and place a workload.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="YAML with nodes, pods and other objects; may be repeated; - reads standard input. "
    "Without it, a sample cluster of 30 nodes and 300 pods.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration file.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="Also load this plugin: module:Class or the path of a .py file; may be repeated. "
    "It runs if the configuration enables it, and without a configuration in any case.",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    help="Serve the API here, and go on running until Ctrl-C; port 0 takes a free one. On a "
    "terminal the default is 127.0.0.1:0.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write here how to reach the API. By default a temporary file, whose name is shown.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the cluster in this file (SQLite), and go on where it was. What -f names and the "
    "file already has stays as it is.",
)
@click.option(
    "--behavior",
    "behavior_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML with rules for how pods behave: how long they take to start, when they fail, and so "
    "on; see docs/cluster.md. Annotations of a pod come first.",
)
@click.option("--seed", default=0, show_default=True, help="Same seed, same ties broken.")
@click.option(
    "--verify-engine",
    is_flag=True,
    help="Check every decision against a full evaluation; stop on the first difference.",
)
@click.option(
    "--exit", "exit_when_done", is_flag=True, help="End after the summary, on a terminal too."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the summary on standard output.",
)
@click.option(
    "--timeout",
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until every pod is decided; then sum up what is, and fail.",
)
@click.option(
    "--fail-on-pending", is_flag=True, help="Exit with 1 if some pod has no node in the end."
)
@click.pass_context
def up(
    ctx: click.Context,
    files: tuple[str, ...],
    config_file: Path | None,
    plugins: tuple[str, ...],
    listen: Listen | None,
    kubeconfig: Path | None,
    data: Path | None,
    behavior_file: Path | None,
    seed: int,
    verify_engine: bool,
    exit_when_done: bool,
    output: str,
    timeout: int,
    fail_on_pending: bool,
) -> None:
    """Run a whole cluster in this process: API server, kubelets, scheduler.

    Applies the files, shows the pods being placed, and prints where they went and why the rest
    is pending. On a terminal it then goes on running until Ctrl-C, and kubectl and other clients
    can use it with the kubeconfig that it writes.
    """
    registry = out_of_tree_plugins(plugins)
    configuration = _configuration(config_file, registry, plugins)
    is_watched = sys.stdout.isatty()
    # The sample comes in slowly enough for a person to see it being placed.
    pace_ns = _SAMPLE_PACE_NS if is_watched and not files else 0
    if listen is None and (is_watched or kubeconfig is not None):
        listen = Listen()
    stays = listen is not None and not exit_when_done
    clock = RealClock()
    given = load_manifests(files) if files else None
    behavior = behavior_of if behavior_file is None else load_behavior_rules(behavior_file, seed)
    cluster = EmbeddedCluster(
        clock, derive(seed, "store"), listen=listen, data=data, behavior=behavior
    )
    # A cluster that goes on has a workload of its own.
    manifests = given if given is not None else _sample() if cluster.is_new else []
    scheduler = Scheduler(
        cluster.api,
        clock,
        configuration=configuration,
        out_of_tree_registry=registry,
        verify_engine=verify_engine,
        seed=seed,
    )
    page: ClusterPage | None = None
    if listen is not None:
        page = ClusterPage(cluster, scheduler, clock, configuration, host=listen.host)
    settle_collector()
    beside = () if page is None else page.parts
    work = _run(
        cluster, scheduler, manifests, clock, output, timeout * SECOND, pace_ns, stays, beside
    )
    summary = asyncio.run(_serve(cluster, kubeconfig, work, page))
    if summary.undecided and not stays:
        names = ", ".join(f"{name} ({why})" for name, why in summary.undecided.items())
        raise KubeschedError(f"not decided within {timeout} s: {names}")
    if fail_on_pending and summary.pending:
        ctx.exit(1)


async def _serve(
    cluster: EmbeddedCluster,
    kubeconfig: Path | None,
    work: Coroutine[None, None, ClusterSummary],
    page: ClusterPage | None,
) -> ClusterSummary:
    try:
        async with cluster:
            if not cluster.url:
                return await work
            with kubeconfig_file(cluster.kubeconfig(), kubeconfig) as path:
                click.echo(f"API server: {cluster.url}", err=True)
                if page is not None:
                    click.echo(f"Dashboard:  {page.link()}", err=True)
                click.echo(f"export KUBECONFIG={path}", err=True)
                return await work
    finally:
        work.close()


def _configuration(
    config_file: Path | None, registry: PluginRegistry, plugins: Sequence[str]
) -> KubeSchedulerConfiguration:
    """The file's configuration; without a file the default one with the plugins that were named."""
    known_args = registry.known_args()
    if config_file is not None:
        text = config_file.read_bytes()
        problems = find_problems(
            text,
            known_args=known_args,
            implemented={**IN_TREE_EXTENSION_POINTS, **registry.implemented()},
        )
        if problems:
            error = ConfigError("\n".join(problem.at(str(config_file)) for problem in problems))
            for note in (note for problem in problems for note in problem.notes):
                error.add_note(note)
            raise error
        return load_configuration(text, known_args=known_args)
    if not plugins:
        return default_configuration()
    enabled = [{"name": load_plugin(plugin).name} for plugin in plugins]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return scheduler_configuration(profiles=[profile], out_of_tree_registry=registry)


def _sample() -> list[Manifest]:
    with contextlib.ExitStack() as stack:
        samples = resources.files("kubesched.cli") / "samples"
        paths = [str(stack.enter_context(resources.as_file(samples / name))) for name in _SAMPLES]
        return load_manifests(paths)


async def _run(
    cluster: EmbeddedCluster,
    scheduler: Scheduler,
    manifests: Sequence[Manifest],
    clock: Clock,
    output: str,
    timeout_ns: int,
    pace_ns: int,
    stays: bool,
    beside: Sequence[Component] = (),
) -> ClusterSummary:
    api = cluster.api
    # What was dumped is there before controllers begin: they would make its pods anew.
    dumped = [each for each in manifests if each.is_dumped]
    manifests = [each for each in manifests if not each.is_dumped]
    workload = [each for each in manifests if isinstance(each.object, Pod)]
    given = [each.object for each in manifests if isinstance(each.object, Pod)]
    surroundings = [each for each in manifests if not isinstance(each.object, Pod)]
    keep = not cluster.is_new
    await apply_manifests(api, dumped)
    await apply_manifests(api, surroundings, keep_existing=keep)
    pods = Informer(api, Pod, clock, derive(0, "up"))
    names = frozenset(scheduler.profiles)
    keys = [pod_key(pod) for pod in given if pod.metadata.name]
    followed = WorkloadProgress(scheduler.queue, names, keys)
    pods.add_handler(followed.note)
    kinds = [kind for kind in OWNERS if any(isinstance(e.object, kind) for e in surroundings)]
    progress = _Progress(api, pods, followed, kinds, clock)
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, interrupted.set)
    async with running(LoopWatchdog(), *cluster.parts, pods, scheduler, *beside):
        await pods.wait_for_sync()
        settle_collector()
        # Before the others: where pods go depends on the order in which they come.
        await progress.until_known(interrupted, sum(map(_made_at_once, surroundings)))
        for number, pod in enumerate(workload, start=1):
            await apply_manifests(api, [pod], keep_existing=keep)
            if pace_ns and not await clock.wait(interrupted, timeout_ns=pace_ns):
                await progress.show()
            elif number % _CREATED_PER_TURN == 0:
                await asyncio.sleep(0)
        undecided = await progress.until_decided(interrupted, timeout_ns)
        nodes, known = await api.list(Node), pods.store.list()
        held = followed.held(known, clock.now_ns())
        summary = summarize(nodes.items, known, names, held=held, undecided=undecided)
        click.echo(_encode(summary, output))
        if stays and not interrupted.is_set():
            click.echo("\nRunning; Ctrl-C stops.", err=True)
            await progress.until(interrupted)
    return summary


def _made_at_once(manifest: Manifest) -> int:
    """How many pods a workload makes without waiting for any of them."""
    match manifest.object:
        case Deployment(spec=spec) | ReplicaSet(spec=spec):
            return 1 if spec.replicas is None else spec.replicas
        case StatefulSet(spec=spec):
            wanted = 1 if spec.replicas is None else spec.replicas
            return wanted if spec.pod_management_policy == "Parallel" else min(wanted, 1)
    return 0


def _encode(summary: ClusterSummary, output: str) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(summary).decode(), indent=2)
    return render(summary)


class _Progress:
    """Shows on standard error how far the placing is."""

    def __init__(
        self,
        api: ApiAccess,
        pods: Informer[Pod],
        followed: WorkloadProgress,
        owner_kinds: Collection[type[Owner]],
        clock: Clock,
    ) -> None:
        self._api = api
        self._pods = pods
        self._followed = followed
        self._owner_kinds = owner_kinds
        self._clock = clock
        self._started_ns = clock.monotonic_ns()
        self._next_ns = self._started_ns
        self._is_live = sys.stderr.isatty()
        self._shown = ""

    async def until_decided(self, interrupted: asyncio.Event, timeout_ns: int) -> Mapping[str, str]:
        """Wait until every pod is decided; return what is not after the timeout, and why.

        Whoever interrupts does not ask for the rest.
        """
        waiting_since_ns = self._clock.monotonic_ns()
        while True:
            await self.show()
            pods, owners = self._pods.store.list(), await self._owners()
            undecided = self._followed.open(pods, owners, self._clock.now_ns())
            is_late = self._clock.monotonic_ns() - waiting_since_ns > timeout_ns
            if not undecided or is_late or interrupted.is_set():
                break
            await self._clock.wait(interrupted, timeout_ns=_REFRESH_NS // 2)
        await self.show(at_once=True)
        self._end_line()
        return {} if interrupted.is_set() else undecided

    async def until_known(self, interrupted: asyncio.Event, expected: int) -> None:
        """Return when there are so many pods, or it takes too long."""
        since_ns = self._clock.monotonic_ns()
        while (
            len(self._pods.store.list()) < expected
            and self._clock.monotonic_ns() - since_ns < _MADE_WITHIN_NS
            and not await self._clock.wait(interrupted, timeout_ns=_REFRESH_NS // 10)
        ):
            await self.show()

    async def until(self, interrupted: asyncio.Event) -> None:
        """Keep the line up to date until interrupted."""
        while not await self._clock.wait(interrupted, timeout_ns=_REFRESH_NS):
            await self.show()
        self._end_line()

    async def show(self, *, at_once: bool = False) -> None:
        """Write the line, unless it was written a moment ago or says the same."""
        now_ns = self._clock.monotonic_ns()
        if not at_once and now_ns < self._next_ns:
            return
        self._next_ns = now_ns + (_REFRESH_NS if self._is_live else _PLAIN_REFRESH_NS)
        pods = self._pods.store.list()
        total = self._followed.total(pods, await self._owners())
        bound = sum(1 for pod in pods if pod.spec.node_name)
        active = sum(1 for pod in pods if pod.status.phase == "Running")
        finished = sum(1 for pod in pods if pod.status.phase == "Succeeded")
        line = f"{bound}/{total} pods placed, {active} running, {finished} finished"
        if line == self._shown:
            return
        self._shown = line
        seconds = (now_ns - self._started_ns) / SECOND
        text = f"{seconds:6.1f} s  {line}"
        if self._is_live:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        else:
            click.echo(text, err=True)

    async def _owners(self) -> list[Owner]:
        return [each for kind in self._owner_kinds for each in (await self._api.list(kind)).items]

    def _end_line(self) -> None:
        if self._is_live and self._shown:
            click.echo(err=True)
