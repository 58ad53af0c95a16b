"""The list of all controllers, and of the kinds that they follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesched.api import (
    DaemonSet,
    Deployment,
    DeviceClass,
    Job,
    Lease,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Service,
    StatefulSet,
)
from kubesched.api.apps import ControllerRevision
from kubesched.api.base import ApiObject
from kubesched.api.batch import CronJob
from kubesched.api.core import ConfigMap, ServiceAccount
from kubesched.api.discovery import EndpointSlice
from kubesched.api.storage import StorageClass
from kubesched.api.volume import PersistentVolume, PersistentVolumeClaim
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.cron_jobs import CRON_JOB_CONTROLLER
from kubesched.cluster.controllers.daemon_sets import DAEMON_SET_CONTROLLER
from kubesched.cluster.controllers.deployments import DEPLOYMENT_CONTROLLER
from kubesched.cluster.controllers.device_driver import DEVICE_DRIVER
from kubesched.cluster.controllers.disruption_budgets import DISRUPTION_CONTROLLER
from kubesched.cluster.controllers.endpoint_mirroring import ENDPOINT_MIRRORING_CONTROLLER
from kubesched.cluster.controllers.endpoint_slices import ENDPOINT_SLICE_CONTROLLER, ENDPOINTS
from kubesched.cluster.controllers.ephemeral_volumes import EPHEMERAL_VOLUME_CONTROLLER
from kubesched.cluster.controllers.job_pod_groups import GROUPING_JOB_CONTROLLER
from kubesched.cluster.controllers.jobs import JOB_CONTROLLER, LOST_JOB_CONTROLLER
from kubesched.cluster.controllers.namespaces import namespace_controller
from kubesched.cluster.controllers.node_lifecycle import NODE_CONTROLLER
from kubesched.cluster.controllers.persistent_volumes import CLAIM_CONTROLLER, VOLUME_CONTROLLER
from kubesched.cluster.controllers.pod_autoscalers import AUTOSCALERS, PodAutoscalers
from kubesched.cluster.controllers.pod_garbage_collection import POD_GARBAGE_COLLECTOR
from kubesched.cluster.controllers.pod_group_protection import POD_GROUP_PROTECTION_CONTROLLER
from kubesched.cluster.controllers.replica_sets import (
    REPLICA_SET_CONTROLLER,
    REPLICATION_CONTROLLER,
)
from kubesched.cluster.controllers.resource_claims import (
    GROUP_CLAIM_CONTROLLER,
    POD_CLAIM_CONTROLLER,
    RESOURCE_CLAIM_CONTROLLER,
)
from kubesched.cluster.controllers.stateful_sets import STATEFUL_SET_CONTROLLER
from kubesched.cluster.controllers.taint_eviction import TaintEvictions

__all__ = ["FOLLOWED", "all_controllers"]


def all_controllers(
    evictions: TaintEvictions,
    authority: Callable[[], str],
    autoscalers: PodAutoscalers,
    *,
    has_job_groups: bool = False,
) -> tuple[Controller, ...]:
    """List the controllers.

    Controllers of one kind plan in this order, and the triggers of one change run in this order.
    `authority` returns the certificates that clients need to trust the API server. With
    `has_job_groups` Jobs create pod groups.
    """
    return (
        POD_CLAIM_CONTROLLER,
        EPHEMERAL_VOLUME_CONTROLLER,
        LOST_JOB_CONTROLLER,
        RESOURCE_CLAIM_CONTROLLER,
        CLAIM_CONTROLLER,
        VOLUME_CONTROLLER,
        POD_GROUP_PROTECTION_CONTROLLER,
        GROUP_CLAIM_CONTROLLER,
        NODE_CONTROLLER,
        evictions.controller(),
        POD_GARBAGE_COLLECTOR,
        DEVICE_DRIVER,
        REPLICA_SET_CONTROLLER,
        REPLICATION_CONTROLLER,
        STATEFUL_SET_CONTROLLER,
        DAEMON_SET_CONTROLLER,
        GROUPING_JOB_CONTROLLER if has_job_groups else JOB_CONTROLLER,
        DEPLOYMENT_CONTROLLER,
        CRON_JOB_CONTROLLER,
        namespace_controller(authority),
        DISRUPTION_CONTROLLER,
        ENDPOINT_SLICE_CONTROLLER,
        ENDPOINT_MIRRORING_CONTROLLER,
        autoscalers.controller(),
    )


# Every kind that a plan reads. PodGroups are followed too if the server has them.
FOLLOWED: Final[tuple[type[ApiObject], ...]] = (
    Deployment,
    ReplicaSet,
    DaemonSet,
    ReplicationController,
    StatefulSet,
    Job,
    CronJob,
    Namespace,
    Service,
    PodDisruptionBudget,
    Pod,
    PersistentVolumeClaim,
    PersistentVolume,
    ResourceClaim,
    Node,
    ControllerRevision,
    ServiceAccount,
    ConfigMap,
    EndpointSlice,
    ENDPOINTS,
    StorageClass,
    ResourceClaimTemplate,
    ResourceSlice,
    DeviceClass,
    Lease,
    AUTOSCALERS,
)
