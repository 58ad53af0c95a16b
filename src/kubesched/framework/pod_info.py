"""A pod with cached values that scheduling reads often (docs/reference/04 §3.1)."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api import Affinity, Pod
from kubesched.api.host_ports import HostPort, host_ports
from kubesched.api.pod_requests import node_amounts, plain_amounts
from kubesched.api.resource_amounts import Resources
from kubesched.errors import KubeschedError, SelectorError
from kubesched.framework.affinity_terms import (
    AffinityTerm,
    WeightedAffinityTerm,
    parse_terms,
    parse_weighted_terms,
)
from kubesched.framework.pod_limits import affinity_excess

__all__ = ["PodInfo", "PodInfos", "QueuedPodInfo", "assigned_to"]

_PORTS = attrgetter("ports")
_NONE: Set[str] = frozenset()


def assigned_to(pod: Pod, node_name: str) -> Pod:
    """Return the pod with its node set."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))


class PodInfo(msgspec.Struct, eq=False, gc=False):
    """A pod with its parsed affinity terms and its computed amounts.

    A term list that cannot be parsed is empty here, all are if there are too many, and the
    error is in `affinity_errors`. Existing pods are then treated as having no such terms, and
    InterPodAffinity rejects an incoming pod. Amounts are computed when they are first read.

    There is one for every pod of the cluster. No field refers back to it, so the garbage collector
    does not track them.
    """

    pod: Pod
    required_affinity_terms: tuple[AffinityTerm, ...] = ()
    required_anti_affinity_terms: tuple[AffinityTerm, ...] = ()
    preferred_affinity_terms: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity_terms: tuple[WeightedAffinityTerm, ...] = ()
    affinity_errors: tuple[str, ...] = ()
    _amounts: tuple[Resources, tuple[int, int]] | None = None
    _is_plain: bool | None = None  # None: not computed yet
    _host_ports: tuple[HostPort, ...] | None = None
    _claim_keys: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.pod.spec.affinity is not None:
            self._parse_terms(self.pod.spec.affinity)

    def _parse_terms(self, affinity: Affinity) -> None:
        if excess := affinity_excess(affinity):
            self.affinity_errors = (excess,)
            return
        namespace = self.pod.metadata.namespace
        errors: list[str] = []

        def parsed(label: str, parse: Any, terms: Any) -> Any:
            try:
                return parse(terms, namespace)
            except SelectorError as exc:
                errors.append(f"{label}: {exc}")
                return ()

        if (near := affinity.pod_affinity) is not None:
            self.required_affinity_terms = parsed(
                "requiredAffinityTerms",
                parse_terms,
                near.required_during_scheduling_ignored_during_execution,
            )
        if (apart := affinity.pod_anti_affinity) is not None:
            self.required_anti_affinity_terms = parsed(
                "requiredAntiAffinityTerms",
                parse_terms,
                apart.required_during_scheduling_ignored_during_execution,
            )
        if near is not None:
            self.preferred_affinity_terms = parsed(
                "preferredAffinityTerms",
                parse_weighted_terms,
                near.preferred_during_scheduling_ignored_during_execution,
            )
        if apart is not None:
            self.preferred_anti_affinity_terms = parsed(
                "preferredAntiAffinityTerms",
                parse_weighted_terms,
                apart.preferred_during_scheduling_ignored_during_execution,
            )
        self.affinity_errors = tuple(errors)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def requested(self) -> Resources:
        """The amounts that a node is charged for the pod. Shared with other pods: do not modify."""
        amounts = self._amounts
        if amounts is None:
            amounts = self._amounts = node_amounts(self.pod)
        return amounts[0]

    @property
    def nonzero_requested(self) -> tuple[int, int]:
        """(milli-CPU, bytes of memory) for scoring, with defaults for missing requests."""
        amounts = self._amounts
        if amounts is None:
            amounts = self._amounts = node_amounts(self.pod)
        return amounts[1]

    @property
    def plain_requested(self) -> Resources | None:
        """`requested` if all ways to compute requests agree for this pod, else None."""
        if self._is_plain is None:
            plain = plain_amounts(self.pod)
            self._is_plain = plain is not None
            self._amounts = plain or self._amounts
        return self._amounts[0] if self._is_plain and self._amounts is not None else None

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        ports = self._host_ports
        if ports is None:
            spec = self.pod.spec
            # Most pods have no ports; this check is faster than collecting them.
            has_ports = any(map(_PORTS, spec.containers)) or spec.init_containers
            ports = self._host_ports = host_ports(self.pod) if has_ports else ()
        return ports

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """The volume claims that the pod names, as `namespace/name`."""
        keys = self._claim_keys
        if keys is None:
            pod = self.pod
            keys = self._claim_keys = tuple(
                [
                    f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
                    for volume in pod.spec.volumes
                    if volume.persistent_volume_claim is not None
                ]
            )
        return keys

    @property
    def has_affinity(self) -> bool:
        """Whether the pod has a podAffinity or podAntiAffinity section, even an empty one."""
        affinity = self.pod.spec.affinity
        return affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )

    def placed_on(self, node_name: str) -> PodInfo:
        """Return a copy with the node set, which shares all cached values."""
        placed = _copy(self)
        placed.pod = assigned_to(self.pod, node_name)
        return placed


# The method that `copy` finds; msgspec does not declare it.
_copy: Callable[[PodInfo], PodInfo] = PodInfo.__copy__  # type: ignore[attr-defined]


class PodInfos:
    """Builds PodInfos for consecutive pods that often share one spec object.

    Values computed for the first pod are reused for the others.
    """

    def __init__(self) -> None:
        self._last = PodInfo(Pod())
        self._is_computed = False

    def info_of(self, pod: Pod) -> PodInfo:
        last = self._last
        before = last.pod
        if (
            pod.spec is not before.spec
            or pod.metadata.namespace != before.metadata.namespace
            or pod.status != before.status  # it may contain further amounts
        ):
            self._last, self._is_computed = PodInfo(pod), False
            return self._last
        if not self._is_computed:
            self._is_computed = True
            # Invalid amounts raise again where they are used.
            with suppress(KubeschedError):
                _ = last.host_ports, last.claim_keys, last.plain_requested
        info = _copy(last)
        info.pod = pod
        return info


class QueuedPodInfo:
    """A waiting pod and its history in the queue (docs/reference/03 §2).

    Times are wall-clock nanoseconds.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration_ns",
        "consecutive_errors_count",
        "flush_timestamp_ns",
        "gating_events",
        "gating_plugin",
        "initial_attempt_timestamp_ns",
        "key",
        "pending_plugins",
        "pod_info",
        "timestamp_ns",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    def __init__(self, pod: Pod, now_ns: int, pod_info: PodInfo | None = None) -> None:
        self.pod_info = PodInfo(pod) if pod_info is None else pod_info
        # The pod's key in the queue: namespace and name, without uid.
        self.key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self.timestamp_ns = now_ns
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.backoff_expiration_ns: int | None = None
        self.initial_attempt_timestamp_ns: int | None = None
        # Replaced, never modified: all pods without plugins share one empty set.
        self.unschedulable_plugins: Set[str] = _NONE
        self.pending_plugins: Set[str] = _NONE
        self.gating_plugin = ""
        self.gating_events: tuple[Any, ...] = ()  # ClusterEvents of the gating plugin
        self.was_flushed_from_unschedulable = False
        self.flush_timestamp_ns = 0

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> Set[str]:
        """Plugins whose verdict an event must change before the pod is retried."""
        return self.unschedulable_plugins | self.pending_plugins
