"""LimitRange admission: default requests and limits of containers, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubesched.api.quantity import ZERO, Quantity, parse_quantity
from kubesched.cluster.apiserver.rules.errors.api_errors import forbidden
from kubesched.cluster.apiserver.rules.errors.value_limit import MOST_VALUES, value_refusal
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json

__all__ = ["apply_limit_ranges", "check_claim_limits", "default_limit_range"]

_ANNOTATION = "kubernetes.io/limit-ranger"


def default_limit_range(spec: Json) -> Json:
    """Add to a LimitRange the defaults that follow from its bounds."""
    limits = []
    for item in spec.get("limits", ()):
        filled = dict(item)
        if item.get("type") == "Container":
            default = {
                **canonical_amounts(item.get("max", {})),
                **canonical_amounts(item.get("default", {})),
            }
            request = {
                **default,
                **canonical_amounts(item.get("min", {})),
                **canonical_amounts(item.get("defaultRequest", {})),
            }
            # The default limit is also the default request, unless the user sets one.
            declared = item.get("defaultRequest", {})
            request |= {
                name: default[name] for name in item.get("default", {}) if name not in declared
            }
            if default:
                filled["default"] = default
            if request:
                filled["defaultRequest"] = request
        for field in ("max", "min", "maxLimitRequestRatio"):
            if item.get(field):
                filled[field] = canonical_amounts(item[field])
        limits.append(filled)
    return {**spec, "limits": limits}


def apply_limit_ranges(pod: Json, spec: Json, ranges: Iterable[Json]) -> tuple[Json, Json]:
    """Add the defaults of the ranges to a pod and check the bounds. Returns metadata and spec.

    Raises:
        ApiError: 403, an amount is out of bounds.
    """
    metadata: Json = pod["metadata"]
    ranges = list(ranges)
    _check_product(spec, ranges)
    for limit_range in ranges:
        metadata, spec = _defaulted(metadata, spec, limit_range)
    problems: list[str] = []
    for limit_range in ranges:
        for item in limit_range["spec"].get("limits", ()):
            problems += _problems(item, spec)
    if problems:
        name = metadata.get("name") or metadata.get("generateName", "")
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden("pods", name, text)
    return metadata, spec


def _check_product(spec: Json, ranges: Iterable[Json]) -> None:
    """Limit the size of a pod: every container gets every default.

    Raises:
        ApiError: 413.
    """
    containers = sum(len(spec.get(part) or ()) for part in ("containers", "initContainers"))
    amounts = sum(
        len(amounts)
        for limit_range in ranges
        for item in limit_range["spec"].get("limits", ())
        for amounts in item.values()
        if isinstance(amounts, dict)
    )
    if containers * amounts > MOST_VALUES:
        raise value_refusal()


def _defaulted(metadata: Json, spec: Json, limit_range: Json) -> tuple[Json, Json]:
    """Add the defaults of one range to a pod's containers, and an annotation that lists them."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in limit_range["spec"].get("limits", ()):
        if item.get("type") == "Container":
            limits |= item.get("default", {})
            requests |= item.get("defaultRequest", {})
    if not limits and not requests:
        return metadata, spec
    notes: list[str] = []
    changed = dict(spec)
    for part, word in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(part):
            changed[part] = [
                _defaulted_container(each, requests, limits, word, notes) for each in spec[part]
            ]
    if notes:
        text = "LimitRanger plugin set: " + "; ".join(notes)
        annotations = {**metadata.get("annotations", {}), _ANNOTATION: text}
        metadata = {**metadata, "annotations": annotations}
    return metadata, changed


def _defaulted_container(
    container: Json,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
    word: str,
    notes: list[str],
) -> Json:
    """Add default requests and limits to a container, and describe them in `notes`."""
    resources = container.get("resources", {})
    own_requests, own_limits = resources.get("requests", {}), resources.get("limits", {})
    # A container's own limit is also its request, before any default.
    own = own_requests.keys() | own_limits.keys()
    new_requests = {name: raw for name, raw in requests.items() if name not in own}
    new_limits = {name: raw for name, raw in limits.items() if name not in own_limits}
    if not new_requests and not new_limits:
        return container
    resources, called = {**resources}, container.get("name", "")
    if new_requests:
        resources["requests"] = {**own_requests, **new_requests}
        notes.append(f"{', '.join(sorted(new_requests))} request for {word} {called}")
    if new_limits:
        resources["limits"] = {**own_limits, **new_limits}
        notes.append(f"{', '.join(sorted(new_limits))} limit for {word} {called}")
    return {**container, "resources": resources}


