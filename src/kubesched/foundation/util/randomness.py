"""Randomness as an input: independent streams of random numbers from one seed.

Each consumer derives its own stream by name. Adding a consumer, or drawing more numbers in one,
does not change the numbers of other consumers, so a recorded seed stays valid.
"""

from __future__ import annotations

import hashlib
import random

__all__ = ["derive", "derive_seed", "independent_generator"]


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 128-bit seed for the stream with this name.

    The result is the same on every machine and in every process. `("ab", "c")`, `("a", "bc")`,
    `("abc",)` name different streams, and so do `1` and `"1"`.
    """
    digest = hashlib.blake2b(str(seed).encode(), digest_size=16, person=b"kubesched")
    for name in names:
        text = f"{type(name).__name__}:{name}".encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    return int.from_bytes(digest.digest(), "big")


def derive(seed: int, *names: str | int) -> random.Random:
    """Return a fresh generator for the stream with this name."""
    return random.Random(derive_seed(seed, *names))


def independent_generator(rng: random.Random) -> random.Random:
    """Return a generator that is derived from the state of another one, without drawing from it."""
    return random.Random(str(rng.getstate()))
