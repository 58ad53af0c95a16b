"""Placement tests in YAML: `given` a cluster, `when` pods arrive or nodes fail, `then` claims.

One or more documents per file; docs/placement-tests.md documents the form. In pytest:

    @pytest.mark.parametrize("check", load_checks(["placement/"]), ids=str)
    def test_placement(check):
        check.run()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api import Node, Pod
from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import read_bounded_text
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.yaml_documents import YamlDocument, YamlProblem, read_documents
from kubesched.sim.reading import Members
from kubesched.sim.scenario import Scenario
from kubesched.sim.scenario_file import parse_scenario
from kubesched.sim.simulation import Simulation, simulate
from kubesched.sim.values import ScenarioError
from kubesched.testing.placement import (
    Claim,
    Never,
    Only,
    Pending,
    PendingAtMost,
    PerNode,
    Placed,
    PlacedPod,
    Placement,
    Spread,
)

__all__ = ["Check", "CheckResult", "load_checks"]

_SUFFIXES: Final = (".yaml", ".yml")
_ZONE: Final = "topology.kubernetes.io/zone"
_SHORT: Final = {"zone": _ZONE, "node": "kubernetes.io/hostname"}
_EVENTS: Final = ("fail", "drain", "add", "remove")
_WAIT_NS: Final = 300 * SECOND


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a test; `problems` is empty if every claim holds."""

    name: str
    location: str
    problems: list[str]


class Check(msgspec.Struct, frozen=True):
    """One placement test."""

    name: str
    location: str  # FILE:LINE
    scenario: Scenario
    claims: tuple[tuple[str, Claim], ...]  # each with FILE:LINE

    def __str__(self) -> str:
        return self.name

    def result(self) -> CheckResult:
        """Run the test, and return the claims that do not hold."""
        scenario = self.scenario
        _, simulation = simulate(scenario, scenario.configurations[0], scenario.seeds[0])
        placement = _placement(simulation)
        problems = [
            f"{location}: {problem}"
            for location, claim in self.claims
            if (problem := claim.check(placement))
        ]
        return CheckResult(self.name, self.location, problems)

    def run(self) -> None:
        """Run the test.

        Raises:
            AssertionError: a line for each claim that does not hold.
        """
        if problems := self.result().problems:
            raise AssertionError("\n".join(problems))


def load_checks(paths: Sequence[str | Path], *, run_plugins: bool = True) -> list[Check]:
    """Load the tests of files and folders; `run_plugins` as in `load_scenario`.

    Raises:
        ConfigError: with file, line and the error, in one line.
    """
    files = [file for path in paths for file in _files(Path(path))]
    checks = [check for file in files for check in _checks(file, run_plugins)]
    if not checks:
        raise ConfigError(f"{', '.join(map(str, paths))}: no placement tests found")
    return checks


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)


def _checks(file: Path, run_plugins: bool) -> Iterator[Check]:
    try:
        text = read_bounded_text(file, "utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text: {error.reason}") from error
    for part in read_documents(text):
        if isinstance(part, YamlProblem):
            raise ConfigError(f"{file}:{part.line}: {part.text}")
        if part.value is None:
            continue
        try:
            yield _check(file, part, run_plugins)
        except ScenarioError as error:
            place = _place(error.path)
            problem = ScenarioError(place, error.text)
            raise ConfigError(f"{file}:{part.line_of(place)}: {problem}") from error


def _place(path: str) -> str:
    """Return the path in the test of a path in its scenario."""
    for of_scenario, of_test in (("cluster", "given"), ("configurations[0]", "configuration")):
        if path.startswith(of_scenario):
            return path.replace(of_scenario, of_test, 1)
    return path


def _check(file: Path, part: YamlDocument, run_plugins: bool) -> Check:
    top = Members(part.value, "")
    top.raw("apiVersion")
    if (kind := top.take("kind", str, "PlacementTest")) != "PlacementTest":
        raise ScenarioError("kind", f"must be PlacementTest, not {kind!r}")
    name = top.take("name", str)
    claims = tuple(
        (f"{file}:{part.line_of(f'then[{number}]')}", _claim(members))
        for number, members in enumerate(top.each("then"))
    )
    if not claims:
        raise ScenarioError("then", "needs at least one claim")
    scenario = _scenario(top, file.parent, name, run_plugins)
    top.done()
    return Check(name, f"{file}:{part.line}", scenario, claims)


