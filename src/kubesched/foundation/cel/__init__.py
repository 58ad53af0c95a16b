"""The Common Expression Language as Kubernetes uses it.

`CompiledSelector` evaluates device selectors; other environments compile with
`compile_expression`. docs/cel.md lists the supported features. docs/decisions/0012 explains why
the code is our own.
"""

from __future__ import annotations

from kubesched.foundation.cel.device import CompiledSelector, DeviceInput
from kubesched.foundation.cel.kubernetes import kubernetes_environment
from kubesched.foundation.cel.language.cel_errors import CelCompileError, CelError, CelRuntimeError
from kubesched.foundation.cel.language.environment import Environment
from kubesched.foundation.cel.language.program import Program, compile_expression

__all__ = [
    "CelCompileError",
    "CelError",
    "CelRuntimeError",
    "CompiledSelector",
    "DeviceInput",
    "Environment",
    "Program",
    "compile_expression",
    "kubernetes_environment",
]
