"""A small client for the lab's API server: plain dictionaries in and out, on the official client's transport and credentials.

Runs inside the control plane's network namespace with KUBECONFIG set, as `lab exec` arranges.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubernetes import client as official
from kubernetes import config as official_config

Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Where a kind is served."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = "/api" if "/" not in self.api_version else "/apis"
        parts = [root, self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/".join(part for part in parts if part)


COMPUTE_DOMAIN = Kind("resource.nvidia.com/v1beta2", "ComputeDomain", "computedomains")
IMEX_DOMAIN = Kind("resource.nvidia.com/v1alpha1", "IMEXDomain", "imexdomains", namespaced=False)
IMEX_NODE = Kind("resource.nvidia.com/v1alpha1", "IMEXNode", "imexnodes", namespaced=False)
CLAIM = Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
CLAIM_TEMPLATE = Kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
SLICE = Kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_CLASS = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
POLICY = Kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
POLICY_BINDING = Kind(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False)
NODE = Kind("v1", "Node", "nodes", namespaced=False)
QUOTA = Kind("v1", "ResourceQuota", "resourcequotas")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("v1", "Event", "events")
DAEMON_SET = Kind("apps/v1", "DaemonSet", "daemonsets")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")


class ApiError(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Cluster:
    """One connection pool to one API server. Not thread-safe; make one per thread."""

    def __init__(self, user_agent: str = "lab-client") -> None:
        official_config.load_kube_config()
        self._api = official.ApiClient()
        self._api.user_agent = user_agent

    def _call(self, method: str, path: str, body: Any = None, query: Object | None = None, content_type: str | None = None) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        try:
            response = self._api.call_api(
                path, method, query_params=list((query or {}).items()), header_params=headers, body=body,
                auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True)
        except official.ApiException as error:
            raise ApiError(error.status or 0, _status_message(error)) from error
        text = response.data
        return json.loads(text) if text and "json" in response.headers.get("Content-Type", "") else text.decode()

    def get(self, kind: Kind, name: str, namespace: str = "default") -> Object:
        return self._call("GET", kind.path(namespace, name))

    def find(self, kind: Kind, name: str, namespace: str = "default") -> Object | None:
        """The object, or None when it does not exist."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "", **query: str) -> list[Object]:
        return self._call("GET", kind.path(namespace), query=query)["items"]

    def snapshot(self, kind: Kind, namespace: str = "", **query: str) -> tuple[list[Object], str]:
        """All objects, and the version they are of: a watch from there tells everything that happened since."""
        found = self._call("GET", kind.path(namespace), query=query)
        return found["items"], found["metadata"]["resourceVersion"]

    def create(self, kind: Kind, body: Object, namespace: str = "default") -> Object:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        return self._call("POST", kind.path(namespace), body)

    def patch(self, kind: Kind, name: str, patch: Object, namespace: str = "default", subresource: str = "") -> Object:
        return self._call("PATCH", kind.path(namespace, name, subresource), patch, content_type="application/merge-patch+json")

    def replace(self, kind: Kind, body: Object, namespace: str = "default") -> Object:
        return self._call("PUT", kind.path(namespace, body["metadata"]["name"]), body)

    def delete(self, kind: Kind, name: str, namespace: str = "default", grace: int | None = None) -> None:
        """Deletes; an object that is gone already is fine."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            self._call("DELETE", kind.path(namespace, name), options)
        except ApiError as error:
            if error.status != 404:
                raise

    def logs(self, pod: str, namespace: str = "default", **query: str) -> str:
        return self._call("GET", POD.path(namespace, pod, "log"), query=query)

    def watch(self, kind: Kind, namespace: str = "", **query: str) -> Iterator[tuple[str, Object]]:
        """Yields (type, object) until the server ends the stream."""
        query = {"watch": "1", **query}
        response = self._api.call_api(
            kind.path(namespace), "GET", query_params=list(query.items()), header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True)
        pending = b""
        for chunk in response.stream(amt=None, decode_content=False):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line:
                    event = json.loads(line)
                    yield event["type"], event["object"]


def _status_message(error: official.ApiException) -> str:
    body = error.body.decode() if isinstance(error.body, bytes) else (error.body or str(error.reason))
    try:
        return json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        return body


def run_in_pod(pod: str, *command: str, namespace: str = "default", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """`kubectl exec`: the command's exit code and output, whatever they are."""
    return subprocess.run(
        ["kubectl", "exec", "--namespace", namespace, pod, "--", *command],
        capture_output=True, text=True, timeout=timeout, check=False)


def wait_until(condition: Callable[[], Any], what: str, timeout: float = 60, step: float = 0.1) -> Any:
    """The first true result of `condition`; after `timeout` seconds an AssertionError that says what was awaited and last seen."""
    deadline = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what} (last seen: {seen!r})")
        time.sleep(step)


def pod_manifest(name: str, node: str = "", template: str = "", command: list[str] | None = None, labels: Object | None = None,
                 image: str = "localhost/busybox:lab", **spec: Any) -> Object:
    """A pod with one container, which holds one channel claim of `template` if one is given."""
    container: Object = {
        "name": "main", "image": image, "imagePullPolicy": "Never",
        "command": command or ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"],
    }
    body: Object = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **spec}
    if node:
        body["nodeSelector"] = {"kubernetes.io/hostname": node}
    if template:
        container["resources"] = {"claims": [{"name": "channel"}]}
        body["resourceClaims"] = [{"name": "channel", "resourceClaimTemplateName": template}]
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": body}


def compute_domain_manifest(name: str, template: str = "", **spec: Any) -> Object:
    channel = {"resourceClaimTemplate": {"name": template or f"{name}-channel"}}
    return {"metadata": {"name": name}, "spec": {"channel": channel, **spec}}


def condition(obj: Object, kind: str) -> Object:
    """The condition of that type, or an empty one."""
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})
