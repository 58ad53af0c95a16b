"""Rules about `reads`: a plugin reads nothing that it does not declare.

The checks change what the plugin does not declare. Its results for each node must stay the same.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kubesched.api import Affinity, Pod, PodSpec, PodStatus
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    NodeView,
    OnlyNodes,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    Status,
    TotalsView,
    overrides,
)
from kubesched.framework.reads import POD_FIELDS
from kubesched.testing.checks.filter_and_score import (
    described,
    filter_each,
    run_pre_filter,
    run_pre_score,
    score_each,
)
from kubesched.testing.checks.trial import Trial, pick
from kubesched.testing.objects.random_clusters import RandomCluster, random_cluster, random_pod
from kubesched.testing.objects.views import filter_together, same_status

__all__ = ["check_reads"]

_RULE = "reads declares all that the plugin reads"


def check_reads(trial: Trial) -> None:
    """Check that changes to undeclared parts do not change a result."""
    reads = trial.plugin.reads
    if not reads.other_nodes:
        _check_other_nodes(trial)
    if reads.pod is not PodPart.ALL:
        _check_pod(trial)
    if reads.objects is not None:
        _check_objects(trial)
    if reads.pods_on_node is not PodsOnNode.DETAIL:
        _check_pods_on_node(trial)
    if reads.pods_on_node <= PodsOnNode.TOTALS and overrides(trial.plugin, "filter"):
        _check_totals(trial)


def _check_other_nodes(trial: Trial) -> None:
    index = pick(trial.rng, trial.view)
    name = trial.view.info(index).name
    other_plugin, other_view = trial.in_other_world(_with_other_neighbours(trial, name))
    if trial.plugin.cache_version(trial.view) != other_plugin.cache_version(other_view):
        return
    here = _answer_of_node(trial, trial.plugin, trial.view, name)
    there = _answer_of_node(trial, other_plugin, other_view, name)
    if here != there:
        trial.fail(_RULE, f"on {name} it returned {here}, and {there} when other nodes changed")


def _check_pod(trial: Trial) -> None:
    undeclared = [part for part in PodPart if part not in trial.plugin.reads.pod]
    stranger = random_pod(trial.rng, "stranger", claims=trial.cluster.claims)
    if _differing(trial, _with_parts(trial.pod, stranger, undeclared)) is None:
        return
    for part in undeclared:  # the message names the first part that changes a result
        if (seen := _differing(trial, _with_parts(trial.pod, stranger, [part]))) is not None:
            trial.fail(_RULE, f"{seen} when {part.name} of the pod changed")
    seen = _differing(trial, _with_parts(trial.pod, stranger, undeclared))
    trial.fail(_RULE, f"{seen} when undeclared parts of the pod changed")


def _differing(trial: Trial, other: Pod) -> str | None:
    """Return how the results for another pod differ; None if they are equal."""
    here = _answers(trial, trial.plugin, trial.view, trial.pod)
    there = _answers(trial, trial.plugin, trial.view, other)
    return _difference(here, there)


def _check_objects(trial: Trial) -> None:
    kinds = trial.plugin.reads.objects or ()
    others = tuple(each for each in trial.cluster.others if type(each) in kinds)
    without = RandomCluster(trial.cluster.nodes, trial.cluster.pods, others)
    other_plugin, other_view = trial.in_other_world(without)
    here = _answers(trial, trial.plugin, trial.view, trial.pod)
    there = _answers(trial, other_plugin, other_view, trial.pod)
    if (seen := _difference(here, there)) is not None:
        trial.fail(_RULE, f"{seen} when objects of other kinds were gone")


def _check_pods_on_node(trial: Trial) -> None:
    plugin = trial.plugin
    change = {
        PodsOnNode.NOTHING: _with_fewer_pods,
        PodsOnNode.TOTALS: _with_bare_pods,
        PodsOnNode.SPECS: _with_relabelled_pods,
    }[plugin.reads.pods_on_node]
    changed = [change(trial, node) for node in trial.view]
    here = _answers(trial, plugin, trial.view, trial.pod)
    there = _answers(trial, plugin, trial.view, trial.pod, changed)
    if (seen := _difference(here, there)) is not None:
        trial.fail(_RULE, f"{seen} when more of the pods on the node changed than is declared")


def _check_totals(trial: Trial) -> None:
    """Check a plugin that reads totals: dry runs over many nodes change totals only."""
    plugin = trial.plugin
    if not overrides(plugin, "filter_nodes") and plugin.reads.pods_on_node is PodsOnNode.TOTALS:
        trial.fail(_RULE, "totals are read through columns: filter_nodes is missing")
    if overrides(plugin, "add_pod") or overrides(plugin, "remove_pod"):
        trial.fail(_RULE, "add_pod and remove_pod follow single pods, which is DETAIL")
    state = CycleState()
    if not overrides(plugin, "filter_nodes") or not run_pre_filter(
        trial, state, plugin, trial.view
    ):
        return
    nodes = [_with_fewer_pods(trial, node) for node in trial.view]
    with trial.calling("filter"):
        each = [plugin.filter(state, trial.pod, node) for node in nodes]
    with trial.calling("filter_nodes"):
        together = filter_together(plugin, state, trial.pod, _totals_view(trial, nodes))
    for node, one, two in zip(nodes, each, together, strict=True):
        if not same_status(one, two):
            trial.fail(
                _RULE,
                f"on {node.name} without some pods it returned {described(one)}, "
                f"and {described(two)} when only totals are changed",
            )


def _answers(
    trial: Trial,
    plugin: Plugin,
    view: NodeView,
    pod: Pod,
    changed: list[NodeInfo] | None = None,
) -> dict[str, str]:
    """Return the cacheable result for each node: the verdict, or the unnormalised score.

    With `changed`, these nodes replace the nodes that PreFilter and PreScore receive. The result is
    empty if PreFilter or PreScore rejects or skips the pod, because such results are not cached.
    """
    state = CycleState()
    with trial.calling("pre_filter", view):
        answer = plugin.pre_filter(state, PodInfo(pod), view)
    if isinstance(answer, OnlyNodes) or not (answer.is_success or answer.is_skip):
        return {}
    found: dict[str, str] = {}
    nodes = changed or list(view)
    if overrides(plugin, "filter") and not answer.is_skip:
        with trial.calling("filter", view):
            verdicts = [plugin.filter(state, pod, node) for node in nodes]
        found = {
            f"on {node.name} filter": described(verdict)
            for node, verdict in zip(nodes, verdicts, strict=True)
        }
    if overrides(plugin, "score"):
        with trial.calling("pre_score", view):
            status = plugin.pre_score(state, PodInfo(pod), view)
        if status.is_success:
            with trial.calling("score", view):
                for node in nodes:
                    found[f"on {node.name} score"] = str(plugin.score(state, pod, node))
    return found


def _difference(here: dict[str, str], there: dict[str, str]) -> str | None:
    for what in here.keys() & there.keys():
        if here[what] != there[what]:
            return f"{what} returned {here[what]}, and {there[what]}"
    return None


def _with_parts(pod: Pod, other: Pod, parts: list[PodPart]) -> Pod:
    """Return the pod with these parts replaced by those of another pod."""
    original = pod
    for part in parts:
        for path in POD_FIELDS.get(part, ()):
            where, _, field = path.partition(".")
            holder, taken = getattr(pod, where), getattr(getattr(other, where), field)
            pod = replace(pod, **{where: replace(holder, **{field: taken})})
    spec = replace(pod.spec, affinity=_mixed_affinity(pod, other, parts))
    if PodPart.VOLUMES in parts and PodPart.CONTAINERS not in parts:
        # Image volumes belong to both parts.
        volumes = [volume for volume in spec.volumes if volume.image is None]
        volumes += [volume for volume in original.spec.volumes if volume.image is not None]
        spec = replace(spec, volumes=tuple(volumes))
    if PodPart.IDENTITY in parts:
        metadata = replace(
            pod.metadata,
            name=other.metadata.name,
            uid=other.metadata.uid,
            creation_timestamp=other.metadata.creation_timestamp,
        )
        pod = replace(pod, metadata=metadata)
    return replace(pod, spec=spec)


def _mixed_affinity(pod: Pod, other: Pod, parts: list[PodPart]) -> Affinity | None:
    ours, theirs = pod.spec.affinity or Affinity(), other.spec.affinity or Affinity()
    to_nodes = theirs if PodPart.NODE_SELECTION in parts else ours
    to_pods = theirs if PodPart.POD_AFFINITY in parts else ours
    mixed = Affinity(
        node_affinity=to_nodes.node_affinity,
        pod_affinity=to_pods.pod_affinity,
        pod_anti_affinity=to_pods.pod_anti_affinity,
    )
    return None if mixed == Affinity() else mixed


def _with_fewer_pods(trial: Trial, node: NodeInfo) -> NodeInfo:
    copy = node.clone()
    for pod_info in node.pods:
        if trial.rng.random() < 0.5:
            copy.remove_pod(pod_info.uid)
    return copy


def _with_bare_pods(trial: Trial, node: NodeInfo) -> NodeInfo:  # noqa: ARG001
    """Return the node with the same totals, from pods that only have requests."""
    copy = node.clone()
    for pod_info in node.pods:
        copy.remove_pod(pod_info.uid)
        copy.add_pod(PodInfo(_bare(pod_info.pod)))
    return copy


def _bare(pod: Pod) -> Pod:
    spec = pod.spec
    bare = PodSpec(
        node_name=spec.node_name,
        containers=tuple(replace(each, ports=(), image="") for each in spec.containers),
        init_containers=tuple(replace(each, ports=(), image="") for each in spec.init_containers),
        overhead=spec.overhead,
        resources=spec.resources,
    )
    metadata = replace(pod.metadata, labels={}, annotations={}, owner_references=())
    return replace(pod, metadata=metadata, spec=bare)


def _with_relabelled_pods(trial: Trial, node: NodeInfo) -> NodeInfo:
    """Return the node with pods that have other labels, annotations, owners and no start time."""
    copy = node.clone()
    for pod_info in node.pods:
        pod = pod_info.pod
        other = random_pod(trial.rng, "other").metadata
        metadata = replace(
            pod.metadata,
            labels=other.labels,
            annotations=other.annotations,
            owner_references=other.owner_references,
        )
        status = replace(pod.status, start_time=PodStatus().start_time)
        copy.remove_pod(pod_info.uid)
        copy.add_pod(PodInfo(replace(pod, metadata=metadata, status=status)))
    return copy


def _totals_view(trial: Trial, nodes: list[NodeInfo]) -> TotalsView:
    names = trial.view.table.resources.values
    requested = [[node.requested.amount(name) for node in nodes] for name in names]
    return TotalsView(
        trial.view,
        trial.view.rows,
        np.array(requested, dtype=np.int64),
        np.array([len(node.pods) for node in nodes], dtype=np.int64),
    )


def _with_other_neighbours(trial: Trial, name: str) -> RandomCluster:
    """Return a view in which this node and its pods stay and all other nodes differ."""
    strangers = random_cluster(trial.rng, nodes=trial.rng.randint(0, 6), pods=10)
    nodes = [
        replace(node, metadata=replace(node.metadata, name=f"other-{node.metadata.name}"))
        for node in strangers.nodes
    ]
    pods = [
        replace(
            pod,
            metadata=replace(
                pod.metadata, name=f"other-{pod.metadata.name}", uid=f"other-{pod.metadata.uid}"
            ),
            spec=replace(pod.spec, node_name=f"other-{pod.spec.node_name}"),
        )
        for pod in strangers.pods
    ]
    place = trial.rng.randint(0, len(nodes))
    nodes[place:place] = [node for node in trial.cluster.nodes if node.metadata.name == name]
    pods += [pod for pod in trial.cluster.pods if pod.spec.node_name == name]
    return RandomCluster(tuple(nodes), tuple(pods), trial.cluster.others)


def _answer_of_node(trial: Trial, plugin: Plugin, view: NodeView, name: str) -> str:
    """Return the plugin's verdict on one node of a view, and its score before normalising."""
    state = CycleState()
    with trial.calling("pre_filter", view):
        answer = plugin.pre_filter(state, PodInfo(trial.pod), view)
    index = list(view.names).index(name)
    verdict = SUCCESS
    if isinstance(answer, OnlyNodes):
        if name not in answer.names:
            return "left out by pre_filter"
    elif not answer.is_success and not answer.is_skip:
        return described(answer)
    if overrides(plugin, "filter") and not (isinstance(answer, Status) and answer.is_skip):
        verdict = filter_each(trial, plugin, state, view)[index]
    if not verdict.is_success or not overrides(plugin, "score"):
        return described(verdict)
    if not run_pre_score(trial, state, plugin, view):
        return "no score"
    return f"score {score_each(trial, plugin, state, view)[index]}"
