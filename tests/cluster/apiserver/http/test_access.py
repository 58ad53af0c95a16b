"""RBAC, service account tokens and impersonation."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from kubesched.cluster.apiserver.http import ADMIN, ApiService, Requester, Users
from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client
from tests.counted_calls import count_calls

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


class Guarded(Client):
    """A client of a server with RBAC. By default it is the administrator."""

    def __init__(self) -> None:
        super().__init__()
        users = Users(
            {"root": ADMIN, "ann": Requester("ann"), "dev": Requester("dan", groups=("devs",))}
        )
        self.service = ApiService(self.store, self.clock, users=users, rbac=True, token_key=b"k")

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        token = options.pop("token", "root")
        if token:
            options.setdefault("authorization", f"Bearer {token}")
        return super().ask(method, path, body, **options)


def allow(client: Client, verbs: list[str], subject: Json, *, role: str = "reader") -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    client.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": role}, "rules": rules})
    reference = {"kind": "Role", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
    client.create(
        f"{RBAC}/namespaces/default/rolebindings",
        {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]},
    )


def test_without_a_role_a_user_may_do_nothing() -> None:
    client = Guarded()
    code, answer = client.send("GET", PODS, token="ann")
    assert code == 403
    assert answer["message"] == (
        'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the '
        'namespace "default"'
    )
    assert client.send("GET", "/api/v1", token="ann")[0] == 200  # every user may read discovery


@pytest.mark.parametrize("path", ["/version", "/version/"])
@pytest.mark.parametrize("token", ["", "ann"])
def test_the_version_is_public(path: str, token: str) -> None:
    code, answer = Guarded().send("GET", path, token=token)
    assert (code, answer["minor"]) == (200, "36")


def test_a_role_applies_where_it_is_bound() -> None:
    client = Guarded()
    allow(client, ["list"], {"kind": "User", "name": "ann"})
    assert client.send("GET", PODS, token="ann")[0] == 200
    assert client.send("GET", f"{PODS}/p", token="ann")[0] == 403
    assert client.send("GET", "/api/v1/namespaces/kube-system/pods", token="ann")[0] == 403
    assert client.send("GET", PODS, token="dev")[0] == 403


def test_a_rule_with_names_applies_to_lists_of_one_name() -> None:
    """As the request info of a real API server: `metadata.name` of a field selector is the name."""
    client = Guarded()
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    client.create(
        f"{RBAC}/namespaces/default/roles",
        {"metadata": {"name": "one"}, "rules": [{**rule, "resourceNames": ["p"]}]},
    )
    client.create(
        f"{RBAC}/namespaces/default/rolebindings",
        {
            "metadata": {"name": "one"},
            "roleRef": {"kind": "Role", "name": "one", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "ann"}],
        },
    )
    assert client.send("GET", f"{PODS}?fieldSelector=metadata.name%3Dp", token="ann")[0] == 200
    for query in ("", "?fieldSelector=metadata.name%3Dq", "?fieldSelector=metadata.name%21%3Dp"):
        assert client.send("GET", f"{PODS}{query}", token="ann")[0] == 403, query


def test_cluster_roles_are_aggregated_by_labels() -> None:
    client = Guarded()
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"apiGroups": ["a.example"], "resources": ["things"], "verbs": ["list"]}]
    client.create(
        f"{RBAC}/clusterroles", {"metadata": {"name": "more", "labels": label}, "rules": rules}
    )
    client.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "devs"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Group", "name": "devs"}],
        },
    )
    review = {
        "spec": {"resourceAttributes": {"verb": "list", "group": "a.example", "resource": "things"}}
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert client.send("POST", path, review, token="dev")[1]["status"]["allowed"] is True
    assert client.send("POST", path, review, token="ann")[1]["status"]["allowed"] is False
    assert client.send("GET", PODS, token="dev")[0] == 200


def test_users_cannot_grant_permissions_that_they_lack() -> None:
    client = Guarded()
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]
    # The verb `*` includes escalate and bind, so the rule lists the other verbs.
    rules[0]["verbs"] = ["create", "update", "patch", "get"]
    client.create(f"{RBAC}/clusterroles", {"metadata": {"name": "grantor"}, "rules": rules})
    client.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "ann"},
            "roleRef": {"kind": "ClusterRole", "name": "grantor"},
            "subjects": [{"kind": "User", "name": "ann"}],
        },
    )

    def role(verb: str) -> Json:
        return {
            "metadata": {"name": f"may-{verb}"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
        }

    path = f"{RBAC}/namespaces/default/roles"
    assert client.send("POST", path, role("get"), token="ann")[0] == 201
    code, answer = client.send("POST", path, role("delete"), token="ann")
    assert code == 403
    assert "attempting to grant RBAC permissions not currently held" in answer["message"]
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    assert client.send("POST", f"{RBAC}/clusterrolebindings", binding, token="ann")[0] == 403
    grown = role("delete")["rules"]
    change = {"rules": grown}
    patched = client.send(
        "PATCH", f"{path}/may-get", change, content_type="application/merge-patch+json", token="ann"
    )
    assert patched[0] == 403


def test_a_token_authenticates_its_service_account() -> None:
    client = Guarded()
    account = client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    made = client.create(f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 600}})
    token = made["status"]["token"]
    review = {"spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = client.send("POST", path, review)[1]["status"]
    assert status["authenticated"] is True
    assert status["user"] == {
        "username": "system:serviceaccount:default:bot",
        "uid": account["metadata"]["uid"],
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims(token)['jti']}"]},
    }
    assert client.send("GET", PODS, token=token)[0] == 403
    allow(client, ["list"], {"kind": "ServiceAccount", "name": "bot", "namespace": "default"})
    assert client.send("GET", PODS, token=token)[0] == 200
    assert client.send("GET", PODS, token=token[:-2] + "AA")[0] == 401
    client.clock.advance(601 * 10**9)
    assert client.send("GET", PODS, token=token)[0] == 401


def claims(token: str) -> Json:
    """Decode the second part of a token."""
    content = token.split(".")[1]
    decoded: Json = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    return decoded


def test_a_token_is_verified_with_the_published_keys() -> None:
    client = Guarded()
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    token = client.create(f"{ACCOUNTS}/bot/token", {})["status"]["token"]
    # Service accounts may read the keys, other users may not.
    found = client.send("GET", "/.well-known/openid-configuration", token=token)[1]
    assert found["issuer"] == claims(token)["iss"]
    assert found["jwks_uri"].endswith("/openid/v1/jwks")
    answer = client.ask("GET", "/openid/v1/jwks", token=token)
    assert answer.content_type == "application/jwk-set+json"
    (key,) = json.loads(answer.body)["keys"]
    assert client.send("GET", "/openid/v1/jwks", token="ann")[0] == 403

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

    curve = {"P-256": ec.SECP256R1()}[key["crv"]]
    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), curve).public_key()
    content, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    halves = (int.from_bytes(part, "big") for part in (raw[:32], raw[32:]))
    # Raises InvalidSignature unless the key has signed the token.
    public.verify(encode_dss_signature(*halves), content.encode(), ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("kind", ["Pod", "Secret", "Node"])
def test_a_token_ends_with_the_object_that_it_is_bound_to(kind: str) -> None:
    client = Guarded()
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    plural = f"{kind.lower()}s"
    path = "/api/v1/nodes" if kind == "Node" else f"/api/v1/namespaces/default/{plural}"
    body: Json = {"metadata": {"name": "held"}}
    if kind == "Pod":
        body["spec"] = {
            "serviceAccountName": "bot",
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
        }
    uid = client.create(path, body)["metadata"]["uid"]
    bound = {"kind": kind, "apiVersion": "v1", "name": "held"}
    token = client.create(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": bound}})["status"][
        "token"
    ]
    assert claims(token)["kubernetes.io"][kind.lower()] == {"name": "held", "uid": uid}
    user = whoami(client, token=token)
    extra = user["extra"]
    if kind != "Secret":
        prefix = f"authentication.kubernetes.io/{kind.lower()}"
        assert (extra[f"{prefix}-name"], extra[f"{prefix}-uid"]) == (["held"], [uid])
    client.send("DELETE", f"{path}/held")
    client.create(path, body)
    assert client.send("GET", PODS, token=token)[0] == 401, "another object of that name"


def test_which_token_requests_are_refused() -> None:
    client = Guarded()
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    client.create(
        PODS,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    )

    def message(body: Json) -> tuple[int, str]:
        code, answer = client.send("POST", f"{ACCOUNTS}/bot/token", body)
        return code, answer["message"]

    pod = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    assert message({"spec": {"boundObjectRef": pod}}) == (
        400,
        'cannot bind token for serviceaccount "bot" to pod running with different serviceaccount '
        "name.",
    )
    node = {"kind": "Node", "apiVersion": "v1", "name": "n"}
    assert message({"spec": {"boundObjectRef": node}}) == (404, 'nodes "n" not found')
    job = {"kind": "Job", "apiVersion": "batch/v1", "name": "j"}
    assert message({"spec": {"boundObjectRef": job}}) == (
        400,
        "cannot bind token to object of type batch/v1, Kind=Job",
    )
    assert message({"spec": {"expirationSeconds": 2**32 + 1}}) == (
        422,
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '
        "4294967297: may not specify a duration larger than 2^32 seconds",
    )
    assert message({"metadata": {"name": "other"}}) == (
        422,
        'TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: '
        '"other": must match the service account name if specified',
    )


def test_a_token_ends_with_its_account() -> None:
    client = Guarded()
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    token = client.create(f"{ACCOUNTS}/bot/token", {})["status"]["token"]
    client.send("DELETE", f"{ACCOUNTS}/bot")
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    assert client.send("GET", PODS, token=token)[0] == 401
    assert client.send("POST", f"{ACCOUNTS}/nobody/token", {})[0] == 404
    assert (
        client.send("POST", f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 1}})[0] == 422
    )


def whoami(client: Client, **headers: str) -> Json:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    code, answer = client.send("POST", path, {}, **headers)
    assert code == 201, answer
    shown: Json = answer["status"]["userInfo"]
    return shown


def test_a_request_can_impersonate_another_user() -> None:
    shown = whoami(
        Client(),
        impersonate_user="jane-doe",
        impersonate_uid="uniq-id",
        impersonate_group="system:authenticated\ndevelopers",
        impersonate_extra_projects="a\nb",
    )
    assert shown == {
        "username": "jane-doe",
        "uid": "uniq-id",
        "groups": ["system:authenticated", "developers"],
        "extra": {"projects": ["a", "b"]},
    }


def test_impersonation_requires_permission() -> None:
    client = Guarded()
    assert client.send("GET", PODS, token="ann", impersonate_user="admin")[0] == 403
    assert client.send("GET", PODS, token="root", impersonate_user="ann")[0] == 403
    allow(client, ["list"], {"kind": "User", "name": "ann"})
    assert client.send("GET", PODS, token="root", impersonate_user="ann")[0] == 200
    assert client.send("GET", PODS, impersonate_group="devs")[0] == 400


def test_a_rules_review_lists_the_permissions_of_a_user() -> None:
    client = Guarded()
    allow(client, ["list"], {"kind": "User", "name": "ann"})
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = client.send("POST", path, {"spec": {"namespace": "default"}}, token="ann")[1]["status"]
    wanted = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    assert wanted in status["resourceRules"]


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é.ü.ö"])
def test_an_invalid_token_is_refused(token: str) -> None:
    answer = Guarded().ask("GET", PODS, authorization=f"Bearer {token}")
    assert isinstance(answer, Response)
    assert answer.status == 401


TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.mark.parametrize(
    ("account", "of_account", "of_pod", "mounted"),
    [
        ("default", None, None, True),
        ("default", None, False, False),
        ("nomount", False, None, False),
        ("nomount", False, True, True),
        ("mount", True, None, True),
        ("mount", True, False, False),
    ],
)
def test_tokens_are_mounted_unless_automount_is_disabled(
    account: str, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    client = Client()
    body: Json = {"metadata": {"name": account}}
    if of_account is not None:
        body["automountServiceAccountToken"] = of_account
    client.create(ACCOUNTS, body)
    spec: Json = {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
    if of_pod is not None:
        spec["automountServiceAccountToken"] = of_pod
    made = client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})["spec"]
    paths = [each["mountPath"] for each in made["containers"][0].get("volumeMounts", ())]
    assert (TOKEN_PATH in paths) is mounted
    assert bool(made.get("volumes")) is mounted
    assert made["serviceAccountName"] == account


def test_a_pod_without_an_account_is_left_as_it_is() -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = Client().create(PODS, {"metadata": {"name": "p"}, "spec": spec})["spec"]
    assert "volumes" not in made


def test_a_manually_mounted_token_is_not_replaced() -> None:
    client = Client()
    client.create(ACCOUNTS, {"metadata": {"name": "default"}})
    mount = {"name": "mine", "mountPath": TOKEN_PATH}
    container = {"name": "c", "image": "i", "volumeMounts": [mount]}
    spec = {"containers": [container], "volumes": [{"name": "mine", "emptyDir": {}}]}
    made = client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})["spec"]
    assert made["containers"][0]["volumeMounts"] == [mount]
    assert [volume["name"] for volume in made["volumes"]] == ["mine"]


ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
FULL = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def grant(client: Client, user: str, rules: list[Json]) -> None:
    client.create(ROLES, {"metadata": {"name": user}, "rules": rules})
    reference = {"kind": "ClusterRole", "name": user}
    subjects = [{"kind": "User", "name": user}]
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
    client.create(BINDINGS, binding)


def may(client: Client, verb: str, token: str) -> bool:
    attributes = {"verb": verb, "group": "", "resource": "pods"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": attributes}}
    allowed: bool = client.send("POST", path, review, token=token)[1]["status"]["allowed"]
    return allowed


def test_roles_that_select_each_other_are_collected_once() -> None:
    client = Guarded()
    label = {"all": "yes"}
    rule = {"clusterRoleSelectors": [{"matchLabels": label}, {"matchLabels": {"b": "c"}}]}
    for number in range(40):
        metadata = {"name": f"r{number}", "labels": label}
        client.create(ROLES, {"metadata": metadata, "aggregationRule": rule})
    reads = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    client.create(ROLES, {"metadata": {"name": "leaf", "labels": label}, "rules": reads})
    reference = {"kind": "ClusterRole", "name": "r0"}
    subjects = [{"kind": "User", "name": "ann"}]
    client.create(BINDINGS, {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects})
    # A search for every path through these roles would not end.
    first = count_calls(lambda: may(client, "get", "ann"))
    assert first < 20_000
    assert count_calls(lambda: may(client, "get", "ann")) < first
    assert may(client, "get", "ann")
    assert not may(client, "get", "dev")
    # A changed role counts at once.
    merge = "application/merge-patch+json"
    change = {"rules": [{**reads[0], "verbs": ["watch"]}]}
    client.send("PATCH", f"{ROLES}/leaf", change, content_type=merge)
    assert not may(client, "get", "ann")
    assert may(client, "watch", "ann")


def test_an_apply_creates_only_with_the_permission_to_create() -> None:
    client = Guarded()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    apply = {"content_type": "application/apply-patch+yaml", "token": "ann"}
    path = f"{PODS}/p?fieldManager=m"
    allow(client, ["patch"], {"kind": "User", "name": "ann"})
    code, answer = client.send("PATCH", path, pod, **apply)
    assert (code, answer["message"]) == (
        403,
        'pods "p" is forbidden: User "ann" cannot create resource "pods" in API group "" in the '
        'namespace "default"',
    )
    allow(client, ["create"], {"kind": "User", "name": "ann"}, role="creator")
    assert client.send("PATCH", path, pod, **apply)[0] == 201
    client.send("DELETE", f"{RBAC}/namespaces/default/rolebindings/creator")
    assert client.send("PATCH", path, pod, **apply)[0] == 200  # the pod exists


def test_a_role_must_exist_to_be_bound_by_a_user() -> None:
    client = Guarded()
    verbs = ["create", "update", "patch", "get"]
    grant(client, "ann", [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}])
    for kind, plural in (("Role", "roles"), ("ClusterRole", "clusterroles")):
        binding = {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": "future"}}
        path = f"{RBAC}/namespaces/default/rolebindings"
        code, answer = client.send("POST", path, binding, token="ann")
        assert code == 404
        assert answer["message"] == f'{plural}.rbac.authorization.k8s.io "future" not found'
        assert client.send("POST", path, binding)[0] == 201  # the administrator may
        client.send("DELETE", f"{path}/b")


def test_an_aggregation_rule_needs_every_permission() -> None:
    client = Guarded()
    verbs = ["create", "update", "patch", "get"]
    grant(client, "ann", [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}])
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    role = {"metadata": {"name": "x"}, "aggregationRule": rule}
    code, answer = client.send("POST", ROLES, role, token="ann")
    assert (code, answer["message"]) == (
        403,
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin '
        "privileges to use the aggregationRule",
    )
    client.create(ROLES, role)
    # To remove the rule changes what the role aggregates, too.
    assert client.send("PUT", f"{ROLES}/x", {"metadata": {"name": "x"}}, token="ann")[0] == 403
    grant(client, "dan", FULL)
    assert client.send("PUT", f"{ROLES}/x", {"metadata": {"name": "x"}}, token="dev")[0] == 200


def test_an_endless_role_is_refused_to_users_without_the_right_to_escalate() -> None:
    client = Guarded()
    verbs = ["create", "update", "patch", "get"]
    grant(client, "ann", [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}])
    names = [f"n{number}" for number in range(2000)]
    rules = [{"apiGroups": names, "resources": names, "resourceNames": names, "verbs": ["get"]}]
    body = {"metadata": {"name": "x"}, "rules": rules}
    assert count_calls(lambda: client.send("POST", ROLES, body, token="ann")) < 200_000
    assert client.send("GET", f"{ROLES}/x")[0] == 404
    assert client.send("POST", ROLES, body)[0] == 201


def test_a_star_is_no_user() -> None:
    client = Guarded()
    allow(client, ["list"], {"kind": "User", "name": "*"})
    assert client.send("GET", PODS, token="ann")[0] == 403


def test_a_token_for_another_audience_is_refused() -> None:
    client = Guarded()
    client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    allow(client, ["list"], {"kind": "ServiceAccount", "name": "bot", "namespace": "default"})

    def token(*audiences: str) -> str:
        spec = {"audiences": list(audiences)}
        made: str = client.create(f"{ACCOUNTS}/bot/token", {"spec": spec})["status"]["token"]
        return made

    own = "https://localhost"
    assert client.send("GET", PODS, token=token("vault"))[0] == 401
    assert client.send("GET", PODS, token=token("vault", own))[0] == 200

    def review(issued: str, *audiences: str) -> Json:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        spec = {"token": issued, "audiences": list(audiences)}
        status: Json = client.send("POST", path, {"spec": spec})[1]["status"]
        return status

    assert review(token("vault"))["error"] == (
        '[invalid bearer token, token audiences ["vault"] is invalid for the target audiences '
        '["https://localhost"]]'
    )
    assert review(token("vault", "a"), "vault", "b")["audiences"] == ["vault"]
    assert "authenticated" not in review(token("vault"), "b")
    assert review("root", own)["authenticated"] is True
    assert "authenticated" not in review("root", "vault")
