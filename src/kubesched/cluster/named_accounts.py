"""Service accounts that manifests name and do not contain.

Files that describe a workload, and dumps, often lack its accounts, without which the server
refuses the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kubesched.api import ApiError
from kubesched.api.core import ServiceAccount
from kubesched.cluster.apiserver.local_api import LocalApi

__all__ = ["create_named_accounts"]

Json = Mapping[str, Any]

# Where the spec of a pod is: in a pod, in a workload, and in a CronJob.
_PLACES: Final = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)


async def create_named_accounts(api: LocalApi, documents: Iterable[Json]) -> None:
    """Create the service accounts that the pods of these objects name, unless they exist."""
    named = {each: None for document in documents for each in _named_in(document)}
    for namespace, name in named:
        if api.store.find("serviceaccounts", f"{namespace}/{name}") is not None:
            continue
        body = {"metadata": {"name": name, "namespace": namespace}}
        try:
            await api.create_document(ServiceAccount, namespace, body)
        except ApiError as error:
            if error.reason not in ("AlreadyExists", "NotFound"):
                raise


def _named_in(document: Json) -> Iterator[tuple[str, str]]:
    namespace = document.get("metadata", {}).get("namespace")
    for place in _PLACES:
        spec: Any = document
        for step in place:
            spec = spec.get(step) if isinstance(spec, Mapping) else None
        name = spec.get("serviceAccountName") if isinstance(spec, Mapping) else None
        if isinstance(name, str) and name and namespace:
            yield namespace, name
