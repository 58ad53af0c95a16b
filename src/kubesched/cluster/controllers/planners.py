"""Which plans there are for objects of each kind, and in whose name they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    PodGroup,
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
from kubesched.cluster.controllers.cron_jobs import plan_cron_job
from kubesched.cluster.controllers.daemon_sets import plan_daemon_set
from kubesched.cluster.controllers.deployments import plan_deployment
from kubesched.cluster.controllers.device_driver import plan_devices
from kubesched.cluster.controllers.disruption_budgets import plan_disruption_budget
from kubesched.cluster.controllers.endpoint_slices import ENDPOINTS, plan_service
from kubesched.cluster.controllers.ephemeral_volumes import plan_ephemeral_claims
from kubesched.cluster.controllers.jobs import TRACKING, plan_job, plan_pod_of_lost_job
from kubesched.cluster.controllers.namespaces import plan_namespace
from kubesched.cluster.controllers.node_lifecycle import plan_node
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.persistent_volumes import plan_claim_binding, plan_volume
from kubesched.cluster.controllers.plans import ActionPlan
from kubesched.cluster.controllers.pod_garbage_collection import plan_out_of_service_node
from kubesched.cluster.controllers.pod_group_protection import plan_protection
from kubesched.cluster.controllers.replica_sets import plan_replica_set
from kubesched.cluster.controllers.resource_claims import (
    plan_claim,
    plan_claims_of_group,
    plan_claims_of_pod,
)
from kubesched.cluster.controllers.stateful_sets import plan_stateful_set
from kubesched.cluster.controllers.taint_eviction import TaintEvictions

__all__ = ["FOLLOWED", "PLANNED", "Planner", "planners"]


def _always(_subject: Any) -> bool:
    return True


class Planner(NamedTuple):
    controller: str
    """The name that its events bear."""
    plan: Callable[[ObjectIndex, Any, Mapping[str, Any], int], ActionPlan]
    """From what is known, an object, all of its JSON and the time to what is to be done."""
    applies: Callable[[Any], bool] = _always
    """Whether there can be anything to do for an object, told quickly."""


def planners(
    evictions: TaintEvictions, authority: Callable[[], str]
) -> Mapping[type[ApiObject], tuple[Planner, ...]]:
    """`authority` gives the certificates by which the API server is trusted."""
    return {
        Deployment: (Planner("deployment-controller", plan_deployment),),
        ReplicaSet: (Planner("replicaset-controller", plan_replica_set),),
        DaemonSet: (Planner("daemonset-controller", plan_daemon_set),),
        ReplicationController: (Planner("replication-controller", plan_replica_set),),
        StatefulSet: (Planner("statefulset-controller", plan_stateful_set),),
        Job: (Planner("job-controller", plan_job),),
        CronJob: (Planner("cronjob-controller", plan_cron_job),),
        Namespace: (Planner("service-account-controller", plan_namespace(authority)),),
        Service: (Planner("endpoint-slice-controller", plan_service),),
        PodDisruptionBudget: (Planner("controllermanager", plan_disruption_budget),),
        Pod: (
            Planner(
                "resource-claim-controller",
                plan_claims_of_pod,
                lambda pod: bool(pod.spec.resource_claims),
            ),
            Planner(
                "ephemeral-volume-controller",
                plan_ephemeral_claims,
                lambda pod: any(volume.ephemeral is not None for volume in pod.spec.volumes),
            ),
            Planner(
                "job-controller",
                plan_pod_of_lost_job,
                lambda pod: TRACKING in pod.metadata.finalizers,
            ),
        ),
        PersistentVolumeClaim: (Planner("persistentvolume-controller", plan_claim_binding),),
        PersistentVolume: (Planner("persistentvolume-controller", plan_volume),),
        ResourceClaim: (Planner("resource-claim-controller", plan_claim),),
        PodGroup: (
            Planner("podgroup-protection-controller", plan_protection),
            Planner(
                "resource-claim-controller",
                plan_claims_of_group,
                lambda group: bool(group.spec.resource_claims),
            ),
        ),
        Node: (
            Planner("node-controller", plan_node),
            Planner("taint-eviction-controller", evictions.plan),
            Planner("pod-garbage-collector", plan_out_of_service_node),
            Planner("device-driver", plan_devices),
        ),
    }


PLANNED = frozenset(planners(TaintEvictions(), str))
FOLLOWED: tuple[type[ApiObject], ...] = (
    # Pod groups only where the server has them.
    *(kind for kind in planners(TaintEvictions(), str) if kind is not PodGroup),
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
)
"""Every kind that a plan looks at."""
