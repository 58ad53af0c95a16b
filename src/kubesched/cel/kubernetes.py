"""The libraries that Kubernetes gives to every expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.cel.declarations import Library
from kubesched.cel.environment import Environment
from kubesched.cel.library.formats import FORMATS
from kubesched.cel.library.json_patches import JSON_PATCHES
from kubesched.cel.library.lists import LISTS
from kubesched.cel.library.network import NETWORK
from kubesched.cel.library.optionals import OPTIONALS
from kubesched.cel.library.patterns import PATTERNS
from kubesched.cel.library.quantities import QUANTITIES
from kubesched.cel.library.standard import STANDARD
from kubesched.cel.library.strings import STRINGS
from kubesched.cel.library.urls import URLS
from kubesched.cel.library.versions import VERSIONS
from kubesched.cel.types import ObjectType, Type

__all__ = ["LIBRARIES", "PER_CALL_LIMIT", "kubernetes_environment"]

PER_CALL_LIMIT: Final = 1_000_000
"""What one rule of a custom resource, or one expression of a policy, may cost."""

LIBRARIES: Final[tuple[Library, ...]] = (
    STANDARD,
    OPTIONALS,
    STRINGS,
    LISTS,
    PATTERNS,
    QUANTITIES,
    VERSIONS,
    NETWORK,
    URLS,
    FORMATS,
)


def kubernetes_environment(
    variables: Mapping[str, Type],
    *,
    objects: Iterable[ObjectType] = (),
    makes: Iterable[str] = (),
    cost_limit: int = PER_CALL_LIMIT,
) -> Environment:
    """An environment with all of Kubernetes' functions and some variables.

    A variable of type `dyn` may hold anything JSON can; one of a declared object type is
    checked for its fields when an expression is compiled.
    """
    libraries = (*LIBRARIES, JSON_PATCHES) if makes else LIBRARIES
    return Environment(
        variables, libraries=libraries, objects=objects, makes=makes, cost_limit=cost_limit
    )
