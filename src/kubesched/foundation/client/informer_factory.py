"""A factory that shares one informer per kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kubesched.api import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.access import ApiAccess
from kubesched.api.sharing import ClaimSharing, NodeSharing, PodSharing, VolumeSharing
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_store import ObjectStore
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.randomness import derive

__all__ = ["NON_TERMINAL_PODS", "InformerFactory", "InformerOptions"]

T = TypeVar("T", bound=msgspec.Struct)


class InformerOptions(msgspec.Struct, frozen=True):
    """The options of the informer of a kind."""

    field_selector: str = ""
    label_selector: str = ""
    namespace: str | None = None
    # maps an object and its previous version to the stored object
    transform: Callable[[Any, Any], Any] | None = None


# Pods that have not finished. A pod that finishes arrives as a deletion (docs/reference/02 §10.1).
NON_TERMINAL_PODS = InformerOptions(
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)


class InformerFactory:
    """Shares the informers of kinds between components.

    Request all kinds before running `components()`. `LateInformers` runs those that are created
    later. With `share_parts`, equal parts of pods, nodes, volumes and claims are stored once. Use
    it for objects that are decoded one by one, not for objects that a store in this process shares.
    """

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        seed: int,
        *,
        options: Mapping[type[msgspec.Struct], InformerOptions] | None = None,
        stream_lists: bool = False,
        share_parts: bool = False,
        change: Mapping[type[msgspec.Struct], Callable[[Any], Any]] | None = None,
    ) -> None:
        """`change` has a function for some kinds; their objects are stored as it returns them."""
        self._api, self._clock, self._seed = api, clock, seed
        self._stream_lists = stream_lists
        self._options = options or {}
        self._sharing: dict[type[Any], Callable[[Any, Any], Any]] = {}
        if share_parts:
            self._sharing = {
                Pod: PodSharing().share,
                Node: NodeSharing().share,
                PersistentVolume: VolumeSharing().share,
                PersistentVolumeClaim: ClaimSharing().share,
            }
        self._change = change or {}
        self._informers: dict[type[msgspec.Struct], SharedInformer[Any]] = {}

    def informer(self, kind: type[T]) -> SharedInformer[T]:
        informer = self._informers.get(kind)
        if informer is None:
            options = self._options.get(kind) or InformerOptions()
            informer = self._informers[kind] = SharedInformer(
                self._api,
                kind,
                self._clock,
                derive(self._seed, "informer", kind.__module__, kind.__name__),
                field_selector=options.field_selector,
                label_selector=options.label_selector,
                namespace=options.namespace,
                transform=self._transform_of(kind, options),
                stream_lists=self._stream_lists,
            )
        return informer

    def _transform_of(
        self, kind: type[Any], options: InformerOptions
    ) -> Callable[[Any, Any], Any] | None:
        transform = options.transform or self._sharing.get(kind)
        change = self._change.get(kind)
        if change is None or transform is None:
            return transform if change is None else lambda new, _: change(new)
        return lambda new, old: transform(change(new), old)

    def lister(self, kind: type[T]) -> ObjectStore[T]:
        """Return the lister of a kind; create its informer if there is none."""
        return self.informer(kind).store

    def components(self) -> tuple[SharedInformer[Any], ...]:
        """Return the informers in the order in which they were made. The caller runs them."""
        return tuple(self._informers.values())

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    async def wait_for_sync(self) -> None:
        await asyncio.gather(*(informer.wait_for_sync() for informer in self.components()))
