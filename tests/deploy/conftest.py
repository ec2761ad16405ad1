"""Fixtures of the chart's tests: helm, and a real API server with the CRDs or the whole chart in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.client import wait_until
from lab.programs import programs as lab_programs
from tests.deploy import apiserver
from tests.deploy.apiserver import ApiServer, Identity, Object
from tests.deploy.helm import CHART, CRDS, NAMESPACE, Helm


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with helm and Kubernetes' programs: CD_KUBE_BIN, else the lab's, built now if need be."""
    return Path(os.environ["CD_KUBE_BIN"]) if "CD_KUBE_BIN" in os.environ else lab_programs()


@pytest.fixture(scope="session")
def helm(programs: Path) -> Helm:
    return Helm(programs / "helm")


@pytest.fixture(scope="session")
def bare_api(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with apiserver.running(programs, tmp_path_factory.mktemp("api")) as api:
        yield api


@pytest.fixture(scope="session")
def api(bare_api: ApiServer, programs: Path) -> ApiServer:
    """The API server with the CRDs, applied as docs/install.md says and before helm ran."""
    for _ in range(2):  # applying again changes nothing
        done = subprocess.run([programs / "kubectl", f"--kubeconfig={bare_api.kubeconfig}", "apply", "--server-side", "-f", CRDS],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for path in sorted(CRDS.glob("*.yaml")):
        name = yaml.safe_load(path.read_text())["metadata"]["name"]
        wait_until(lambda name=name: _established(bare_api, name), f"CRD {name} established")
    return bare_api


def _established(api: ApiServer, name: str) -> bool:
    conditions = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}").body.get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@pytest.fixture(scope="session")
def installed(api: ApiServer, helm: Helm) -> ApiServer:
    """The API server with the chart installed, and its admission policies in force."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    assert api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}}).ok
    done = helm.run("upgrade", "--install", "computedomain-driver", CHART, "--namespace", NAMESPACE, kubeconfig=api.kubeconfig)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: _policies_in_force(api), "admission policies in force")
    return api


def _policies_in_force(api: ApiServer) -> bool:
    """A write each policy must refuse is refused by it; a policy reaches the API server's admission some time after its creation."""
    plugin = Identity.service_account(NAMESPACE, "compute-domain-kubelet-plugin", "probe")
    controller = Identity.service_account(NAMESPACE, "compute-domain-controller")
    seen = (
        api.create(IMEX_NODES + DRY_RUN, {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode", "metadata": {"name": "other"}}, plugin),
        api.create(SLICES + DRY_RUN, slice_of("other"), plugin),
        api.patch(f"/api/v1/nodes/{_probe(api, '/api/v1/nodes', {'metadata': {'name': 'policy-probe'}})}{DRY_RUN}",
                  {"metadata": {"labels": {"x": "y"}}}, plugin),
        api.patch(f"/api/v1/namespaces/default/pods/{_probe(api, '/api/v1/namespaces/default/pods', pod('policy-probe'))}{DRY_RUN}",
                  {"metadata": {"labels": {"x": "y"}}}, controller),
    )
    return all("ValidatingAdmissionPolicy" in answer.message for answer in seen)


def _probe(api: ApiServer, path: str, body: Object) -> str:
    """An object to try a forbidden write on; may exist already."""
    assert api.create(path, body).status in (201, 409)
    return body["metadata"]["name"]


IMEX_NODES = "/apis/resource.nvidia.com/v1alpha1/imexnodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRY_RUN = "?dryRun=All"


def slice_of(node: str, driver: str = "compute-domain.nvidia.com", name: str = "") -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name or f"{node}-slice"},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": []},
    }


def pod(name: str) -> Object:
    return {"metadata": {"name": name, "annotations": {"theirs": "kept"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
