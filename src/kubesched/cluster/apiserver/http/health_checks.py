"""The health endpoints: `ok`, or one line for each check.

The checks have the names that monitoring tools and the official test suite expect. Most of them
name components that this server does not have; these checks always pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.foundation.http.http_messages import TEXT, Request, Response

__all__ = ["HEALTH_PATHS", "all_checks", "health", "is_health"]

_BEGIN = ("ping", "log", "etcd")
_READY = ("etcd-readiness", "informer-sync")
_HOOKS = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/max-in-flight-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)
_CHECKS: dict[str, Sequence[str]] = {
    "/healthz": (*_BEGIN, *_HOOKS),
    "/livez": (*_BEGIN, *_HOOKS),
    "/readyz": (*_BEGIN, *_READY, *_HOOKS, "shutdown"),
}
HEALTH_PATHS = tuple(_CHECKS)


def all_checks() -> list[tuple[str, str]]:
    """List all checks: the type, which is the name of the endpoint, and the name of the check."""
    return [(path[1:], name) for path, checks in _CHECKS.items() for name in checks]


def is_health(path: str) -> bool:
    """Whether a path is a health endpoint, or one of its checks such as `/livez/ping`."""
    return any(path == each or path.startswith(f"{each}/") for each in _CHECKS)


def health(request: Request) -> Response:
    """Respond with `ok`, or with `verbose` a line for each check, without those in `exclude`."""
    path, _, one = request.raw_path[1:].partition("/")
    checks = _CHECKS[f"/{path}"]
    if one:
        found = one in checks
        return Response(200 if found else 404, b"ok" if found else b"404 page not found\n", TEXT)
    if "verbose" not in request.query:
        return Response(200, b"ok", TEXT)
    excluded = set(request.query.get("exclude", "").split(",")) - {""}
    lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in checks]
    if unknown := sorted(excluded - set(checks)):
        named = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    return Response(200, "\n".join([*lines, f"{path} check passed", ""]).encode(), TEXT)
