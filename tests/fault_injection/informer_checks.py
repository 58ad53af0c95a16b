"""The order in which an informer calls its handlers, checked with each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.foundation.client.informer import SharedInformer

__all__ = ["InformerChecker"]


class InformerChecker:
    """A handler of one informer that compares what is reported with what was reported before.

    The copy changes before the handlers are called. So when an addition is reported, the deletion
    of every object that the copy lacks has been reported. A deletion names the object that was
    reported, also if another one with its name was created and deleted since.
    """

    def __init__(self, informer: SharedInformer[Any], report: Callable[[str], None]) -> None:
        self._store, self._report = informer.store, report
        self._kind = informer.kind.__name__
        self._uids: dict[tuple[str, str], str] = {}
        informer.add_handler(self._added, self._updated, self._deleted)

    def _added(self, new: Any) -> None:
        for namespace, name in self._uids:
            if self._store.get(name, namespace) is None:
                self._report(
                    f"{self._kind} {new.metadata.name} is reported before the end of {name}"
                )
        self._record(new)

    def _updated(self, _old: Any, new: Any) -> None:
        self._record(new)

    def _record(self, new: Any) -> None:
        self._uids[new.metadata.namespace, new.metadata.name] = new.metadata.uid

    def _deleted(self, old: Any, _is_tombstone: bool) -> None:
        metadata = old.metadata
        uid = self._uids.pop((metadata.namespace, metadata.name), "")
        if uid != metadata.uid:
            self._report(f"the end of another {self._kind} {metadata.name} is reported")