def _scenario(top: Members, folder: Path, name: str, run_plugins: bool) -> Scenario:
    """Build the scenario of a test. It ends some time after the last step."""
    now_ns = 0
    workloads: list[Any] = []
    events: list[Any] = []
    for members in top.each("when"):
        if members.has("wait"):
            now_ns += members.duration_ns("wait")
        elif members.has("pods"):
            pods = dict(members.take("pods", dict))
            workloads.append({**pods, "arrivals": {"at": [now_ns / SECOND]}})
        else:
            kinds = [kind for kind in _EVENTS if members.has(kind)]
            if not kinds:
                known = ", ".join(["pods", "wait", *_EVENTS])
                raise ScenarioError(members.path, f"needs one of {known}")
            event = {kinds[0]: members.raw(kinds[0]), "at": now_ns / SECOND}
            if members.has("for"):
                event["for"] = members.raw("for")
            events.append(event)
        members.done()
    document: dict[str, Any] = {
        "name": name,
        "duration": (now_ns + _settling_ns(top)) / SECOND,
        "step": (now_ns + _WAIT_NS) / SECOND,
        "cluster": top.raw("given", {}),
        "workloads": workloads,
        "events": events,
        "seeds": top.raw("seed", 0),
    }
    if top.has("configuration"):
        document["configurations"] = [{"name": "tested", **top.take("configuration", dict)}]
    return parse_scenario(document, folder, run_plugins=run_plugins)


def _settling_ns(top: Members) -> int:
    return top.duration_ns("within", "5m")


def _claim(members: Members) -> Claim:
    """Parse a claim: a mapping with the name of the claim as its only key."""
    kinds = [kind for kind in _CLAIMS if members.has(kind)]
    if len(kinds) != 1:
        raise ScenarioError(members.path, f"needs one of {', '.join(_CLAIMS)}")
    given = members.members(kinds[0])
    members.done()
    claim: Claim = _CLAIMS[kinds[0]](given, _labels(given, "pods"))
    given.done()
    return claim


def _labels(members: Members, name: str) -> dict[str, str]:
    labels = members.take(name, dict, {})
    for key, value in labels.items():
        if not isinstance(value, str):
            raise ScenarioError(f"{members.at(name)}.{key}", f"must be text, not {value!r}")
    return labels


def _count(members: Members, name: str) -> int | None:
    return members.take(name, int) if members.has(name) else None


def _spread(members: Members, pods: dict[str, str]) -> Claim:
    over = members.take("over", str, "zone")
    return Spread(
        pods,
        over=_SHORT.get(over, over),
        domains=_count(members, "domains"),
        skew=_count(members, "skew"),
    )


def _pending_at_most(members: Members, pods: dict[str, str]) -> Claim:
    return PendingAtMost(pods, seconds=members.duration_ns("for") / SECOND)


_CLAIMS: Final[dict[str, Any]] = {
    "placed": lambda members, pods: Placed(pods, count=_count(members, "count")),
    "pending": lambda members, pods: Pending(
        pods, count=_count(members, "count"), reason=members.take("reason", str, "")
    ),
    "pendingAtMost": _pending_at_most,
    "spread": _spread,
    "never": lambda members, pods: Never(pods, nodes=_labels(members, "nodes")),
    "only": lambda members, pods: Only(pods, nodes=_labels(members, "nodes")),
    "perNode": lambda members, pods: PerNode(pods, at_most=members.take("atMost", int, 1)),
}


def _placement(simulation: Simulation) -> Placement:
    """Return the node of every pod at the end, and how long it waited."""
    store, observer = simulation.store, simulation.observer
    end_ns = simulation.scenario.start_ns + simulation.scenario.duration_ns
    pods = []
    for record in store.list(store.catalog.by_type(Pod)).records:
        pod: Pod = record.typed
        if pod.metadata.deletion_timestamp is not None:
            continue  # only a stopped kubelet has not confirmed the deletion
        known = observer.pods.get(pod.metadata.uid)
        waited_ns = 0
        if known is not None:
            bound_ns = known.bound_ns if known.bound_ns >= 0 else end_ns
            waited_ns = bound_ns - known.created_ns
        pods.append(
            PlacedPod(
                name=f"{pod.metadata.namespace}/{pod.metadata.name}",
                labels=pod.metadata.labels,
                node=pod.spec.node_name,
                pending_s=waited_ns / SECOND,
                reason="" if known is None or pod.spec.node_name else known.reason,
            )
        )
    nodes = store.list(store.catalog.by_type(Node)).records
    return Placement(
        pods=tuple(pods),
        nodes={each.typed.metadata.name: each.typed.metadata.labels for each in nodes},
    )
