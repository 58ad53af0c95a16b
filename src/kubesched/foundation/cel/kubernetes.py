"""The function libraries that Kubernetes adds to every expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.foundation.cel.language.declarations import Library
from kubesched.foundation.cel.language.environment import Environment
from kubesched.foundation.cel.language.expression_types import ObjectType, Type
from kubesched.foundation.cel.library.json_patches import JSON_PATCHES
from kubesched.foundation.cel.library.lists import LISTS
from kubesched.foundation.cel.library.named_formats import FORMATS
from kubesched.foundation.cel.library.network import NETWORK
from kubesched.foundation.cel.library.optionals import OPTIONALS
from kubesched.foundation.cel.library.patterns import PATTERNS
from kubesched.foundation.cel.library.quantity_functions import QUANTITIES
from kubesched.foundation.cel.library.semver_functions import VERSIONS
from kubesched.foundation.cel.library.standard import STANDARD
from kubesched.foundation.cel.library.strings import STRINGS
from kubesched.foundation.cel.library.urls import URLS

__all__ = ["LIBRARIES", "PER_CALL_LIMIT", "kubernetes_environment"]

# The cost limit of one rule of a custom resource, or of one expression of a policy.
PER_CALL_LIMIT: Final = 1_000_000

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
    """Return an environment with all of Kubernetes' functions and these variables.

    A variable of type `dyn` may hold any JSON value. The compiler checks the fields of a variable
    of a declared object type.
    """
    libraries = (*LIBRARIES, JSON_PATCHES) if makes else LIBRARIES
    return Environment(
        variables, libraries=libraries, objects=objects, makes=makes, cost_limit=cost_limit
    )
