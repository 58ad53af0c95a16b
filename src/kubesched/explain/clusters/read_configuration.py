"""The parts of a scheduler's configuration that affect the placement of pods.

Captures contain only these parts: no credentials, no addresses of servers, no TLS settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["read_configuration_of"]

_READ: Final = (
    "apiVersion",
    "kind",
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
)
_READ_OF_EXTENDERS: Final = (
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "httpTimeout",
    "nodeCacheCapable",
    "managedResources",
    "ignorable",
)


def read_configuration_of(document: Any) -> Any:
    """Return the parts of a configuration file's content that affect placement; None stays None."""
    if not isinstance(document, Mapping):
        return None
    found = {name: document[name] for name in _READ if name in document}
    if "extenders" in found:
        found["extenders"] = [_extender(each) for each in found["extenders"] or ()]
    return found


def _extender(document: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: document[name] for name in _READ_OF_EXTENDERS if name in document}
    if "urlPrefix" in found:
        found["urlPrefix"] = _without_credentials(str(found["urlPrefix"]))
    return found


def _without_credentials(url: str) -> str:
    """Return the scheme, host and path of a URL."""
    try:
        parts = urlsplit(url)
        return parts._replace(
            netloc=parts.netloc.rpartition("@")[2], query="", fragment=""
        ).geturl()
    except ValueError:
        return ""
