"""Tables of networking, access control, quota, extension and other kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.tables.table import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Layout,
    age,
    human_duration,
    since,
    wide,
)
from kubesched.cluster.apiserver.http.tables.workload_tables import labels_text, selector_text

__all__ = ["OTHERS"]

Json = Mapping[str, Any]
_UNSET = "<unset>"


def _at(data: Any, path: str, default: Any = "") -> Any:
    for step in path.split("."):
        data = data.get(step) if isinstance(data, Mapping) else None
    return default if data is None else data


def _layout(columns: Sequence[str | Column], *cells: Callable[[Json, int], Any]) -> Layout:
    """Create a layout with the name and these columns. `cells` compute one cell each."""
    shown = [NAME, *(each if isinstance(each, Column) else Column(each) for each in columns)]
    return Layout(
        tuple(shown),
        lambda data, now_ns: (data["metadata"]["name"], *(cell(data, now_ns) for cell in cells)),
    )


def _path(path: str, default: Any = "") -> Callable[[Json, int], Any]:
    return lambda data, _now_ns: _at(data, path, default)


def _count(path: str) -> Callable[[Json, int], int]:
    return lambda data, _now_ns: len(_at(data, path, ()))


def _created(data: Json, _now_ns: int) -> Any:
    return _at(data, "metadata.creationTimestamp")


def _group_status(data: Json, _now_ns: int) -> str:
    conditions = {each.get("type"): each for each in _at(data, "status.conditions", ())}
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        return str(disrupted.get("reason", ""))
    scheduled = conditions.get("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def _joined(texts: Iterable[Any], limit: int = 3) -> str:
    """Join the first texts and the number of the remaining ones."""
    shown = list(dict.fromkeys(map(str, texts)))
    if not shown:
        return NONE
    rest = len(shown) - limit
    return ",".join(shown[:limit]) + (f" + {rest} more..." if rest > 0 else "")


def _endpoints(data: Json, _now_ns: int) -> str:
    found: list[str] = []
    for subset in _at(data, "subsets", ()):
        ports = subset.get("ports") or [None]
        found += [
            f"{address.get('ip', '')}:{port.get('port', 0)}" if port else address.get("ip", "")
            for port in ports
            for address in subset.get("addresses") or ()
        ]
    return _joined(found)


def _slice_ports(data: Json, _now_ns: int) -> str:
    ports = [each.get("port", "*") for each in _at(data, "ports", ())]
    return _joined(ports) if ports else _UNSET


def _slice_addresses(data: Json, _now_ns: int) -> str:
    found = [a for each in _at(data, "endpoints", ()) for a in each.get("addresses") or ()]
    return _joined(found) if found else _UNSET


def _amounts(data: Json, names: Callable[[str], bool]) -> str:
    hard, used = _at(data, "status.hard", {}), _at(data, "status.used", {})
    return ", ".join(
        f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard) if names(name)
    )


def _hosts(data: Json, _now_ns: int) -> str:
    found = [rule["host"] for rule in _at(data, "spec.rules", ()) if rule.get("host")]
    return _joined(found) if found else "*"


def _ingress_address(data: Json, _now_ns: int) -> str:
    return ",".join(
        each.get("ip") or each.get("hostname", "")
        for each in _at(data, "status.loadBalancer.ingress", ())
    )


def _reference(data: Json, _now_ns: int) -> str:
    reference = _at(data, "spec.parentRef", {})
    parts = (
        reference.get("resource", ""),
        reference.get("namespace", ""),
        reference.get("name", ""),
    )
    resource = f"{parts[0]}.{reference['group']}" if reference.get("group") else parts[0]
    return "/".join(part for part in (resource, *parts[1:]) if part)


def _parameters(data: Json, _now_ns: int) -> str:
    found = _at(data, "spec.parameters", {})
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def _role(data: Json, _now_ns: int) -> str:
    return f"{_at(data, 'roleRef.kind')}/{_at(data, 'roleRef.name')}"


def _subjects(kind: str) -> Callable[[Json, int], str]:
    def cell(data: Json, _now_ns: int) -> str:
        found = [each for each in _at(data, "subjects", ()) if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(
                f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found
            )
        return ", ".join(each.get("name", "") for each in found)

    return cell


def _requested_duration(data: Json, _now_ns: int) -> str:
    seconds = _at(data, "spec.expirationSeconds", None)
    return NONE if seconds is None else human_duration(seconds)


def _signing_state(data: Json, _now_ns: int) -> str:
    kinds = [each.get("type", "") for each in _at(data, "status.conditions", ())]
    state = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        state += ",Failed"
    return f"{state},Issued" if _at(data, "status.certificate") else state


def _service(data: Json, _now_ns: int) -> str:
    service = _at(data, "spec.service", {})
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(data: Json, _now_ns: int) -> str:
    for each in _at(data, "status.conditions", ()):
        if each.get("type") == "Available":
            status = each.get("status", "")
            return status if status == "True" else f"{status} ({each.get('reason', '')})"
    return UNKNOWN


def _missing_level(data: Json, _now_ns: int) -> str:
    for each in _at(data, "status.conditions", ()):
        if each.get("type") == "Dangling":
            return str(each.get("status", "?"))
    return "?"


def _scaled(data: Json, _now_ns: int) -> str:
    return f"{_at(data, 'spec.scaleTargetRef.kind')}/{_at(data, 'spec.scaleTargetRef.name')}"


def _targets(data: Json, _now_ns: int) -> str:
    spec = _at(data, "spec.metrics", None)
    if spec is None:  # version 1
        current = _at(data, "status.currentCPUUtilizationPercentage", UNKNOWN)
        wanted = _at(data, "spec.targetCPUUtilizationPercentage", 80)
        return f"cpu: {_percent(current)}/{_percent(wanted)}"
    current = {
        _at(each, "resource.name"): _at(each, "resource.current", {})
        for each in _at(data, "status.currentMetrics", ())
    }
    shown = []
    for each in spec:
        name, target = _at(each, "resource.name"), _at(each, "resource.target", {})
        is_share = "averageUtilization" in target
        field = "averageUtilization" if is_share else "averageValue"
        values = (current.get(name, {}).get(field, UNKNOWN), target.get(field, UNKNOWN))
        texts = [_percent(value) if is_share else str(value) for value in values]
        shown.append(f"{name or each.get('type', '')}: {'/'.join(texts)}")
    return ", ".join(shown)


def _percent(value: Any) -> str:
    return value if isinstance(value, str) else f"{value}%"


def _owner(data: Json, _now_ns: int) -> str:
    for each in _at(data, "metadata.ownerReferences", ()):
        if each.get("controller"):
            group = each["apiVersion"].rpartition("/")[0]
            kind = each["kind"].lower()
            return f"{kind}.{group}/{each['name']}" if group else f"{kind}/{each['name']}"
    return NONE


def _last_scheduled(data: Json, now_ns: int) -> str:
    time = _at(data, "status.lastScheduleTime")
    return since(time, now_ns) if time else NONE


def _containers(field: str, path: str) -> Callable[[Json, int], str]:
    def cell(data: Json, _now_ns: int) -> str:
        return ",".join(each.get(field, "") for each in _at(data, path, ()))

    return cell


def _yes(path: str, default: bool = False) -> Callable[[Json, int], bool]:
    return lambda data, _now_ns: bool(_at(data, path, default))


def _words(path: str) -> Callable[[Json, int], str]:
    def cell(data: Json, _now_ns: int) -> str:
        return ",".join(map(str, _at(data, path, ()))) or _UNSET

    return cell


_JOB = "spec.jobTemplate.spec.template.spec.containers"
_TEMPLATE = "template.spec.containers"
_CREATED_AT = Column("Created At", type="date")
_INTEGER = "integer"
_SUBJECTS = (wide("Users"), wide("Groups"), wide("ServiceAccounts"))
_SUBJECT_CELLS = (_subjects("User"), _subjects("Group"), _subjects("ServiceAccount"))
_WEBHOOKS = _layout((Column("Webhooks", type=_INTEGER), AGE), _count("webhooks"), age)
_BINDING = _layout(("Role", AGE, *_SUBJECTS), _role, age, *_SUBJECT_CELLS)
_AUTOSCALER = _layout(
    (
        "Reference",
        "Targets",
        "MinPods",
        "MaxPods",
        "Replicas",
        AGE,
    ),
    _scaled,
    _targets,
    lambda data, _: str(_at(data, "spec.minReplicas", _UNSET)),
    _path("spec.maxReplicas", 0),
    _path("status.currentReplicas", 0),
    age,
)

OTHERS: dict[str, Layout] = {
    "RuntimeClass": _layout(("Handler", AGE), _path("handler"), age),
    "CSIDriver": _layout(
        (
            Column("AttachRequired", type="boolean"),
            Column("PodInfoOnMount", type="boolean"),
            Column("StorageCapacity", type="boolean"),
            "TokenRequests",
            Column("RequiresRepublish", type="boolean"),
            "Modes",
            AGE,
        ),
        _yes("spec.attachRequired", True),
        _yes("spec.podInfoOnMount"),
        _yes("spec.storageCapacity"),
        lambda data, _: (
            ",".join(e.get("audience", "") for e in _at(data, "spec.tokenRequests", ())) or _UNSET
        ),
        _yes("spec.requiresRepublish"),
        _words("spec.volumeLifecycleModes"),
        age,
    ),
    "CSIStorageCapacity": _layout(
        ("StorageClass", "Capacity"), _path("storageClassName"), _path("capacity")
    ),
    "ResourceQuota": _layout(
        ("Request", "Limit", AGE),
        lambda data, _: _amounts(data, lambda name: not name.startswith("limits.")),
        lambda data, _: _amounts(data, lambda name: name.startswith("limits.")),
        age,
    ),
    "LimitRange": _layout((_CREATED_AT,), _created),
    "ServiceAccount": _layout(
        (AGE,),
        age,
    ),
    "Endpoints": _layout(("Endpoints", AGE), _endpoints, age),
    "EndpointSlice": _layout(
        ("AddressType", "Ports", "Endpoints", AGE),
        _path("addressType"),
        _slice_ports,
        _slice_addresses,
        age,
    ),
    "ControllerRevision": _layout(
        ("Controller", Column("Revision", type=_INTEGER), AGE), _owner, _path("revision", 0), age
    ),
    "CronJob": _layout(
        (
            "Schedule",
            "Timezone",
            "Suspend",
            Column("Active", type=_INTEGER),
            "Last Schedule",
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ),
        _path("spec.schedule"),
        _path("spec.timeZone", NONE),
        lambda data, _: "True" if _at(data, "spec.suspend", False) else "False",
        _count("status.active"),
        _last_scheduled,
        age,
        _containers("name", _JOB),
        _containers("image", _JOB),
        lambda data, _: selector_text(_at(data, "spec.jobTemplate.spec.selector", None)),
    ),
    "PodTemplate": _layout(
        ("Containers", "Images", "Pod Labels"),
        _containers("name", _TEMPLATE),
        _containers("image", _TEMPLATE),
        lambda data, _: labels_text(_at(data, "template.metadata.labels", {})),
    ),
    "ComponentStatus": _layout(
        ("Status", "Message", "Error"), lambda *_: "Healthy", lambda *_: "ok", lambda *_: ""
    ),
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "MutatingAdmissionPolicy": _layout(
        (Column("Mutations", type=_INTEGER), "ParamKind", AGE),
        _count("spec.mutations"),
        lambda data, _: (
            "/".join(_at(data, f"spec.paramKind.{each}") for each in ("apiVersion", "kind"))
            if _at(data, "spec.paramKind")
            else _UNSET
        ),
        age,
    ),
    "MutatingAdmissionPolicyBinding": _layout(
        ("PolicyName", "ParamRef", AGE),
        _path("spec.policyName"),
        lambda data, _: (
            _at(data, "spec.paramRef.name", "*") if _at(data, "spec.paramRef") else _UNSET
        ),
        age,
    ),
    "APIService": _layout(("Service", "Available", AGE), _service, _available, age),
    "CustomResourceDefinition": _layout((_CREATED_AT,), _created),
    "HorizontalPodAutoscaler": _AUTOSCALER,
    "CertificateSigningRequest": _layout(
        (AGE, "SignerName", "Requestor", "RequestedDuration", "Condition"),
        age,
        _path("spec.signerName", NONE),
        _path("spec.username"),
        _requested_duration,
        _signing_state,
    ),
    "ClusterTrustBundle": _layout(("SignerName",), _path("spec.signerName", NONE)),
    "LeaseCandidate": _layout(
        ("LeaseName", "BinaryVersion", "EmulationVersion", AGE),
        _path("spec.leaseName"),
        _path("spec.binaryVersion"),
        _path("spec.emulationVersion"),
        age,
    ),
    "FlowSchema": _layout(
        ("PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", AGE, "MissingPL"),
        _path("spec.priorityLevelConfiguration.name"),
        _path("spec.matchingPrecedence", 0),
        _path("spec.distinguisherMethod.type", NONE),
        age,
        _missing_level,
    ),
    "PriorityLevelConfiguration": _layout(
        ("Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", AGE),
        _path("spec.type"),
        _path("spec.limited.nominalConcurrencyShares", NONE),
        _path("spec.limited.limitResponse.queuing.queues", NONE),
        _path("spec.limited.limitResponse.queuing.handSize", NONE),
        _path("spec.limited.limitResponse.queuing.queueLengthLimit", NONE),
        age,
    ),
    "IngressClass": _layout(
        ("Controller", "Parameters", AGE), _path("spec.controller"), _parameters, age
    ),
    "Ingress": _layout(
        ("Class", "Hosts", "Address", "Ports", AGE),
        _path("spec.ingressClassName", NONE),
        _hosts,
        _ingress_address,
        lambda data, _: "80, 443" if _at(data, "spec.tls") else "80",
        age,
    ),
    "IPAddress": _layout(("ParentRef",), _reference),
    "NetworkPolicy": _layout(
        ("Pod-Selector", AGE),
        lambda data, _: selector_text(_at(data, "spec.podSelector", None)),
        age,
    ),
    "ServiceCIDR": _layout(("CIDRs", AGE), _words("spec.cidrs"), age),
    "ClusterRole": _layout((_CREATED_AT,), _created),
    "Role": _layout((_CREATED_AT,), _created),
    "ClusterRoleBinding": _BINDING,
    "RoleBinding": _BINDING,
    "VolumeAttributesClass": _layout(("DriverName", AGE), _path("driverName"), age),
    "Workload": _layout((AGE,), age),
    "PodGroup": _layout(
        ("Policy", "Workload", "Status", AGE),
        lambda data, _: "Gang" if _at(data, "spec.schedulingPolicy.gang", None) else "Basic",
        _path("spec.podGroupTemplateRef.workload.workloadName", NONE),
        _group_status,
        age,
    ),
    "DeviceTaintRule": _layout((AGE,), age),
}
