"""A control plane as plain processes on this machine, for tests and for people: no container, no kubelet, no root.

A test takes what it needs from `conftest`, and works in namespaces of its own:

    def test_it(cluster: Cluster, tollgate: StartTollgate, namespace: str) -> None:
        cluster.add_node(cluster.unique("gpu"), {"nvidia.com/gpu": "8"})
        cluster.queue(namespace, "serving", {"nvidia.com/gpu": "4", "cpu": "64", "memory": "256Gi"})
        ours = tollgate(policy(namespace, 2000, queue="serving"), "--kueue", "present", servers=2)
        ana = cluster.user("ana", namespace)
        answer = ana.api.try_create(gpu_pod("a", namespace))      # status, body, message, warnings
        printed = ana.kubectl("get", "pods").stdout
        wait_for("it runs", lambda: ana.api.get(POD, "a", namespace)["status"].get("phase") == "Running")
        annotations = cluster.audit.annotations(namespace, "a")
        ours.servers[0].component.kill()                          # or pause, resume, restart; drain on the server
        assert ours.reviews("mutate") > 0

`cluster` says who may ask, `component` how programs run, `balancer` what stands in for the Service.
"""
