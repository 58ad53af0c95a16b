"""The keys of the answer cache: all that the cached plugins read of a pod, as bytes.

Pods with the same key get the same answers, so the key contains every part of the pod that some
cached plugin declares in `Plugin.reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import attrgetter, or_
from typing import Any

import msgspec

from kubesched.api import Pod, PodSpec
from kubesched.foundation.util.identity_cache import IdentityCache
from kubesched.framework import PodPart, Reads
from kubesched.framework.reads import POD_FIELDS

__all__ = ["pod_key_function"]

_encode = msgspec.json.Encoder(order="deterministic").encode


def pod_key_function(reads: Iterable[Reads]) -> Callable[[Pod], bytes | None]:
    """Return a function that encodes all parts of a pod that are read.

    It returns None for a pod whose answers must not be cached.
    """
    parts = reduce(or_, (each.pod for each in reads), PodPart.NOTHING)
    fields = [name for part, names in POD_FIELDS.items() if part in parts for name in names]
    # With one name attrgetter returns no tuple, which makes no difference for the key.
    plain: Callable[[Pod], Any] = attrgetter(*fields) if fields else _nothing
    computed_parts = [get for part, get in _COMPUTED.items() if part in parts]
    by_spec_alone = all(name.startswith("spec.") for name in fields)
    key_of_spec: IdentityCache[PodSpec, bytes] = IdentityCache()

    def key(pod: Pod) -> bytes | None:
        status, spec = pod.status, pod.spec
        if status.container_statuses or status.resources is not None:
            return None  # after a resize the requests follow the status, not the spec
        cached = key_of_spec.get(spec)
        if cached is not None:
            return cached
        # Computed parts are empty for most pods.
        computed = [get(pod) for get in computed_parts] if spec.affinity or spec.volumes else ()
        encoded = _encode((plain(pod), computed) if any(computed) else plain(pod))
        if by_spec_alone:
            key_of_spec.store(spec, encoded)
        return encoded

    return key


def _nothing(_pod: Pod) -> None:
    return None


def _image_volumes(pod: Pod) -> Any:
    return [volume.image for volume in pod.spec.volumes if volume.image is not None]


def _node_affinity(pod: Pod) -> Any:
    affinity = pod.spec.affinity
    return affinity and affinity.node_affinity


def _pod_affinity(pod: Pod) -> Any:
    affinity = pod.spec.affinity
    return affinity and (affinity.pod_affinity, affinity.pod_anti_affinity)


_COMPUTED: dict[PodPart, Callable[[Pod], Any]] = {
    PodPart.CONTAINERS: _image_volumes,
    PodPart.NODE_SELECTION: _node_affinity,
    PodPart.POD_AFFINITY: _pod_affinity,
}
