"""The Common Expression Language as Kubernetes uses it.

Device selectors have a face of their own (`DeviceSelector`); other environments compile with
`compile_expression`. docs/cel.md says what is supported, docs/decisions/0012 why this is ours.
"""

from __future__ import annotations

from kubesched.cel.device import DeviceInput, DeviceSelector
from kubesched.cel.environment import Environment
from kubesched.cel.errors import CelCompileError, CelError, CelRuntimeError
from kubesched.cel.kubernetes import kubernetes_environment
from kubesched.cel.program import Program, compile_expression

__all__ = [
    "CelCompileError",
    "CelError",
    "CelRuntimeError",
    "DeviceInput",
    "DeviceSelector",
    "Environment",
    "Program",
    "compile_expression",
    "kubernetes_environment",
]
