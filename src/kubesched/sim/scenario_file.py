"""Reads scenarios from YAML files. An error is one line: FILE:LINE, the path, the problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubesched.api import ApiError, Node, Pod
from kubesched.api.base import ApiObject
from kubesched.api.latest_time import latest_time_ns
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.strategies.server_features import SWITCHED_FEATURES
from kubesched.cluster.apiserver.rules.validation.names import dns_subdomain
from kubesched.cluster.nodes.behavior_rules import parse_behavior_rules
from kubesched.errors import ConfigError, KubeschedError
from kubesched.explain.clusters.capture import read_capture
from kubesched.explain.clusters.sources import load_files
from kubesched.foundation.util.bounded_file import (
    MOST_SETTINGS_BYTES,
    read_bounded,
    read_bounded_text,
)
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.foundation.util.yaml_documents import YamlDocument, YamlProblem, read_documents
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.load import configuration_from_builtins, load_configuration
from kubesched.scheduler.runtime.plugin_loading import (
    installed_plugins,
    is_installed,
    out_of_tree_plugins,
)
from kubesched.sim.arrivals import Arrivals, parse_arrivals
from kubesched.sim.reading import Members, parse_cpu_milli, parse_memory_bytes
from kubesched.sim.scenario import (
    Autoscaler,
    Behaviour,
    Configuration,
    GangTemplate,
    NodeGroup,
    Scenario,
    ScenarioEvent,
    ScenarioWorkload,
    Target,
    TracePod,
)
from kubesched.sim.templates import ZONE_LABEL, node_template, pod_template
from kubesched.sim.traces import openb_nodes, read_trace
from kubesched.sim.values import ScenarioError, constant, format_duration, parse_rate_ns

__all__ = ["load_scenario", "parse_scenario"]

_KINDS = ("Pod", "Job", "Deployment", "StatefulSet", "DaemonSet", "CronJob")
_POLICIES = ("gang", "basic")
_DISRUPTION_MODES = ("Pod", "PodGroup")
_EVENT_KINDS = ("fail", "drain", "add", "remove")


def load_scenario(path: str | Path, *, run_plugins: bool = True) -> Scenario:
    """Read a scenario and all files that it refers to.

    The code of its plugins is imported. Without `run_plugins` a plugin is an error unless it is
    installed, and no code is imported for it.

    Raises:
        ConfigError: with file, line and the error, in one line.
    """
    file = Path(path)
    try:
        content = read_bounded(file)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}:1: not UTF-8 text: {error.reason}") from error
    documents = [part for part in read_documents(text) if _has_content(part)]
    for part in documents:
        if isinstance(part, YamlProblem):
            raise ConfigError(f"{file}:{part.line}: {part.text}")
    if len(documents) != 1:
        raise ConfigError(f"{file}:1: a scenario is one document, not {len(documents)}")
    document = documents[0]
    assert isinstance(document, YamlDocument)
    try:
        return parse_scenario(
            document.value,
            file.parent,
            default_name=file.stem,
            content=content,
            run_plugins=run_plugins,
        )
    except ScenarioError as error:
        raise ConfigError(f"{file}:{document.line_of(error.path)}: {error}") from error


def _has_content(part: YamlDocument | YamlProblem) -> bool:
    return isinstance(part, YamlProblem) or part.value is not None


def parse_scenario(
    value: Any,
    folder: Path,
    *,
    default_name: str = "scenario",
    content: bytes = b"",
    run_plugins: bool = True,
) -> Scenario:
    """Build a scenario from plain values; file names in it are relative to `folder`.

    `run_plugins` as in `load_scenario`.

    Raises:
        ScenarioError: with the path of the invalid value.
    """
    top = Members(value, "")
    top.raw("apiVersion")
    if (kind := top.take("kind", str, "Scenario")) != "Scenario":
        raise ScenarioError("kind", f"must be Scenario, not {kind!r}")
    files = _Files(folder)
    files.add(content or msgspec.json.encode(value, order="deterministic"))
    cluster = _cluster(top.members("cluster"), files)
    groups = cluster.groups
    names = [group.name for group in groups]
    trace = tuple(_traces(top, files))
    scenario = Scenario(
        name=top.take("name", str, default_name),
        duration_ns=_above_zero(top, "duration"),
        start_ns=_start(top, cluster),
        step_ns=_above_zero(top, "step", "5m"),
        seeds=_seeds(top.raw("seeds", 0), "seeds"),
        groups=groups,
        objects=cluster.objects,
        workloads=tuple(_workload(each) for each in top.each("workloads")),
        trace=trace,
        node_events=tuple(_event(each, names) for each in top.each("events")),
        autoscalers=tuple(_autoscaler(each, names) for each in top.each("autoscaler")),
        behaviour=_behaviour(top.members("behaviour"), files),
        configurations=_configurations(top, files, cluster.configuration, run_plugins),
        changes=top.take("changes", bool, False),
    )
    top.done()
    _check_names(scenario)
    _check_targets(scenario)
    _check_times(scenario)
    return msgspec.structs.replace(scenario, hash=files.hash)


class _Files:
    """The files that a scenario refers to; their content is part of its hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digest = hashlib.sha256()

    def add(self, content: bytes) -> None:
        self._digest.update(len(content).to_bytes(8, "big") + content)

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()[:16]

    def path(self, name: str, at: str) -> Path:
        path = self._folder / name
        try:
            self.add(path.read_bytes() if path.is_file() else b"")
        except OSError as error:
            raise ScenarioError(at, f"{path}: cannot be read: {error.strerror}") from error
        if not path.exists():
            raise ScenarioError(at, f"{path}: no such file")
        return path


