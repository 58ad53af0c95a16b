"""Mutants: deliberate bugs, made by replacing named functions of the package.

A mutant names its targets by dotted path, as in `kubesched.scheduler.backend.cache.Cache.add_pod`.
The replacement is a Python function. No source text is edited, so a refactoring breaks a mutant
only when its target is renamed or removed, and `test_every_target_exists` says which.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

from kubesched.framework import SUCCESS, QueueingHint, Rejections

__all__ = [
    "Mutant",
    "MutantTargetError",
    "Overlay",
    "Patch",
    "activate",
    "forget_read_values",
    "no",
    "nothing",
    "passes_all",
    "remove_filter",
    "replace",
    "replace_names",
    "skip",
    "skip_every",
    "stale_targets",
    "success",
    "unread_values",
    "with_value",
    "without_call",
    "wrap",
    "yes",
    "zero",
]


class MutantTargetError(Exception):
    """The function, attribute or name that a mutant replaces does not exist."""


class Patch(NamedTuple):
    """The replacement of one function, method, property or constant."""

    # The dotted path of what is replaced.
    target: str
    # Makes the replacement, given the original.
    make: Callable[[Any], Any]


class Mutant(NamedTuple):
    """A deliberate bug, and a seed whose run detects it."""

    # The seed that is tried first. Others follow if it does not detect the mutant.
    seed: int
    patches: tuple[Patch, ...]


# A mutant that no longer fits the code can fail in the middle of a run, where a scheduler catches
# and logs the exception. `activate` raises it again when the run has ended.
_failures: list[MutantTargetError] = []

# The values that overlays have offered and that the code has read, as "type.name". A value that is
# never read changes nothing, which means that the code no longer does what the mutant was written
# for.
_offered: set[str] = set()
_read: set[str] = set()


# Replacements


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


# Patches


def replace(target: str, replacement: Any) -> Patch:
    """Replace the target by another object."""
    return Patch(target, lambda _original: replacement)


def wrap(target: str, wrapper: Callable[..., Any]) -> Patch:
    """Call the wrapper in the place of a function, with the original as its first argument."""

    def make(original: Any) -> Any:
        function = _function_of(original)
        if not inspect.iscoroutinefunction(wrapper):
            return lambda *args, **options: wrapper(function, *args, **options)

        async def wrapped(*args: Any, **options: Any) -> Any:
            return await wrapper(function, *args, **options)

        return wrapped

    return Patch(target, make)


def skip_every(target: str, count: int) -> Patch:
    """Leave out every call whose number is a multiple of `count`."""
    calls = 0

    def called(original: Any, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return None if calls % count == 0 else original(*args, **options)

    return wrap(target, called)


def without_call(target: str, path: str) -> Patch:
    """Call a function in which one call does nothing.

    `path` begins with a parameter of the function, as in `self._cache.forget_pod`.
    """
    return with_value(target, path, lambda original: _silenced(original))


def with_value(target: str, path: str, change: Callable[[Any], Any]) -> Patch:
    """Call a function that sees another value at `path`; `change` makes it from the real one.

    The function is given an `Overlay` in the place of the parameter that `path` begins with.
    All other code sees the real value.
    """
    first, *names = path.split(".")

    def make(original: Any) -> Any:
        function = _function_of(original)
        _check_names(target, function, names)
        signature = inspect.signature(function)
        if first not in signature.parameters:
            raise MutantTargetError(f"{target} has no parameter {first!r}")

        def call(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            bound.arguments[first] = _overlaid(bound.arguments[first], names, change)
            return function(*bound.args, **bound.kwargs)

        async def call_async(*args: Any, **options: Any) -> Any:
            return await call(*args, **options)

        return call_async if inspect.iscoroutinefunction(function) else call

    return Patch(target, make)


def replace_names(target: str, **replacements: Any) -> Patch:
    """Call a function in which names of its module have other values."""

    def make(original: Any) -> Any:
        function = _function_of(original)
        _check_names(target, function, list(replacements))
        changed = types.FunctionType(
            function.__code__,
            {**function.__globals__, **replacements},
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        changed.__kwdefaults__ = function.__kwdefaults__
        return changed

    return Patch(target, make)


def remove_filter(plugin: str) -> tuple[Patch, ...]:
    """Let a filter pass every node, in its one-node form and in its many-node form."""
    return replace(f"{plugin}.filter", success), replace(f"{plugin}.filter_nodes", passes_all)


# Other values for one function


class Overlay:
    """An object with other values for some attributes; the rest is that of the real object.

    Assignments go to the real object.

    Raises:
        MutantTargetError: the object has no attribute of this name.
    """

    __slots__ = ("_overlay_real", "_overlay_values")

    def __init__(self, real: Any, **values: Any) -> None:
        for name in values:
            _check_attribute(real, name)
            _offered.add(_label(real, name))
        object.__setattr__(self, "_overlay_real", real)
        object.__setattr__(self, "_overlay_values", values)

    def __getattribute__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_overlay_values")
        real = object.__getattribute__(self, "_overlay_real")
        if name in values:
            _read.add(_label(real, name))
            return values[name]
        return type(real) if name == "__class__" else getattr(real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_overlay_real"), name, value)

    def __len__(self) -> int:
        return len(object.__getattribute__(self, "_overlay_real"))

    def __bool__(self) -> bool:
        return bool(object.__getattribute__(self, "_overlay_real"))

    def __iter__(self) -> Iterator[Any]:
        return iter(object.__getattribute__(self, "_overlay_real"))

    def __contains__(self, item: Any) -> bool:
        return item in object.__getattribute__(self, "_overlay_real")

    def __getitem__(self, key: Any) -> Any:
        return object.__getattribute__(self, "_overlay_real")[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        object.__getattribute__(self, "_overlay_real")[key] = value

    def __delitem__(self, key: Any) -> None:
        del object.__getattribute__(self, "_overlay_real")[key]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return object.__getattribute__(self, "_overlay_real")(*args, **options)


def _overlaid(real: Any, names: list[str], change: Callable[[Any], Any]) -> Any:
    if not names:
        return change(real)
    if real is None:
        return None  # the call has no such value
    _check_attribute(real, names[0])
    value = getattr(real, names[0])
    return Overlay(real, **{names[0]: _overlaid(value, names[1:], change)})


def _check_attribute(real: Any, name: str) -> None:
    if not hasattr(real, name):
        failure = MutantTargetError(f"{type(real).__name__} has no attribute {name!r}")
        _failures.append(failure)
        raise failure


def _label(real: Any, name: str) -> str:
    return f"{type(real).__name__}.{name}"


def forget_read_values() -> None:
    """Reset the record of the overlay values that the code has read."""
    _offered.clear()
    _read.clear()


def unread_values() -> list[str]:
    """Return the values of overlays that nothing has read, as "type.name"."""
    return sorted(_offered - _read)


def _silenced(original: Any) -> Any:
    async def nothing_async(*_args: Any, **_options: Any) -> None:
        return None

    return nothing_async if inspect.iscoroutinefunction(original) else nothing


# Targets


def _function_of(original: Any) -> Any:
    if isinstance(original, property):
        original = original.fget
    if isinstance(original, staticmethod | classmethod):
        original = original.__func__
    return inspect.unwrap(original)


def _check_names(target: str, function: Any, names: list[str]) -> None:
    """Fail unless the code of a function, or of one nested in it, reads all of the names."""
    codes, known = [function.__code__], set()
    while codes:
        code = codes.pop()
        known |= {*code.co_names, *code.co_freevars, *code.co_varnames}
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    for name in names:
        if name not in known:
            raise MutantTargetError(f"{target} does not use {name!r} any more")


def _resolve(target: str) -> tuple[Any, str]:
    """The owner of a target and its name there.

    Raises:
        MutantTargetError: there is no such target.
    """
    parts = target.split(".")
    for size in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:size])
        try:
            owner: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
                raise
            continue
        for name in parts[size:-1]:
            if not hasattr(owner, name):
                raise MutantTargetError(f"{target}: {owner!r} has no {name!r}")
            owner = getattr(owner, name)
        if not hasattr(owner, parts[-1]):
            raise MutantTargetError(f"{target}: {owner!r} has no {parts[-1]!r}")
        return owner, parts[-1]
    raise MutantTargetError(f"{target}: no such module")


def _replacement(patch: Patch) -> tuple[Any, str, Any]:
    owner, name = _resolve(patch.target)
    original = inspect.getattr_static(owner, name)
    made = patch.make(original)
    if isinstance(original, property):
        made = property(made)
    elif inspect.iscoroutinefunction(original) and not inspect.iscoroutinefunction(made):
        made = _awaitable(made)
    return owner, name, made


def _awaitable(function: Callable[..., Any]) -> Callable[..., Any]:
    async def called(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return called


def stale_targets(mutant: Mutant) -> list[str]:
    """Return why a mutant cannot be activated; empty if it can."""
    problems = []
    for patch in mutant.patches:
        try:
            _replacement(patch)
        except MutantTargetError as error:
            problems.append(f"{error}; choose another target for this mutant")
    return problems


@contextlib.contextmanager
def activate(mutant: Mutant) -> Iterator[None]:
    """Run the code of the block with the bug in it.

    Raises:
        MutantTargetError: a target does not exist.
    """
    _failures.clear()
    with contextlib.ExitStack() as stack:
        for patch in mutant.patches:
            owner, name, made = _replacement(patch)
            stack.enter_context(mock.patch.object(owner, name, made))
        yield
    if _failures:
        raise _failures[0]
