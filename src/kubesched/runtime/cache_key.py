"""The key under which answers about nodes are cached for pods that look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import attrgetter, or_
from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.framework import PodPart, Reads
from kubesched.framework.reads import POD_FIELDS

__all__ = ["key_of_parts"]

_encode = msgspec.json.Encoder(order="deterministic").encode


def key_of_parts(reads: Iterable[Reads]) -> Callable[[Pod], bytes | None]:
    """A function that spells out all that is read of a pod.

    The key is None for a pod whose answers must not be cached.
    """
    parts = reduce(or_, (each.pod for each in reads), PodPart.NOTHING)
    fields = [name for part, names in POD_FIELDS.items() if part in parts for name in names]
    # With one name attrgetter gives no tuple; for the key that makes no difference.
    plain: Callable[[Pod], Any] = attrgetter(*fields) if fields else _nothing
    others = [get for part, get in _COMPUTED.items() if part in parts]

    def key(pod: Pod) -> bytes | None:
        status = pod.status
        if status.container_statuses or status.resources is not None:
            return None  # requested amounts may follow the status, which changes by itself
        spec = pod.spec
        if spec.affinity is None and not spec.volumes:  # as it mostly is: the others say nothing
            return _encode(plain(pod))
        computed = [get(pod) for get in others]
        return _encode((plain(pod), computed) if any(computed) else plain(pod))

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
