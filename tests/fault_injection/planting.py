"""How a bug is planted: a method that does nothing, or a line that is another one."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

from kubesched.framework import SUCCESS, QueueingHint, Rejections

__all__ = [
    "Patch",
    "edited",
    "no",
    "no_filter",
    "nothing",
    "passes_all",
    "planted",
    "skip",
    "sometimes",
    "success",
    "yes",
    "zero",
]

Patch = tuple[type | ModuleType, str, Callable[..., Any]]


def nothing(*_args: Any, **_options: Any) -> None:
    return None


def zero(*_args: Any, **_options: Any) -> int:
    return 0


def yes(*_args: Any, **_options: Any) -> bool:
    return True


def no(*_args: Any, **_options: Any) -> bool:
    return False


def passes_all(*_args: Any, **_options: Any) -> Rejections:
    return Rejections.none()


def success(*_args: Any, **_options: Any) -> Any:
    return SUCCESS


def skip(*_args: Any, **_options: Any) -> QueueingHint:
    return QueueingHint.SKIP


def sometimes(owner: type, name: str, every: int) -> Patch:
    """Leaves out every so manieth call."""
    original, calls = getattr(owner, name), 0

    def called(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return None if calls % every == 0 else original(*args, **options)

    return owner, name, called


def edited(owner: type | ModuleType, name: str, *lines: str) -> Patch:
    """A function with other lines in the place of some: each line, and what is there instead."""
    original = inspect.unwrap(getattr(owner, name))
    if isinstance(original, property):
        assert original.fget is not None
        original = original.fget
    source = textwrap.dedent(inspect.getsource(original))
    for old, new in zip(lines[::2], lines[1::2], strict=True):
        if source.count(old) != 1:
            # Not before somebody plants it: seeds can be run without.
            return owner, name, _Missing(f"{name} no longer says {old!r}: plant it elsewhere")
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    text = f"from __future__ import annotations\n{source}"
    exec(compile(text, inspect.getfile(original), "exec"), original.__globals__, made)
    changed = made[original.__name__]
    return owner, name, changed.fget if isinstance(changed, property) else changed


class _Missing:
    """Stands for a change that cannot be made any more."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, *_args: Any, **_options: Any) -> None:
        raise AssertionError(self.why)


def no_filter(plugin: type) -> tuple[Patch, ...]:
    """A filter has two forms, and a bug may be in both."""
    return (plugin, "filter", success), (plugin, "filter_nodes", passes_all)


@contextlib.contextmanager
def planted(patches: tuple[Patch, ...]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, name, change in patches:
            assert hasattr(owner, name), f"{owner.__name__}.{name} is gone: plant it elsewhere"
            assert not isinstance(change, _Missing), change.why
            found = inspect.getattr_static(owner, name)
            put: Any = property(change) if isinstance(found, property) else change
            if inspect.iscoroutinefunction(found) and not inspect.iscoroutinefunction(change):
                put = _awaited(change)
            stack.enter_context(mock.patch.object(owner, name, put))
        yield


def _awaited(change: Callable[..., Any]) -> Callable[..., Any]:
    async def changed(*args: Any, **options: Any) -> Any:
        return change(*args, **options)

    return changed
