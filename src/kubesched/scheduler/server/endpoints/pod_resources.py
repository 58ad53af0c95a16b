"""`/metrics/resources`: the requests and limits of every pod (docs/reference/02 §11.3)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kubesched.api import Pod, Quantity, ResourceRequirements, pod_requests, quantity_from_json
from kubesched.api.pod import Container
from kubesched.api.pod_requests import FIT_REQUESTS
from kubesched.foundation.http.http_messages import Handler, Request, Response
from kubesched.foundation.metrics.exposition import format_number
from kubesched.scheduler.server.endpoints.metrics_pages import exposed

__all__ = ["pod_limits", "pod_resources_handler", "pod_series"]

_TAIL: Final = (
    "for workloads on the cluster, broken down by pod. This shows the resource usage the "
    "scheduler and kubelet expect per pod for resources along with the unit for the resource "
    "if any."
)
_REQUEST: Final = "kube_pod_resource_request"
_LIMIT: Final = "kube_pod_resource_limit"
_HELP: Final = {
    _REQUEST: f"[STABLE] Resources requested by {_TAIL.removeprefix('for ')}",
    _LIMIT: f"[STABLE] Resources limit {_TAIL}",
}
_BYTES: Final = frozenset({"memory", "storage", "ephemeral-storage"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})
# Yield to the scheduling loop between batches, because a page of many pods takes long.
_PODS_PER_TURN: Final = 200

# The label values in the order of the label names, and the line of the page.
Series = tuple[tuple[str, ...], str]


def pod_resources_handler(
    pods: Callable[[], Iterable[Pod]], is_leading: Callable[[], bool]
) -> Handler:
    """Return a handler that serves the pods in the cache; none while another replica leads."""

    async def answer(request: Request) -> Response:
        if not is_leading():
            return exposed(request, [])
        found: dict[str, list[Series]] = {_LIMIT: [], _REQUEST: []}
        for position, pod in enumerate(list(pods())):
            if position % _PODS_PER_TURN == _PODS_PER_TURN - 1:
                await asyncio.sleep(0)
            for metric, series in pod_series(pod):
                found[metric].append(series)
        return exposed(request, _page(found))

    return answer


def _page(found: dict[str, list[Series]]) -> Iterator[str]:
    for metric, series in found.items():
        if series:
            yield f"# HELP {metric} {_HELP[metric]}\n# TYPE {metric} gauge\n"
            yield from (line for _, line in sorted(series))


def pod_series(pod: Pod) -> Iterator[tuple[str, Series]]:
    """Return the series of one pod by metric. Zero amounts and finished pods have none."""
    spec, metadata = pod.spec, pod.metadata
    if spec.node_name and pod.status.phase in _ENDED:
        return
    priority = "" if spec.priority is None else str(spec.priority)
    for metric, amounts in ((_REQUEST, pod_requests(pod, FIT_REQUESTS)), (_LIMIT, pod_limits(pod))):
        for resource, amount in amounts.items():
            if not amount.sign:
                continue
            # In the order of the label names, because pages are sorted by it.
            labels = (
                metadata.namespace,
                spec.node_name,
                metadata.name,
                priority,
                resource,
                spec.scheduler_name,
                _unit(resource),
            )
            names = ("namespace", "node", "pod", "priority", "resource", "scheduler", "unit")
            text = ",".join(
                f'{name}="{_escape(value)}"' for name, value in zip(names, labels, strict=True)
            )
            yield metric, (labels, f"{metric}{{{text}}} {format_number(_as_float(amount))}\n")


def pod_limits(pod: Pod) -> dict[str, Quantity]:
    """Return the limits of a pod by resource.

    The rule is the one for requests, but overhead is added only to resources that have a limit.
    """
    spec = pod.spec
    limited = replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(map(_limits_as_requests, spec.containers)),
            init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
            resources=spec.resources and ResourceRequirements(requests=spec.resources.limits),
            overhead={},
        ),
    )
    limits = pod_requests(limited, FIT_REQUESTS)
    for resource, overhead in spec.overhead.items():
        limit = limits.get(resource)
        if limit is not None and limit.sign:
            limits[resource] = limit + quantity_from_json(overhead)
    return limits


def _limits_as_requests(container: Container) -> Container:
    return replace(container, resources=ResourceRequirements(requests=container.resources.limits))


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _as_float(amount: Quantity) -> float:
    try:
        if amount.exponent < 0:
            return float(amount.mantissa / 10**-amount.exponent)
        return float(amount.mantissa * 10**amount.exponent)
    except OverflowError:
        return math.inf


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
