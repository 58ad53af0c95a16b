"""Allocates large objects outside of Python's arenas, so that their memory returns to the system.

CPython allocates small blocks in arenas of 1 MiB, and an arena is released when all its blocks are
free. A decoded object of 1.5 MiB of JSON fills a dozen arenas. What the process stores while it
exists (an entry of a cache, a counter) lies in the same arenas, and one such block per arena is
enough: after 60 pods with 115,000 values each were deleted, 110 MB stayed. The C library releases
single pages, so here the blocks of large objects come from it (docs/decisions/0054).

Freeing and resizing need no change: the arena allocator passes blocks that it does not own to the
C library, as it does with all blocks above 512 bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kubesched.foundation.util.memory_trimmer import trim_memory

__all__ = ["LARGE_TEXT", "LargeAllocations", "allocating_large"]

# Objects with more bytes of JSON are large. Nodes with many images have 20 KiB.
LARGE_TEXT: Final = 64 << 10
# Memory is trimmed after this many bytes of large objects were decoded. Deletions are decoded, too.
# An object takes about ten times the memory of its JSON, and a trim 0.6 ms for 1 MiB.
_TRIMMED_AFTER: Final = 2 << 20

_RAW, _MEM, _OBJ = range(3)
_KNOWN: Final = b"pymalloc"


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")
    )


class LargeAllocations:
    """Switches the allocator for the duration of a block, and trims from time to time."""

    def __init__(self, trim: Callable[[], None] = trim_memory) -> None:
        self._trim = trim
        self._decoded = 0  # bytes since the last trim
        self._python: Any = None
        self._c_library: Any = None
        api = ctypes.pythonapi
        try:
            # The result is another one for a debug build, in development mode, and while memory is
            # traced: then there is nothing to switch.
            self._name = api._PyMem_GetCurrentAllocatorName
            self._set = api.PyMem_SetAllocator
            get = api.PyMem_GetAllocator
        except AttributeError:
            return
        self._name.restype = ctypes.c_char_p
        self._set.restype = get.restype = None
        self._set.argtypes = get.argtypes = (ctypes.c_int, ctypes.c_void_p)
        if self._name() == _KNOWN:
            raw, python = _Allocator(), _Allocator()
            get(_RAW, ctypes.byref(raw))
            get(_OBJ, ctypes.byref(python))
            mixed = _Allocator(python.ctx, raw.malloc, raw.calloc, python.realloc, python.free)
            self._python, self._c_library = python, mixed

    @property
    def is_supported(self) -> bool:
        """Whether blocks are allocated by the C library now."""
        return self._python is not None and self._name() == _KNOWN

    @contextmanager
    def of_text(self, length: int) -> Iterator[None]:
        """Allocate by the C library while the block decodes an object with that much JSON.

        The block must not await.
        """
        if not self.is_supported:
            yield
            return
        self._switch(self._c_library)
        try:
            yield
        finally:
            self._switch(self._python)
            self._decoded += length
            if self._decoded >= _TRIMMED_AFTER:
                self._decoded = 0
                self._trim()

    def _switch(self, allocator: Any) -> None:
        place = ctypes.byref(allocator)
        self._set(_OBJ, place)
        self._set(_MEM, place)


# The allocator belongs to the process.
allocating_large: Final = LargeAllocations().of_text
