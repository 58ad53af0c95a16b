"""Builders, fakes and plugin checks, for the tests of this package and of its users."""

from __future__ import annotations

from kubesched.testing.builders import (
    HOSTNAME,
    REGION,
    ZONE,
    make_container,
    make_meta,
    make_node,
    make_owner,
    make_pod,
    make_port,
    make_spread,
    make_taint,
    make_toleration,
)
from kubesched.testing.check_plugin import check_plugin
from kubesched.testing.cluster import Cluster, cluster_in_thread
from kubesched.testing.clusters import Cluster as ClusterObjects
from kubesched.testing.clusters import random_cluster, random_node, random_pod
from kubesched.testing.fake_handle import (
    FakeHandle,
    FakePodInPreBind,
    FakeRecorder,
    FakeWaitingPod,
    RecordedEvent,
    make_nominator,
)
from kubesched.testing.fake_objects import ApiCall, FakeApi, FakeLister, FakeObjects
from kubesched.testing.object_builders import (
    make_csi_driver,
    make_csi_node,
    make_csi_storage_capacity,
    make_namespace,
    make_pdb,
    make_priority_class,
    make_pv,
    make_pvc,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
    make_storage_class,
)
from kubesched.testing.selector_builders import (
    make_affinity,
    make_node_selector,
    make_node_term,
    make_pod_term,
    make_selector,
)
from kubesched.testing.views import make_snapshot, make_view, run_filter, run_score

__all__ = [
    "HOSTNAME",
    "REGION",
    "ZONE",
    "ApiCall",
    "Cluster",
    "ClusterObjects",
    "FakeApi",
    "FakeHandle",
    "FakeLister",
    "FakeObjects",
    "FakePodInPreBind",
    "FakeRecorder",
    "FakeWaitingPod",
    "RecordedEvent",
    "check_plugin",
    "cluster_in_thread",
    "make_affinity",
    "make_container",
    "make_csi_driver",
    "make_csi_node",
    "make_csi_storage_capacity",
    "make_meta",
    "make_namespace",
    "make_node",
    "make_node_selector",
    "make_node_term",
    "make_nominator",
    "make_owner",
    "make_pdb",
    "make_pod",
    "make_pod_term",
    "make_port",
    "make_priority_class",
    "make_pv",
    "make_pvc",
    "make_replica_set",
    "make_replication_controller",
    "make_selector",
    "make_service",
    "make_snapshot",
    "make_spread",
    "make_stateful_set",
    "make_storage_class",
    "make_taint",
    "make_toleration",
    "make_view",
    "random_cluster",
    "random_node",
    "random_pod",
    "run_filter",
    "run_score",
]