def _above_zero(top: Members, name: str, default: str | None = None) -> int:
    duration_ns = top.duration_ns(name, default)
    if duration_ns <= 0:
        raise ScenarioError(top.at(name), "must be above zero")
    return duration_ns


def _start(top: Members, cluster: _Cluster) -> int:
    """Return the start of virtual time; without one, the moment of the cluster's objects."""
    latest_ns = max(latest_time_ns(cluster.objects), cluster.taken_ns)
    value = top.raw("start")
    if value is None:
        return latest_ns or DEFAULT_START_NS
    try:
        start_ns = parse_time(str(value))
    except ValueError as error:
        raise ScenarioError(
            "start", f"{value!r} is not a time such as 2026-01-05T00:00:00Z"
        ) from error
    if start_ns < latest_ns:
        text = f"is before {format_time(latest_ns)}, the latest time in the cluster's objects"
        raise ScenarioError("start", f"{text}; without a start the simulation begins then")
    return start_ns


def _seeds(value: Any, path: str) -> tuple[int, ...]:
    """Parse a number, a list of numbers, or a range such as `1-10`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, list):
        return tuple(seed for n, each in enumerate(value) for seed in _seeds(each, f"{path}[{n}]"))
    first, dash, last = str(value).partition("-")
    if dash and first.isdecimal() and last.isdecimal() and int(first) <= int(last):
        return tuple(range(int(first), int(last) + 1))
    raise ScenarioError(path, f"{value!r} is not a seed such as 7, [1, 2, 3] or 1-10")


# -- the cluster ---------------------------------------------------------------------------


class _Cluster(NamedTuple):
    groups: tuple[NodeGroup, ...]
    objects: tuple[ApiObject, ...]
    configuration: Any  # of the scheduler in a capture, in the form of a file
    taken_ns: int = 0  # when the capture was taken


def _cluster(members: Members, files: _Files) -> _Cluster:
    objects: list[ApiObject] = []
    configuration, taken_ns = None, 0
    try:
        if members.has("capture"):
            name = members.take("capture", str)
            captured = read_capture(files.path(name, members.at("capture")))
            objects += captured.objects
            configuration, taken_ns = captured.configuration, captured.taken_ns
        for number, name in enumerate(members.texts("files")):
            path = files.path(name, f"{members.at('files')}[{number}]")
            if path.name.removesuffix(".gz").endswith(".csv"):
                objects += (msgspec.convert(each, Node) for each in openb_nodes(path))
            else:
                installed_plugins()  # their custom resources are read from the files
                objects += load_files([path]).objects
    except ScenarioError:
        raise
    except KubeschedError as error:
        raise ScenarioError(members.path, str(error)) from error
    groups = tuple(_group(each) for each in members.each("nodes"))
    members.done()
    if not groups and not any(isinstance(each, Node) for each in objects):
        raise ScenarioError(members.path, "has no nodes: needs nodes, files or capture")
    return _Cluster(groups, tuple(objects), configuration, taken_ns)


def _group(members: Members) -> NodeGroup:
    name = members.take("name", str)
    if problems := dns_subdomain(f"{name}-0"):
        raise ScenarioError(members.at("name"), f"{name!r} is no name: {problems[0]}")
    count = members.take("count", int, 1)
    zones = members.texts("zones")
    price = members.number("price", 0.0)
    template = node_template(members, name)
    members.done()
    if count < 0:
        raise ScenarioError(members.at("count"), "must not be below zero")
    return NodeGroup(name=name, count=count, template=template, zones=zones, price_per_hour=price)


# -- workloads -----------------------------------------------------------------------------


def _workload(members: Members) -> ScenarioWorkload:
    name = members.take("name", str)
    kind = members.take("kind", str, "Pod")
    if kind not in _KINDS:
        raise ScenarioError(members.at("kind"), f"must be one of {', '.join(_KINDS)}")
    arrivals = Arrivals("at", times_ns=(0,))
    if members.has("arrivals"):
        arrivals = parse_arrivals(members.raw("arrivals"), members.at("arrivals"))
    workload = ScenarioWorkload(
        name=name,
        kind=kind,
        arrivals=arrivals,
        replicas=members.distribution("replicas", _count) or constant(1),
        duration=members.distribution("duration"),
        cpu=members.distribution("cpu", parse_cpu_milli),
        memory=members.distribution("memory", parse_memory_bytes),
        start_delay=members.distribution("startDelay"),
        priority=members.take("priority", int) if members.has("priority") else None,
        template=pod_template(members, name),
        schedule=members.take("schedule", str, ""),
        pod_group=_pod_group(members.members("podGroup")) if members.has("podGroup") else None,
    )
    if workload.pod_group is not None and kind != "Pod":
        raise ScenarioError(members.at("podGroup"), "goes with the kind Pod")
    if (kind == "CronJob") != bool(workload.schedule):
        raise ScenarioError(members.at("schedule"), "goes with the kind CronJob, which needs it")
    if kind == "DaemonSet" and members.has("replicas"):
        raise ScenarioError(members.at("replicas"), "a DaemonSet has a pod for each node")
    members.done()
    _validate_pod(workload, members.path)
    return workload


def _pod_group(members: Members) -> GangTemplate:
    policy = members.take("policy", str, "gang")
    if policy not in _POLICIES:
        raise ScenarioError(members.at("policy"), f"must be one of {', '.join(_POLICIES)}")
    mode = members.take("disruptionMode", str, "")
    if mode not in ("", *_DISRUPTION_MODES):
        known = ", ".join(_DISRUPTION_MODES)
        raise ScenarioError(members.at("disruptionMode"), f"must be one of {known}")
    least = None if members.raw("minCount") is None else members.take("minCount", int)
    if least is not None and (least < 1 or policy != "gang"):
        raise ScenarioError(members.at("minCount"), "must be above zero, and goes with a gang")
    template = GangTemplate(
        min_count=least,
        is_gang=policy == "gang",
        topology_key=members.take("topology", str, ""),
        disruption_mode=mode,
    )
    members.done()
    return template


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ScenarioError("", f"{value!r} is no whole number from 0 on")
    return value


def _validate_pod(workload: ScenarioWorkload, path: str) -> None:
    """Check a pod of the workload with the validation of the store."""
    store = Store(features=SWITCHED_FEATURES)  # a configuration may turn any of them on
    pod = workload.template
    metadata = msgspec.structs.replace(pod.metadata, name=f"{workload.name}-0", namespace="default")
    document = msgspec.to_builtins(msgspec.structs.replace(pod, metadata=metadata))
    try:
        store.create(store.catalog.by_type(Pod), "default", document, 0)
    except ApiError as error:
        details = error.status.details
        cause = details.causes[0] if details is not None and details.causes else None
        where = f"{path}.template.{cause.field}" if cause else path
        if cause is None and "priorityclass" in str(error).lower():
            return  # the class may be among the objects of the cluster
        raise ScenarioError(where, cause.message if cause else str(error)) from error


def _traces(top: Members, files: _Files) -> Iterator[TracePod]:
    for members in top.each("traces"):
        path = files.path(members.take("file", str), members.at("file"))
        form = members.take("format", str, "")
        speed = members.number("speed", 1.0)
        if not speed:
            raise ScenarioError(members.at("speed"), "must be above zero")
        try:
            pods = read_trace(path, form)
        except ConfigError as error:
            raise ScenarioError(members.at("file"), str(error)) from error
        members.done()
        for each in pods:
            yield msgspec.structs.replace(each, time_ns=round(each.time_ns / speed))


# -- events and behaviour ------------------------------------------------------------------


def _event(members: Members, groups: list[str]) -> ScenarioEvent:
    kinds = [kind for kind in _EVENT_KINDS if members.has(kind)]
    if len(kinds) != 1:
        raise ScenarioError(members.path, f"needs one of {', '.join(_EVENT_KINDS)}")
    kind = kinds[0]
    target = members.members(kind)
    count = target.raw("count")
    if count is not None and (not isinstance(count, int) or count < 1):
        raise ScenarioError(target.at("count"), f"must be a whole number above zero, not {count!r}")
    group = target.take("group", str, "")
    if group and group not in groups:
        raise ScenarioError(target.at("group"), _no_group(group, groups))
    zone, names = target.take("zone", str, ""), target.texts("nodes")
    target.done()
    arrivals = _event_times(members)
    lasts = members.distribution("for")
    members.done()
    if kind == "add" and (not group or not count):
        raise ScenarioError(target.path, "needs the group and the count of nodes to add")
    return ScenarioEvent(
        kind=kind,
        target=Target(group=group, zone=zone, names=names, count=None if kind == "add" else count),
        arrivals=arrivals,
        lasts=lasts,
        count=count or 0,
    )


def _event_times(members: Members) -> Arrivals:
    if members.has("rate"):
        gap_ns = parse_rate_ns(members.raw("rate"), members.at("rate"))
        return Arrivals("poisson", gap_ns=gap_ns)
    if members.has("arrivals"):
        return parse_arrivals(members.raw("arrivals"), members.at("arrivals"))
    if not members.has("at"):
        raise ScenarioError(members.path, "needs at, rate or arrivals")
    return parse_arrivals({"at": members.raw("at")}, members.path)


def _no_group(group: str, groups: list[str]) -> str:
    return f"no node group {group!r}; there are {', '.join(groups) or 'none'}"


def _autoscaler(members: Members, groups: list[str]) -> Autoscaler:
    group = members.take("group", str)
    if group not in groups:
        raise ScenarioError(members.at("group"), _no_group(group, groups))
    scaler = Autoscaler(
        group=group,
        minimum=members.take("min", int, 0),
        maximum=members.take("max", int),
        delay_ns=members.duration_ns("delay", "2m"),
        idle_ns=members.duration_ns("idle", "10m"),
    )
    members.done()
    if not 0 <= scaler.minimum <= scaler.maximum:
        raise ScenarioError(members.at("max"), "must not be below min")
    return scaler


def _behaviour(members: Members, files: _Files) -> Behaviour:
    behaviour = Behaviour(
        start_delay_ns=members.duration_ns("startDelay", "100ms"),
        stop_delay_ns=members.duration_ns("stopDelay", "1s"),
        rules=_behaviour_rules(members, files),
    )
    members.done()
    return behaviour


def _behaviour_rules(members: Members, files: _Files) -> str:
    """Read the rules, from a file or from the scenario itself."""
    rules = members.raw("rules")
    if rules is None:
        return ""
    at, name = members.at("rules"), ""
    if isinstance(rules, list):
        text = msgspec.json.encode({"rules": rules}).decode()
    else:
        path = files.path(members.take("rules", str), at)
        name = f"{path}: "
        try:
            text = read_bounded_text(path)
        except OSError as error:
            raise ScenarioError(at, f"{name}cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ScenarioError(at, f"{name}not UTF-8 text: {error.reason}") from error
    try:
        parse_behavior_rules(text, 0, at)
    except KubeschedError as error:
        where, _, what = str(error).removeprefix(f"{at}: ").partition(": ")
        if not where.startswith("rules["):
            raise ScenarioError(at, name + " ".join(str(error).split())) from error
        # Rules in the scenario itself have their own lines.
        place = f"{at}{where.removeprefix('rules')}" if isinstance(rules, list) else at
        raise ScenarioError(place, what if not name else f"{name}{where}: {what}") from error
    return text


# -- configurations ------------------------------------------------------------------------


def _configurations(
    top: Members, files: _Files, captured: Any, run_plugins: bool
) -> tuple[Configuration, ...]:
    """Return the scenario's configurations, or the captured one, or the default one."""
    given = list(top.each("configurations"))
    if not run_plugins:
        for each in given:  # before the code of any of them is imported
            _check_installed(each)
    found = tuple(_configuration(each, files) for each in given)
    if found or captured is None:
        return found or (Configuration(name="default"),)
    try:
        loaded = configuration_from_builtins(captured)
    except KubeschedError as error:
        raise ScenarioError("cluster.capture", " ".join(str(error).split())) from error
    return (Configuration(name="captured", configuration=loaded),)


