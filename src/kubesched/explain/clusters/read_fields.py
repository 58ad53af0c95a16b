"""The fields of objects that scheduling reads. No other field is written to a file.

One table lists them for every type; fields that it does not list are dropped. Among these are
commands, arguments, probes, volume attributes, parameters of classes, mount options, addresses,
image digests of running containers, messages and other annotations. Captures and recordings contain
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api.kinds import KINDS, Kind

__all__ = [
    "CAPTURED_KINDS",
    "READ_ANNOTATIONS",
    "read_fields_of",
    "with_read_fields",
]

# Annotations that the scheduler, the controllers and the simulated kubelets read.
READ_ANNOTATIONS: Final = frozenset(
    [
        "batch.kubernetes.io/cronjob-scheduled-timestamp",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/job-index-ignored-failure-count",
        "controller.kubernetes.io/pod-deletion-cost",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/config.mirror",
        "kubesched.io/devices",
        "kubesched.io/exit-code",
        "kubesched.io/fail-after",
        "kubesched.io/image-pull",
        "kubesched.io/provision",
        "kubesched.io/provision-delay",
        "kubesched.io/ready-delay",
        "kubesched.io/run-duration",
        "kubesched.io/start-delay",
        "kubesched.io/stop-delay",
        "kubesched.io/stopped",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "resource.kubernetes.io/extended-resource-claim",
        "resource.kubernetes.io/pod-claim-name",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    ]
)

# Type -> its fields, with Python's names. `field:treatment` says how `--anonymize` treats a value
# that is not a name or text (`anonymizing.py` has the treatments).
_FIELDS: Final[Mapping[str, str]] = {
    # Metadata and references
    "ObjectMeta": """name namespace uid generation creation_timestamp:time deletion_timestamp:time
        deletion_grace_period_seconds labels annotations:annotations owner_references finalizers""",
    "OwnerReference": "api_version kind name uid controller block_owner_deletion",
    "ObjectReference": "kind namespace name uid api_version",
    "TypedLocalObjectReference": "api_group kind name",
    "Condition": "type status observed_generation last_transition_time:time reason",
    "LabelSelector": "match_labels match_expressions",
    "LabelSelectorRequirement": "key operator values",
    "NodeSelector": "node_selector_terms",
    "NodeSelectorTerm": "match_expressions match_fields",
    "NodeSelectorRequirement": "key operator values",
    "Toleration": "key operator value effect toleration_seconds",
    # Namespaces, classes, limits
    "Namespace": "metadata spec status",
    "NamespaceSpec": "finalizers",
    "NamespaceStatus": "phase",
    "PriorityClass": "metadata value global_default preemption_policy",
    "RuntimeClass": "metadata overhead scheduling",
    "RuntimeClassOverhead": "pod_fixed:amounts",
    "RuntimeClassScheduling": "node_selector tolerations",
    "ResourceQuota": "metadata spec status",
    "ResourceQuotaSpec": "hard:amounts scopes scope_selector",
    "ScopeSelector": "match_expressions",
    "ScopeRequirement": "scope_name operator values",
    "ResourceQuotaStatus": "hard:amounts used:amounts",
    "LimitRange": "metadata spec",
    "LimitRangeSpec": "limits",
    "LimitRangeItem": """type max:amounts min:amounts default:amounts default_request:amounts
        max_limit_request_ratio:amounts""",
    # Nodes
    "Node": "metadata spec status",
    "NodeSpec": "unschedulable taints",
    "Taint": "key value effect time_added:time",
    "NodeStatus": """capacity:amounts allocatable:amounts phase conditions images
        declared_features""",
    "NodeCondition": "type status last_heartbeat_time:time last_transition_time:time reason",
    "ContainerImage": "names size_bytes",
    # Volumes
    "StorageClass": """metadata provisioner reclaim_policy allow_volume_expansion
        volume_binding_mode allowed_topologies""",
    "TopologySelectorTerm": "match_label_expressions",
    "TopologySelectorLabelRequirement": "key values",
    "CSIDriver": "metadata spec",
    "CSIDriverSpec": """attach_required storage_capacity volume_lifecycle_modes
        prevent_pod_scheduling_if_missing""",
    "CSINode": "metadata spec",
    "CSINodeSpec": "drivers",
    "CSINodeDriver": "name topology_keys allocatable",
    "VolumeNodeResources": "count",
    "CSIStorageCapacity": """metadata node_topology storage_class_name capacity:amount
        maximum_volume_size:amount""",
    "PersistentVolume": "metadata spec status",
    "PersistentVolumeSpec": """capacity:amounts gce_persistent_disk aws_elastic_block_store cinder
        azure_disk portworx_volume azure_file vsphere_volume csi local access_modes claim_ref
        persistent_volume_reclaim_policy storage_class_name volume_mode node_affinity
        volume_attributes_class_name""",
    "PersistentVolumeStatus": "phase last_phase_transition_time:time",
    "VolumeNodeAffinity": "required",
    "GCEPersistentDiskVolumeSource": "pd_name read_only",
    "AWSElasticBlockStoreVolumeSource": "volume_id",
    "CinderPersistentVolumeSource": "volume_id",
    "CinderVolumeSource": "volume_id",
    "AzureDiskVolumeSource": "disk_name disk_uri",
    "PortworxVolumeSource": "volume_id",
    "AzureFilePersistentVolumeSource": "read_only",
    "AzureFileVolumeSource": "read_only",
    "VsphereVirtualDiskVolumeSource": "volume_path",
    "CSIPersistentVolumeSource": "driver volume_handle",
    "LocalVolumeSource": "",
    "ISCSIVolumeSource": "iqn read_only",
    "RBDVolumeSource": "monitors image pool read_only",
    "PersistentVolumeClaim": "metadata spec status",
    "PersistentVolumeClaimSpec": """access_modes selector resources volume_name storage_class_name
        volume_mode volume_attributes_class_name""",
    "VolumeResourceRequirements": "limits:amounts requests:amounts",
    "PersistentVolumeClaimStatus": """phase access_modes capacity:amounts
        current_volume_attributes_class_name""",
    "PersistentVolumeClaimTemplate": "metadata spec",
    "VolumeAttachment": "metadata spec status",
    "VolumeAttachmentSpec": "attacher source node_name",
    "VolumeAttachmentSource": "persistent_volume_name inline_volume_spec",
    "VolumeAttachmentStatus": "attached",
    # Devices
    "DeviceClass": "metadata spec",
    "DeviceClassSpec": "selectors extended_resource_name",
    "DeviceSelector": "cel",
    "CELDeviceSelector": "expression:cel",
    "ResourceSlice": "metadata spec",
    "ResourceSliceSpec": """driver pool node_name node_selector all_nodes devices
        per_device_node_selection shared_counters""",
    "ResourcePool": "name generation resource_slice_count",
    "Device": """name attributes capacity consumes_counters node_name node_selector all_nodes
        taints binds_to_node binding_conditions binding_failure_conditions
        allow_multiple_allocations node_allocatable_resource_mappings""",
    "DeviceAttribute": """int_value bool_value string_value version_value:numbers int_values
        bool_values string_values version_values:numbers""",
    "DeviceCapacity": "value:amount request_policy",
    "CapacityRequestPolicy": "default:amount valid_values:amount valid_range",
    "CapacityRequestPolicyRange": "min:amount max:amount step:amount",
    "DeviceCounterConsumption": "counter_set counters",
    "Counter": "value:amount",
    "CounterSet": "name counters",
    "DeviceTaint": "key value effect time_added:time",
    "NodeAllocatableResourceMapping": "capacity_key allocation_multiplier:amount",
    "DeviceTaintRule": "metadata spec",
    "DeviceTaintRuleSpec": "device_selector taint",
    "DeviceTaintSelector": "driver pool device",
    "ResourceClaimTemplate": "metadata spec",
    "ResourceClaimTemplateSpec": "metadata spec",
    "ResourceClaim": "metadata spec status",
    "ResourceClaimSpec": "devices",
    "DeviceClaim": "requests constraints",
    "DeviceRequest": "name exactly first_available",
    "ExactDeviceRequest": """device_class_name selectors allocation_mode count admin_access
        tolerations capacity""",
    "DeviceSubRequest": """name device_class_name selectors allocation_mode count tolerations
        capacity""",
    "DeviceToleration": "key operator value effect toleration_seconds",
    "CapacityRequirements": "requests:amounts",
    "DeviceConstraint": "requests match_attribute distinct_attribute",
    "ResourceClaimStatus": "allocation reserved_for devices",
    "AllocationResult": "devices node_selector allocation_timestamp:time",
    "DeviceAllocationResult": "results",
    "DeviceRequestAllocationResult": """request driver pool device admin_access tolerations
        binding_conditions binding_failure_conditions share_id consumed_capacity:amounts""",
    "ResourceClaimConsumerReference": "api_group resource name uid",
    "AllocatedDeviceStatus": "driver pool device share_id conditions",
    # Workloads
    "Service": "metadata spec",
    "ServiceSpec": "selector type",
    "PodDisruptionBudget": "metadata spec status",
    "PodDisruptionBudgetSpec": """min_available:amount max_unavailable:amount selector
        unhealthy_pod_eviction_policy""",
    "PodDisruptionBudgetStatus": """observed_generation disrupted_pods:times disruptions_allowed
        current_healthy desired_healthy expected_pods conditions""",
    "Workload": "metadata spec",
    "WorkloadSpec": "controller_ref pod_group_templates",
    "PodGroupTemplate": """name scheduling_policy scheduling_constraints resource_claims
        disruption_mode priority_class_name priority""",
    "PodGroupSchedulingPolicy": "basic gang",
    "GangSchedulingPolicy": "min_count",
    "PodGroupSchedulingConstraints": "topology",
    "TopologyConstraint": "key",
    "PodGroup": "metadata spec status",
    "PodGroupSpec": """pod_group_template_ref scheduling_policy scheduling_constraints
        resource_claims disruption_mode priority_class_name priority""",
    "PodGroupTemplateReference": "workload",
    "WorkloadPodGroupTemplateReference": "workload_name pod_group_template_name",
    "PodGroupStatus": "conditions resource_claim_statuses",
    "ReplicationController": "metadata spec status",
    "ReplicationControllerSpec": "replicas min_ready_seconds selector template",
    "ReplicationControllerStatus": """replicas fully_labeled_replicas ready_replicas
        available_replicas observed_generation""",
    "ReplicaSet": "metadata spec status",
    "ReplicaSetSpec": "replicas min_ready_seconds selector template",
    "ReplicaSetStatus": """replicas fully_labeled_replicas ready_replicas available_replicas
        observed_generation""",
    "StatefulSet": "metadata spec status",
    "StatefulSetSpec": """replicas selector template volume_claim_templates pod_management_policy
        revision_history_limit min_ready_seconds""",
    "StatefulSetStatus": """observed_generation replicas ready_replicas current_replicas
        updated_replicas available_replicas current_revision update_revision collision_count""",
    "Deployment": "metadata spec status",
    "DeploymentSpec": "replicas selector template min_ready_seconds revision_history_limit paused",
    "DeploymentStatus": """observed_generation replicas updated_replicas ready_replicas
        available_replicas unavailable_replicas""",
    "DaemonSet": "metadata spec status",
    "DaemonSetSpec": "selector template min_ready_seconds revision_history_limit",
    "DaemonSetStatus": """current_number_scheduled number_misscheduled desired_number_scheduled
        number_ready observed_generation updated_number_scheduled number_available
        number_unavailable""",
    "CronJob": "metadata spec status",
    "CronJobSpec": """schedule:schedule time_zone:zone starting_deadline_seconds concurrency_policy
        suspend job_template successful_jobs_history_limit failed_jobs_history_limit""",
    "JobTemplateSpec": "metadata spec",
    "CronJobStatus": "active last_schedule_time:time last_successful_time:time",
    "Job": "metadata spec status",
    "JobSpec": """parallelism completions active_deadline_seconds backoff_limit selector
        manual_selector template ttl_seconds_after_finished completion_mode suspend
        backoff_limit_per_index max_failed_indexes pod_replacement_policy managed_by""",
    "JobStatus": """conditions start_time:time completion_time:time active succeeded failed
        terminating ready completed_indexes:numbers failed_indexes:numbers""",
    "JobCondition": "type status last_probe_time:time last_transition_time:time reason",
    # Pods
    "PodTemplateSpec": "metadata spec",
    "Pod": "metadata spec status",
    "PodSpec": """volumes init_containers containers ephemeral_containers restart_policy
        termination_grace_period_seconds active_deadline_seconds node_selector node_name
        host_network affinity scheduler_name tolerations priority_class_name priority
        readiness_gates runtime_class_name preemption_policy overhead:amounts
        topology_spread_constraints host_users scheduling_gates resource_claims resources
        scheduling_group""",
    # Volumes of other kinds are dropped. Mount points are never read.
    "Volume": """name gce_persistent_disk aws_elastic_block_store iscsi persistent_volume_claim rbd
        cinder azure_file vsphere_volume azure_disk portworx_volume ephemeral""",
    "PersistentVolumeClaimVolumeSource": "claim_name read_only",
    "EphemeralVolumeSource": "volume_claim_template",
    "Container": """name image ports resources restart_policy restart_policy_rules readiness_probe
        lifecycle""",
    "EphemeralContainer": "name image ports resources restart_policy target_container_name",
    "ContainerPort": "host_port container_port protocol host_ip",
    "ResourceRequirements": "limits:amounts requests:amounts claims",
    "ResourceClaimUse": "name request",
    "ContainerRestartRule": "action exit_codes",
    "ContainerRestartRuleOnExitCodes": "operator values",
    "Probe": "initial_delay_seconds",
    "Lifecycle": "pre_stop",
    "LifecycleHandler": "sleep",
    "SleepAction": "seconds",
    "Affinity": "node_affinity pod_affinity pod_anti_affinity",
    "NodeAffinity": """required_during_scheduling_ignored_during_execution
        preferred_during_scheduling_ignored_during_execution""",
    "PreferredSchedulingTerm": "weight preference",
    "PodAffinity": """required_during_scheduling_ignored_during_execution
        preferred_during_scheduling_ignored_during_execution""",
    "PodAntiAffinity": """required_during_scheduling_ignored_during_execution
        preferred_during_scheduling_ignored_during_execution""",
    "PodAffinityTerm": """label_selector namespaces topology_key namespace_selector
        match_label_keys mismatch_label_keys""",
    "WeightedPodAffinityTerm": "weight pod_affinity_term",
    "PodReadinessGate": "condition_type",
    "TopologySpreadConstraint": """max_skew topology_key when_unsatisfiable label_selector
        min_domains node_affinity_policy node_taints_policy match_label_keys""",
    "PodSchedulingGate": "name",
    "PodSchedulingGroup": "pod_group_name",
    "PodResourceClaim": "name resource_claim_name resource_claim_template_name",
    "PodStatus": """observed_generation phase conditions reason nominated_node_name start_time:time
        init_container_statuses container_statuses qos_class ephemeral_container_statuses resize
        resource_claim_statuses extended_resource_claim_status allocated_resources:amounts
        resources node_allocatable_resource_claim_statuses""",
    "PodCondition": """type observed_generation status last_probe_time:time
        last_transition_time:time reason""",
    "ContainerStatus": """name state ready restart_count started allocated_resources:amounts
        resources""",
    "ContainerState": "waiting running terminated",
    "ContainerStateWaiting": "reason",
    "ContainerStateRunning": "started_at:time",
    "ContainerStateTerminated": "exit_code signal reason started_at:time finished_at:time",
    "PodResourceClaimStatus": "name resource_claim_name",
    "PodExtendedResourceClaimStatus": "request_mappings resource_claim_name",
    "ContainerExtendedResourceRequest": "container_name resource_name request_name",
    "NodeAllocatableResourceClaimStatus": "resource_claim_name containers resources:amounts",
}

# Kinds whose objects captures contain. Revisions are omitted: they contain whole templates, and the
# controllers create them again.
CAPTURED_KINDS: Final[tuple[Kind, ...]] = tuple(
    kind for kind in KINDS if kind.type.__name__ in _FIELDS
)


@cache
def read_fields_of(type_name: str) -> Mapping[str, str]:
    """Return the fields of a type that scheduling reads, with their treatments."""
    found = (each.partition(":") for each in _FIELDS.get(type_name, "").split())
    return {name: treatment for name, _, treatment in found}


def with_read_fields(each: Any) -> Any:
    """Return an object, or a part of one, with only the fields that scheduling reads."""
    kind: Any = type(each)
    return _pruner(kind)(each)


_Pruner = Callable[[Any], Any]


@cache
def _pruner(kind: type[Any]) -> _Pruner:
    """Build the function that prunes values of a struct type."""
    read = read_fields_of(kind.__name__)
    dropped: dict[str, Any] = {}
    kept: list[str] = []
    for field in msgspec.structs.fields(kind):
        if field.name in read or field.required:
            kept.append(field.name)
        elif field.default_factory is not msgspec.NODEFAULT:
            dropped[field.name] = field.default_factory()
        else:
            dropped[field.name] = field.default

    def prune(value: Any) -> Any:
        changes = {
            name: default for name, default in dropped.items() if getattr(value, name) != default
        }
        for name in kept:
            old = getattr(value, name)
            if old and (new := _pruned(old)) is not old:
                changes[name] = new
        return replace(value, **changes) if changes else value

    if kind.__name__ == "ObjectMeta":
        return lambda value: _with_read_annotations(prune(value))
    if kind.__name__ == "PodSpec":
        return lambda value: _with_read_volumes(prune(value))
    return prune


def _pruned(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _pruner(type(value))(value)
    if isinstance(value, tuple):
        if not isinstance(value[0], msgspec.Struct | dict):
            return value
        found = tuple(map(_pruned, value))
        return (
            found if any(new is not old for new, old in zip(found, value, strict=True)) else value
        )
    if isinstance(value, dict) and isinstance(next(iter(value.values())), msgspec.Struct):
        return {key: _pruned(each) for key, each in value.items()}
    return value


def _with_read_annotations(metadata: Any) -> Any:
    annotations = {
        key: value for key, value in metadata.annotations.items() if key in READ_ANNOTATIONS
    }
    if len(annotations) == len(metadata.annotations):
        return metadata
    return replace(metadata, annotations=annotations)


def _with_read_volumes(spec: Any) -> Any:
    """Drop the volumes whose source scheduling does not read, such as tokens and secrets."""
    volumes = tuple(each for each in spec.volumes if each != type(each)(name=each.name))
    return spec if len(volumes) == len(spec.volumes) else replace(spec, volumes=volumes)