def _problems(item: Json, spec: Json) -> list[str]:
    kind = item.get("type", "")
    if kind == "Container":
        containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
        return [
            text
            for container in containers
            for text in _out_of_bounds(item, kind, *_amounts(container))
        ]
    if kind == "Pod":
        return _out_of_bounds(item, kind, _total(spec, "requests"), _total(spec, "limits"))
    return []


Amounts = Mapping[str, Quantity]


def _amounts(container: Json) -> tuple[Amounts, Amounts]:
    resources = container.get("resources", {})
    requests, limits = (
        {name: parse_quantity(raw) for name, raw in resources.get(part, {}).items()}
        for part in ("requests", "limits")
    )
    return requests, limits


def _total(spec: Json, part: str) -> Amounts:
    """Return the sum over containers, or the amount of an init container if that is larger."""
    position = 0 if part == "requests" else 1
    total: dict[str, Quantity] = {}
    for container in spec.get("containers", ()):
        for name, amount in _amounts(container)[position].items():
            total[name] = total.get(name, ZERO) + amount
    for container in spec.get("initContainers", ()):
        for name, amount in _amounts(container)[position].items():
            total[name] = max(total.get(name, ZERO), amount)
    return total


def _out_of_bounds(item: Json, kind: str, requests: Amounts, limits: Amounts) -> list[str]:
    problems: list[str] = []
    for name, raw in sorted(item.get("min", {}).items()):
        least = parse_quantity(raw)
        if name not in requests:
            problems.append(f"minimum {name} usage per {kind} is {raw}.  No request is specified")
        elif requests[name] < least:
            problems.append(
                f"minimum {name} usage per {kind} is {raw}, but request is {requests[name]}"
            )
    for name, raw in sorted(item.get("max", {}).items()):
        most = parse_quantity(raw)
        if name not in limits:
            problems.append(f"maximum {name} usage per {kind} is {raw}.  No limit is specified")
        elif limits[name] > most:
            problems.append(
                f"maximum {name} usage per {kind} is {raw}, but limit is {limits[name]}"
            )
    for name, raw in sorted(item.get("maxLimitRequestRatio", {}).items()):
        problems += _ratio_problem(name, str(raw), kind, requests, limits)
    return problems


def _ratio_problem(name: str, raw: str, kind: str, requests: Amounts, limits: Amounts) -> list[str]:
    begin = f"{name} max limit to request ratio per {kind} is {raw}, but "
    if name not in requests or requests[name].is_zero:
        return [f"{begin}no request is specified or request is 0"]
    if name not in limits or limits[name].is_zero:
        return [f"{begin}no limit is specified or limit is 0"]
    ratio = limits[name].milli_value / requests[name].milli_value
    if ratio > parse_quantity(raw).milli_value / 1000:
        return [f"{begin}provided ratio is {ratio:f}"]
    return []


def check_claim_limits(claim: Json, ranges: Iterable[Json]) -> None:
    """Raises ApiError 403 for a claim whose requested storage is out of bounds."""
    raw = claim["spec"].get("resources", {}).get("requests", {}).get("storage")
    name = claim["metadata"].get("name", "")
    refuse: Callable[[str], Any] = lambda text: forbidden("persistentvolumeclaims", name, text)  # noqa: E731
    for limit_range in ranges:
        for item in limit_range["spec"].get("limits", ()):
            if item.get("type") != "PersistentVolumeClaim" or raw is None:
                continue
            size = parse_quantity(raw)
            least, most = item.get("min", {}).get("storage"), item.get("max", {}).get("storage")
            kind = "PersistentVolumeClaim"
            if least is not None and size < parse_quantity(least):
                text = f"minimum storage usage per {kind} is {least}, but request is {size}"
                raise refuse(text)
            if most is not None and size > parse_quantity(most):
                text = f"maximum storage usage per {kind} is {most}, but request is {size}"
                raise refuse(text)