def _check_installed(members: Members) -> None:
    """Check that all plugins are installed, as code that the user has not allowed is not run."""
    for number, each in enumerate(members.texts("plugins")):
        if not is_installed(each):
            raise ScenarioError(
                f"{members.at('plugins')}[{number}]",
                f"plugin {each} is not installed; --run-plugins allows to run its code",
            )


def _configuration(members: Members, files: _Files) -> Configuration:
    name = members.take("name", str)
    plugins = tuple(
        str(files.path(each, members.at("plugins"))) if each.endswith(".py") else each
        for each in members.texts("plugins")
    )
    gates = _feature_gates(members)
    checked = FeatureGates(gates)
    loaded = None
    try:
        known_args = out_of_tree_plugins(plugins).known_args()
        if members.has("file"):
            path = files.path(members.take("file", str), members.at("file"))
            loaded = load_configuration(
                read_bounded(path, MOST_SETTINGS_BYTES), gates=checked, known_args=known_args
            )
        elif members.has("config"):
            inline = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                **members.take("config", dict),
            }
            loaded = configuration_from_builtins(inline, gates=checked, known_args=known_args)
    except ScenarioError:
        raise
    except KubeschedError as error:
        at = members.at("file" if members.has("file") else "config")
        raise ScenarioError(at, " ".join(str(error).split())) from error
    members.done()
    return Configuration(name=name, configuration=loaded, plugins=plugins, feature_gates=gates)


