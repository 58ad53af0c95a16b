"""Tokens of service accounts: the server issues and verifies them.

A token is a JSON web token. One that a client requests has an expiry time, and is valid while its
service account exists, and the object that it is bound to. One that a Secret contains is valid
while the Secret contains it.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubesched.cluster.apiserver.http.request_bodies import check_types
from kubesched.cluster.apiserver.http.users import AUDIENCE, Requester, TokenIdentity
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, invalid
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp, generated_uid
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND

if TYPE_CHECKING:
    from kubesched.foundation.http.signed_tokens import TokenKey

__all__ = ["ServiceAccountTokens"]

Json = dict[str, Any]

_SHORTEST_SECONDS, _LONGEST_SECONDS, _USUAL_SECONDS = 600, 1 << 32, 3600
_CLAIMS: Final = "kubernetes.io"
_EXTRA: Final = "authentication.kubernetes.io"
# The issuer and the claims of tokens in Secrets.
_SECRET_ISSUER: Final = "kubernetes/serviceaccount"
_SECRET_CLAIMS: Final = "kubernetes.io/serviceaccount"
_BOUND_KINDS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class ServiceAccountTokens:
    """Issues tokens for the service accounts of a store, signed with a key."""

    def __init__(self, store: Store, secret: bytes, now_ns: Callable[[], int]) -> None:
        self._store, self._secret, self._now_ns = store, secret, now_ns
        self._key: TokenKey | None = None
        self._accounts = self._core("serviceaccounts")
        self._bound = {kind: self._core(plural) for kind, plural in _BOUND_KINDS.items()}

    def _core(self, plural: str) -> Resource:
        return self._store.catalog.by_url("", "v1", plural)

    @property
    def key(self) -> TokenKey:
        """The key, which is derived when it is first needed."""
        if self._key is None:
            # Imported here: most clusters have no tokens, and the import takes long.
            from kubesched.foundation.http.signed_tokens import TokenKey

            self._key = TokenKey(self._secret)
        return self._key

    def request(self, namespace: str, name: str, body: Json) -> Json:
        """Handle a TokenRequest.

        Raises:
            ApiError: 404 if the account does not exist, 400, 409 or 422 if the request is invalid.
        """
        check_types(body, "TokenRequest", {"metadata": dict, "spec": dict})
        metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
        _check_metadata(metadata, namespace, name)
        account = self._store.get(self._accounts, namespace, name).data["metadata"]
        types = {"audiences": list, "boundObjectRef": dict}
        check_types(spec, "TokenRequest", types)
        bound = spec.get("boundObjectRef") or {}
        texts = dict.fromkeys(("apiVersion", "kind", "name", "uid"), str)
        check_types(bound, "TokenRequest", texts)
        seconds = _expiration(spec)
        audiences = spec.get("audiences") or [AUDIENCE]
        claims: Json = {"namespace": namespace}
        if bound:
            claims |= self._bound_claims(namespace, name, bound)
        claims["serviceaccount"] = {"name": name, "uid": account["uid"]}
        now_ns = self._now_ns()
        expiry_ns = now_ns + seconds * SECOND
        token = self.key.sign(
            {
                "aud": audiences,
                "exp": expiry_ns // SECOND,
                "iat": now_ns // SECOND,
                "iss": AUDIENCE,
                "jti": generated_uid(random.Random(self._store.draw_seed())),
                _CLAIMS: claims,
                "nbf": now_ns // SECOND,
                "sub": f"system:serviceaccount:{namespace}:{name}",
            }
        )
        shown = {"audiences": audiences, "expirationSeconds": seconds}
        if bound:
            shown["boundObjectRef"] = bound
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "creationTimestamp": format_timestamp(now_ns),
            },
            "spec": shown,
            "status": {"token": token, "expirationTimestamp": format_timestamp(expiry_ns)},
        }

    def _bound_claims(self, namespace: str, account: str, bound: Mapping[str, str]) -> Json:
        """Return the claims of the object that a token is bound to. Raises ApiError."""
        group, _, version = (bound.get("apiVersion") or "").rpartition("/")
        kind = bound.get("kind") or ""
        if group or kind not in self._bound:
            text = f"cannot bind token to object of type {group}/{version}, Kind={kind}"
            raise api_errors.bad_request(text)
        resource = self._bound[kind]
        where = namespace if resource.namespaced else None
        found = self._store.get(resource, where, bound.get("name") or "").data
        metadata = found["metadata"]
        if kind == "Pod" and found["spec"].get("serviceAccountName") != account:
            text = (
                f'cannot bind token for serviceaccount "{account}" to pod running with different '
                "serviceaccount name."
            )
            raise api_errors.bad_request(text)
        if bound.get("uid") not in (None, "", metadata["uid"]):
            text = (
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID "
                "in record. The object might have been deleted and then recreated"
            )
            raise api_errors.conflict(kind, metadata["name"], text)
        claims = {kind.lower(): {"name": metadata["name"], "uid": metadata["uid"]}}
        if kind == "Pod" and (node := found["spec"].get("nodeName")):
            claims["node"] = {"name": node}
            if (record := self._store.find("nodes", node)) is not None:
                claims["node"]["uid"] = record["metadata"]["uid"]
        return claims

    def secret_token(self, account: Json, secret: Json) -> str:
        """Return the token for a Secret, which does not expire."""
        own, named = account["metadata"], secret["metadata"]
        return self.key.sign(
            {
                "iss": _SECRET_ISSUER,
                f"{_SECRET_CLAIMS}/namespace": own["namespace"],
                f"{_SECRET_CLAIMS}/secret.name": named["name"],
                f"{_SECRET_CLAIMS}/service-account.name": own["name"],
                f"{_SECRET_CLAIMS}/service-account.uid": own["uid"],
                "sub": f"system:serviceaccount:{own['namespace']}:{own['name']}",
            }
        )

    def discovery(self, address: str) -> Json:
        """Return the OpenID configuration of the server at an address."""
        return {
            "issuer": AUDIENCE,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def identify(self, token: str) -> TokenIdentity | None:
        """Return the user and the audiences of a token; None if it is invalid or expired."""
        claims = self.key.verify(token) if token.count(".") == 2 else None
        if claims is None:
            return None
        if claims["iss"] == _SECRET_ISSUER:
            return self._identify_secret(claims, token)
        bound = claims[_CLAIMS]
        if claims["exp"] * SECOND <= self._now_ns() or not self._exist(bound):
            return None
        extra = {f"{_EXTRA}/credential-id": (f"JTI={claims['jti']}",)}
        for field in ("node", "pod"):
            for part, value in bound.get(field, {}).items():
                extra[f"{_EXTRA}/{field}-{part}"] = (value,)
        account = bound["serviceaccount"]
        user = _user(bound["namespace"], account["name"], account["uid"], extra)
        return TokenIdentity(user, tuple(claims["aud"]))

    def _identify_secret(self, claims: Json, token: str) -> TokenIdentity | None:
        """Return the user of a token that a Secret must still contain."""
        namespace, secret_name, name, uid = (
            claims[f"{_SECRET_CLAIMS}/{field}"]
            for field in (
                "namespace", "secret.name", "service-account.name", "service-account.uid"
            )
        )  # fmt: skip
        secret = self._store.find_record(self._bound["Secret"], namespace, secret_name)
        if secret is None or "deletionTimestamp" in secret.data["metadata"]:
            return None
        stored = (secret.data.get("data") or {}).get("token", "")
        if base64.b64decode(stored) != token.encode():
            return None
        if not self._exists(self._accounts, namespace, {"name": name, "uid": uid}):
            return None
        return TokenIdentity(_user(namespace, name, uid, {}))

    def _exist(self, claims: Json) -> bool:
        """Whether the service account of a token and the object that binds it still exist."""
        namespace = claims["namespace"]
        if not self._exists(self._accounts, namespace, claims["serviceaccount"]):
            return False
        for kind, resource in self._bound.items():
            # The node of a pod is only information.
            if kind == "Node" and "pod" in claims:
                continue
            named = claims.get(kind.lower())
            where = namespace if resource.namespaced else None
            if named is not None and not self._exists(resource, where, named):
                return False
        return True

    def _exists(self, resource: Resource, namespace: str | None, named: Json) -> bool:
        record = self._store.find_record(resource, namespace, named["name"])
        return record is not None and bool(record.data["metadata"]["uid"] == named["uid"])


def _check_metadata(metadata: Json, namespace: str, name: str) -> None:
    for field, wanted in (("name", name), ("namespace", namespace)):
        if (given := metadata.get(field)) and given != wanted:
            text = f"must match the service account {field} if specified"
            raise _refused(name, invalid(f"metadata.{field}", given, text))


def _expiration(spec: Json) -> int:
    """Return the lifetime in seconds that a request asks for. Raises ApiError 422."""
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _USUAL_SECONDS
    text = ""
    if not isinstance(seconds, int) or seconds < _SHORTEST_SECONDS:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        raise _refused("", invalid("spec.expirationSeconds", seconds, text))
    return int(seconds)


def _refused(name: str, problem: FieldProblem) -> Exception:
    return api_errors.invalid("TokenRequest.authentication.k8s.io", name, [problem])


def _user(namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]) -> Requester:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Requester(f"system:serviceaccount:{namespace}:{name}", uid, groups, extra)
