"""A cluster in this process: an API server, fake kubelets, controllers, and a scheduler.

`nodes/` replaces kubelets, `controllers/` the controller manager. Both use the cluster through
`ApiAccess` alone. `embedded_cluster.py` wires them to the server in `apiserver/`;
`live_cluster.py` adds the scheduler.
"""
