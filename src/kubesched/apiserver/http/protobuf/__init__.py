"""As much of Kubernetes' binary encoding as clients insist on.

Typed Go clients write objects in it, kubectl among them, and old ones read OpenAPI in it.
"""

from __future__ import annotations

from kubesched.apiserver.http.protobuf.openapi_v2 import openapi_v2
from kubesched.apiserver.http.protobuf.reading import PROTOBUF, read_protobuf

__all__ = ["PROTOBUF", "openapi_v2", "read_protobuf"]
