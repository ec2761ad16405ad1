"""The do-nothing DRA driver as a control: its DaemonSet, class, claim template, and the slices it does not publish itself."""

from __future__ import annotations

from collections.abc import Iterable

from bench.observed import Observed
from lab.client import CLAIM_TEMPLATE, DAEMON_SET, DEVICE_CLASS, POD, SLICE, Cluster, Object, wait_until

IMAGE = "localhost/computedomain-bench:lab"
PROGRAM = "/noop-driver"

# The names of bench/programs/noop_driver.cc.
DRIVER = "noop.bench.example"
DEVICE = "noop"
REQUEST = "device"

TEMPLATE = "noop"
REGISTERED = "registered with the kubelet"
KUBELET = "/var/lib/kubelet"


def daemon_set() -> Object:
    paths = {"data": f"{KUBELET}/plugins/{DRIVER}", "registry": f"{KUBELET}/plugins_registry"}
    labels = {"app": DRIVER}
    container = {
        "name": "driver", "image": IMAGE, "imagePullPolicy": "Never", "command": [PROGRAM, "$(NODE_NAME)"],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in paths.items()],
    }
    pod = {
        "containers": [container], "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": False,
        "volumes": [{"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in paths.items()],
    }
    return {
        "metadata": {"name": DRIVER},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def device_class() -> Object:
    return {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}


def claim_template() -> Object:
    request = {"name": REQUEST, "exactly": {"deviceClassName": DRIVER}}
    return {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def resource_slice(node: str) -> Object:
    """One device that any number of claims share, like the driver's own channel-0."""
    spec = {
        "driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": DEVICE, "allowMultipleAllocations": True}],
    }
    return {"metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec}


def install(cluster: Cluster, namespace: str, nodes: list[str]) -> None:
    """Returns when the driver is registered on every node and its devices can be allocated."""
    remove(cluster)
    cluster.create(DEVICE_CLASS, device_class())
    cluster.create(CLAIM_TEMPLATE, claim_template(), namespace)
    cluster.create(DAEMON_SET, daemon_set(), namespace)
    pods = Observed(POD, namespace)
    pods.wait(lambda seen: _runs_on(seen.values()) >= set(nodes), f"pods of {DRIVER} on {', '.join(nodes)}")
    for pod in pods.all():
        name = pod["metadata"]["name"]
        wait_until(lambda name=name: REGISTERED in cluster.logs(name, namespace), f"registration of {DRIVER} by {name}", 60)
    # The kubelet removes slices of a driver it does not know, so they come last.
    for node in nodes:
        cluster.create(SLICE, resource_slice(node))


def _runs_on(pods: Iterable[Object]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"}


def remove(cluster: Cluster) -> None:
    """What is not in the bench's namespace."""
    for item in cluster.list(SLICE):
        if item["spec"]["driver"] == DRIVER:
            cluster.delete(SLICE, item["metadata"]["name"])
    cluster.delete(DEVICE_CLASS, DRIVER)