def _feature_gates(members: Members) -> dict[str, bool]:
    """Return the gates that a configuration sets, checked together."""
    found = members.take("featureGates", dict, {})
    for name, value in found.items():
        if not isinstance(value, bool):
            at = f"{members.at('featureGates')}.{name}"
            raise ScenarioError(at, f"must be true or false, not {value!r}")
    try:
        FeatureGates(found)
    except ConfigError as error:
        raise ScenarioError(members.at("featureGates"), str(error)) from error
    return found


def _check_names(scenario: Scenario) -> None:
    for path, names in (
        ("cluster.nodes", [each.name for each in scenario.groups]),
        ("workloads", [each.name for each in scenario.workloads]),
        ("configurations", [each.name for each in scenario.configurations]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ScenarioError(f"{path}[{number}].name", f"{name!r} is there twice")


def _check_targets(scenario: Scenario) -> None:
    """Events that could never happen to any node are mistakes: most often a name is misspelt."""
    nodes = [each for each in scenario.objects if isinstance(each, Node)]
    zones = {each.metadata.labels.get(ZONE_LABEL, "") for each in nodes}
    for group in scenario.groups:
        zones |= {*group.zones, group.template.metadata.labels.get(ZONE_LABEL, "")}
    names = {each.metadata.name for each in nodes}
    prefixes = tuple(f"{group.name}-" for group in scenario.groups)
    for number, event in enumerate(scenario.node_events):
        at, target = f"events[{number}].{event.kind}", event.target
        if target.zone and target.zone not in zones:
            known = ", ".join(sorted(filter(None, zones))) or "none"
            raise ScenarioError(f"{at}.zone", f"no zone {target.zone!r}; there are {known}")
        for place, name in enumerate(target.names):
            # Nodes that are added later are named after their group, too.
            if name not in names and not name.startswith(prefixes):
                raise ScenarioError(f"{at}.nodes[{place}]", f"no node {name!r}")


def _check_times(scenario: Scenario) -> None:
    """What could only happen after the end is a mistake: the run would silently go without it."""
    end_ns = scenario.duration_ns
    for number, event in enumerate(scenario.node_events):
        for time_ns in (*event.arrivals.times_ns, event.arrivals.from_ns):
            if time_ns >= end_ns:
                raise ScenarioError(f"events[{number}]", _too_late(time_ns, end_ns))


def _too_late(time_ns: int, end_ns: int) -> str:
    at, end = format_duration(time_ns), format_duration(end_ns)
    return f"at {at} the run is over: its duration is {end}"
