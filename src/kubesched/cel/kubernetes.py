"""The libraries that Kubernetes gives to every expression."""

from __future__ import annotations

from typing import Final

from kubesched.cel.declarations import Library
from kubesched.cel.library.optionals import OPTIONALS
from kubesched.cel.library.quantities import QUANTITIES
from kubesched.cel.library.standard import STANDARD
from kubesched.cel.library.versions import VERSIONS

__all__ = ["LIBRARIES"]

LIBRARIES: Final[tuple[Library, ...]] = (STANDARD, OPTIONALS, QUANTITIES, VERSIONS)
