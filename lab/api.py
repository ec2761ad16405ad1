"""The few requests the lab itself makes of its API server."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from lab.errors import LabError
from lab.namespaces import Namespaces
from lab.network import API_PORT, CONTROL_ADDRESS
from lab.pki import Pki

SECONDS = 10.0


class Api:
    """Speaks as the cluster's administrator, one connection a request."""

    def __init__(self, namespaces: Namespaces, pki: Pki):
        self._namespaces = namespaces
        self._tls = ssl.create_default_context(cafile=str(pki.authority))
        self._tls.load_cert_chain(pki.certificate("admin"), pki.key("admin"))

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of the answer; OSError where there is no server."""
        plain = self._namespaces.connect((CONTROL_ADDRESS, API_PORT), SECONDS)
        with self._tls.wrap_socket(plain, server_hostname=CONTROL_ADDRESS) as connected:
            connection = http.client.HTTPSConnection(CONTROL_ADDRESS, API_PORT)
            connection.sock = connected
            headers = {"User-Agent": "lab", "Content-Type": "application/json"}
            text = None if body is None else json.dumps(body)
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ready(self) -> bool:
        try:
            return self.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def nodes(self) -> dict[str, dict[str, Any]]:
        """All Node objects by name."""
        status, text = self.request("GET", "/api/v1/nodes")
        if status != 200:
            raise LabError(f"listing nodes: {status} {text.decode()}", component="kube-apiserver")
        return {item["metadata"]["name"]: item for item in json.loads(text)["items"]}

    def delete_node(self, name: str) -> None:
        status, text = self.request("DELETE", f"/api/v1/nodes/{name}")
        if status not in (200, 404):
            raise LabError(f"deleting it: {status} {text.decode()}", component=name)


def is_ready(node: dict[str, Any], boot_id: str) -> bool:
    """Whether this boot of the node is Ready and open for pods."""
    status = node.get("status", {})
    if status.get("nodeInfo", {}).get("bootID") != boot_id:
        return False
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints", [])}
    if taints & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}:
        return False
    conditions = status.get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
