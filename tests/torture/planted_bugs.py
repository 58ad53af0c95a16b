"""Bugs that are planted on purpose: if the net lets one through, it has a hole.

    python -m tests.torture.planted_bugs --seeds 100

Each is a small change to the real code. For each the first seed that catches it is printed; exit 1
if one is not caught.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from kubesched.backend.cache import Cache
from kubesched.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.backend.snapshot import ClusterSnapshot
from kubesched.client.lease_fence import LeaseFence
from kubesched.framework import SUCCESS, Rejections
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_resources_fit import NodeResourcesFit
from kubesched.scheduler.event_handlers import EventHandlers
from kubesched.scheduler.failure import FailureHandler
from tests.torture.cluster_plan import make_plan
from tests.torture.run import run_plan

__all__ = ["PLANTED"]

Patch = tuple[type, str, Callable[..., Any]]


def _nothing(*_args: Any, **_options: Any) -> None:
    return None


def _zero(*_args: Any, **_options: Any) -> int:
    return 0


def _passes_all(*_args: Any, **_options: Any) -> Rejections:
    return Rejections.none()


def _yes(*_args: Any, **_options: Any) -> bool:
    return True


def _success(*_args: Any, **_options: Any) -> Any:
    return SUCCESS


def _sometimes(original: Callable[..., Any], every: int) -> Callable[..., Any]:
    """Leaves out every so manieth call."""
    calls = 0

    def called(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return None if calls % every == 0 else original(*args, **options)

    return called


def _no_age(_fence: LeaseFence) -> int:
    return 0


# Name -> what is changed. A filter has two forms, and a bug may be in both.
PLANTED: dict[str, tuple[Patch, ...]] = {
    "a lost wake-up": (
        (SchedulingQueue, "move_all", _zero),
        (SchedulingQueue, "flush_unschedulable", _zero),
    ),
    "backoff never ends": ((SchedulingQueue, "flush_backoff", _zero),),
    "a leaked assumption": ((Cache, "forget_pod", _nothing),),
    "removals of pods are missed now and then": (
        (EventHandlers, "delete_pod", _sometimes(EventHandlers.delete_pod, 3)),
    ),
    "new pods are missed now and then": (
        (EventHandlers, "add_pod", _sometimes(EventHandlers.add_pod, 7)),
    ),
    "new nodes are missed now and then": (
        (EventHandlers, "add_node", _sometimes(EventHandlers.add_node, 3)),
    ),
    "changes of pods are missed now and then": (
        (EventHandlers, "update_pod", _sometimes(EventHandlers.update_pod, 4)),
    ),
    "removals of nodes are missed": ((EventHandlers, "delete_node", _nothing),),
    "a row is not written now and then": ((Cache, "_write_row", _sometimes(Cache._write_row, 5)),),
    "a removed pod stays on its row": ((ClusterSnapshot, "hide_pod", _nothing),),
    "a failed pod is not put back": ((FailureHandler, "_requeue", _yes),),
    "ports are given twice": (
        (NodePorts, "filter", _success),
        (NodePorts, "filter_nodes", _passes_all),
    ),
    "nodes are filled without end": (
        (NodeResourcesFit, "filter", _success),
        (NodeResourcesFit, "filter_nodes", _passes_all),
    ),
    "in-flight pods are never done": ((SchedulingQueue, "done", _nothing),),
    "deleted pods stay in the queue": ((SchedulingQueue, "delete", _nothing),),
    "no fence around the lease": ((LeaseFence, "_age_ns", _no_age),),
}


@contextlib.contextmanager
def planted(patches: tuple[Patch, ...]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, name, change in patches:
            assert hasattr(owner, name), f"{owner.__name__}.{name} is gone: plant it elsewhere"
            stack.enter_context(mock.patch.object(owner, name, change))
        yield


def caught_by(name: str, seeds: int, first: int = 0) -> tuple[int, str] | None:
    """The first seed that notices the bug, and what it says."""
    for seed in range(first, first + seeds):
        with planted(PLANTED[name]):
            try:
                violations = run_plan(make_plan(seed)).violations
            except Exception as error:
                return seed, f"the run fails: {error!r}"
        if violations:
            return seed, violations[0]
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    missed = []
    for name in PLANTED:
        found = caught_by(name, options.seeds)
        if found is None:
            missed.append(name)
            print(f"NOT CAUGHT: {name}", flush=True)
        else:
            print(f"{name}: seed {found[0]}: {found[1][:100]}", flush=True)
    print(f"{len(PLANTED) - len(missed)} of {len(PLANTED)} planted bugs are caught")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
