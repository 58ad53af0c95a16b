"""A cluster in this process, but for its scheduler: nodes and controllers around an API server.

`nodes/` stands in for kubelets, `controllers/` for the controller manager. Both know the cluster
through `ApiAccess` alone. `embedded_cluster.py` wires them to the server in `apiserver/`.
"""
