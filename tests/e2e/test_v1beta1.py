"""v1beta1 beside v1beta2, served by the steps of docs/api-versions.md as they stand there, and taken out of service again."""

from __future__ import annotations

import base64
import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.client import COMPUTE_DOMAIN, DEPLOYMENT, POD, ApiError, Cluster, Kind, Object, condition, pod_manifest, wait_until
from lab.identity import CHECKOUT

from .conftest import DRIVER_NAMESPACE, reported_channels
from .driver_pods import pods_of

SECRET = Kind("v1", "Secret", "secrets")
DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
V1BETA1 = Kind("resource.nvidia.com/v1beta1", "ComputeDomain", "computedomains")
DOMAIN = {"metadata": {"name": "cd"}, "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "cd-channel"}}}}


def run(script: str, folder: Path) -> None:
    """The commands name paths of the checkout, and leave files where they run."""
    (folder / "deploy").symlink_to(CHECKOUT / "deploy")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def served(cluster: Cluster) -> bool:
    try:
        cluster.list(V1BETA1)
    except ApiError as error:
        assert error.status in (404, 500), error  # not served; not yet converted
        return False
    return True


THERE, BACK = re.findall(r"^```sh\n(.*?)^```$", (CHECKOUT / "docs" / "api-versions.md").read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def v1beta1(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the certificate."""
    folder = tmp_path_factory.mktemp("there")
    run(THERE, folder)
    wait_until(lambda: served(cluster), "v1beta1 served", 30)
    yield folder
    run(BACK, tmp_path_factory.mktemp("back"))
    wait_until(lambda: not served(cluster), "v1beta1 out of service", 30)
    wait_until(lambda: not pods_of(cluster, "webhook"), "the webhook gone", 60)


def is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def running(cluster: Cluster, pod: str, namespace: str) -> bool:
    return cluster.get(POD, pod, namespace)["status"]["phase"] == "Running"


def labelled(cluster: Cluster, kind: Kind, namespace: str, value: str) -> Object:
    return cluster.patch(kind, "cd", {"metadata": {"labels": {"edited": value}}}, namespace)


@pytest.mark.usefixtures("v1beta1")
def test_pods_of_a_v1beta1_object_run_and_both_versions_tell_of_them(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    uid = cluster.create(V1BETA1, DOMAIN, namespace)["metadata"]["uid"]
    for node in nodes[:2]:
        cluster.create(POD, pod_manifest(node, node, "cd-channel"), namespace)
    for node in nodes[:2]:
        wait_until(lambda node=node: running(cluster, node, namespace), f"the pod on {node} running", 90)
    former = wait_until(lambda: found if (found := cluster.get(V1BETA1, "cd", namespace)).get("status", {}).get("status") == "Ready" else None,
                        "status.status Ready", 90)
    assert {n["name"] for n in former["status"]["nodes"]} == set(nodes[:2]) == reported_channels(cluster, uid).keys()
    assert all(n["status"] == "Ready" and n["ipAddress"] and n["cliqueID"] for n in former["status"]["nodes"])
    stored = cluster.get(COMPUTE_DOMAIN, "cd", namespace)
    assert stored["spec"]["fabricPolicy"] == "Optional" and condition(stored, "Ready")["status"] == "True"
    after = labelled(cluster, V1BETA1, namespace, "by-former")
    assert after["spec"] == former["spec"]
    seen = cluster.get(COMPUTE_DOMAIN, "cd", namespace)
    assert (seen["spec"], seen["status"], seen["metadata"]["generation"]) == (stored["spec"], stored["status"], stored["metadata"]["generation"])


@pytest.mark.usefixtures("v1beta1")
def test_replicas_replaced_one_by_one_cost_no_request(cluster: Cluster, namespace: str) -> None:
    """A replica that is asked to end serves on until nobody asks it."""
    cluster.create(V1BETA1, DOMAIN, namespace)
    for victim in [pod["metadata"]["name"] for pod in pods_of(cluster, "webhook")]:
        cluster.delete(POD, victim, DRIVER_NAMESPACE)
        count = 0

        def gone_and_replaced(victim: str = victim) -> bool:
            nonlocal count
            count += 1
            labelled(cluster, V1BETA1, namespace, f"{os.getpid()}-{count}")  # raises if it fails
            pods = pods_of(cluster, "webhook")
            return len(pods) == 2 and all(p["metadata"]["name"] != victim and is_ready(p) for p in pods)

        wait_until(gone_and_replaced, f"{victim} gone and replaced", 90)


def trust(cluster: Cluster, *certificates: bytes) -> None:
    bundle = base64.b64encode(b"".join(certificates)).decode()
    cluster.patch(DEFINITION, "computedomains.resource.nvidia.com", {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}, "")


def test_another_certificate_costs_no_request(cluster: Cluster, namespace: str, v1beta1: Path, tmp_path: Path) -> None:
    cluster.create(V1BETA1, DOMAIN, namespace)
    (openssl,) = re.findall(r"^openssl (?:.*\\\n)*.*\n", THERE, re.MULTILINE)
    run(openssl, tmp_path)
    former, new = (v1beta1 / "tls.crt").read_bytes(), (tmp_path / "tls.crt").read_bytes()
    pair = {f"tls.{part}": base64.b64encode((tmp_path / f"tls.{part}").read_bytes()).decode() for part in ("crt", "key")}
    numbers = itertools.count()

    def read_again() -> bool:
        labelled(cluster, V1BETA1, namespace, str(next(numbers)))  # raises if it fails
        said = [cluster.logs(pod["metadata"]["name"], DRIVER_NAMESPACE) for pod in pods_of(cluster, "webhook")]
        return all(text.count("the serving certificate is read") == 2 for text in said)

    trust(cluster, former, new)
    labelled(cluster, V1BETA1, namespace, "both")
    cluster.patch(SECRET, "compute-domain-webhook-tls", {"data": pair}, DRIVER_NAMESPACE)
    wait_until(read_again, "both replicas with the new certificate", 180)
    trust(cluster, new)
    labelled(cluster, V1BETA1, namespace, "new")


@pytest.fixture
def scale(cluster: Cluster, v1beta1: Path) -> Iterator[Callable[[int], None]]:  # noqa: ARG001
    """Sets the number of webhooks, and waits for it; afterwards there are two again."""
    def change(replicas: int) -> None:
        cluster.patch(DEPLOYMENT, "compute-domain-webhook", {"spec": {"replicas": replicas}}, DRIVER_NAMESPACE)
        wait_until(lambda: len(pods_of(cluster, "webhook")) == replicas and all(is_ready(p) for p in pods_of(cluster, "webhook")),
                   f"{replicas} webhooks", 60)

    yield change
    change(2)


def test_pods_start_and_stop_without_the_webhook(
        cluster: Cluster, nodes: list[str], namespace: str, scale: Callable[[int], None]) -> None:
    uid = cluster.create(V1BETA1, DOMAIN, namespace)["metadata"]["uid"]
    wait_until(lambda: condition(cluster.get(COMPUTE_DOMAIN, "cd", namespace), "Accepted").get("status") == "True", "the domain accepted", 30)
    cluster.create(POD, pod_manifest("before", nodes[0], "cd-channel"), namespace)
    wait_until(lambda: running(cluster, "before", namespace), "the pod from before running", 60)
    scale(0)
    # A list may still be answered, from what the API server has in memory.
    with pytest.raises(ApiError, match="conversion webhook"):
        labelled(cluster, V1BETA1, namespace, "by-former")
    cluster.create(POD, pod_manifest("after", nodes[1], "cd-channel"), namespace)
    wait_until(lambda: running(cluster, "after", namespace), "a pod running that came without a webhook", 60)
    assert reported_channels(cluster, uid).keys() == set(nodes[:2])
    cluster.delete(POD, "before", namespace)
    wait_until(lambda: reported_channels(cluster, uid).keys() == {nodes[1]}, "the channel of the ended pod given up", 60)
    wait_until(lambda: [m["node"] for m in cluster.get(COMPUTE_DOMAIN, "cd", namespace)["status"]["members"]] == [nodes[1]],
               "the status as things are", 60)
    scale(2)
    assert [n["name"] for n in cluster.get(V1BETA1, "cd", namespace)["status"]["nodes"]] == [nodes[1]]
