"""ComputeDomains, and what the driver says about them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from bench.observed import Observed
from lab.client import CLAIM_TEMPLATE, COMPUTE_DOMAIN, IMEX_DOMAIN, IMEX_NODE, Cluster, Object, compute_domain_manifest, condition


def template_of(domain: str) -> str:
    return f"{domain}-channel"


def _assignment(node: Object) -> dict[str, str]:
    found: dict[str, str] = node.get("spec", {}).get("domain", {})
    return found


def fully_connected(nodes: Iterable[Object]) -> bool:
    """Whether each of the IMEXNodes reports a connection with each other one."""
    daemons = [(node.get("spec", {}).get("domain", {}).get("index"), node.get("status", {}).get("daemon", {})) for node in nodes]
    indexes = {index for index, _ in daemons}
    if None in indexes:
        return False
    return all(daemon.get("state") == "Ready" and indexes - {index} <= set(daemon.get("connected", [])) for index, daemon in daemons)


class Domains:
    """ComputeDomains in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._seen = Observed(COMPUTE_DOMAIN, namespace)
        self._templates = Observed(CLAIM_TEMPLATE, namespace)
        self._imex_domains = Observed(IMEX_DOMAIN)
        self._imex_nodes = Observed(IMEX_NODE)

    def create(self, name: str, **spec: Any) -> int:
        """Wall clock in ns just before the request."""
        began_ns = time.time_ns()
        self._cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(name, template_of(name), **spec), self._namespace)
        return began_ns

    def wait_accepted(self, name: str) -> int:
        """When the ComputeDomain was accepted and its claim template was there."""
        accepted = self._seen.wait(
            lambda seen: condition(seen.get(name, {}), "Accepted").get("status") == "True", f"ComputeDomain {name} Accepted")
        return max(accepted, self._templates.wait(lambda seen: template_of(name) in seen, f"claim template {template_of(name)}"))

    def wait_ready(self, name: str, nodes: list[str]) -> int:
        """When the ComputeDomain was Ready on that many nodes, with all pairs of them connected."""

        def ready(seen: Mapping[str, Object]) -> bool:
            domain = seen.get(name, {})
            summary = domain.get("status", {}).get("nodeSummary", {})
            return condition(domain, "Ready").get("status") == "True" and summary.get("ready") == summary.get("total") == len(nodes)

        was_ready = self._seen.wait(ready, f"ComputeDomain {name} Ready on {len(nodes)} nodes")
        connected = self._imex_nodes.wait(
            lambda seen: all(node in seen for node in nodes) and fully_connected(seen[node] for node in nodes), "all pairs of nodes connected")
        # A fabric that was connected all the time changed last when some node announced the channel: no later than Ready says so.
        return max(was_ready, connected)

    def assigned(self, node: str) -> str:
        """Name of the IMEX domain the node is told to be in."""
        return _assignment(self._cluster.get(IMEX_NODE, node, "")).get("name", "")

    def wait_moved(self, node: str, before: str) -> tuple[int, int]:
        """When the node was taken out of the IMEX domain `before`, and when its daemon was READY in another one."""

        def ready(seen: Mapping[str, Object]) -> bool:
            assignment, daemon = _assignment(seen[node]), seen[node]["status"]["daemon"]
            return assignment.get("name", before) != before and daemon["state"] == "Ready" and daemon["domainUID"] == assignment["uid"]

        out = self._imex_nodes.wait(lambda seen: _assignment(seen[node]).get("name") != before, f"{node} out of {before}")
        return out, self._imex_nodes.wait(ready, f"the daemon of {node} READY in another IMEX domain")

    def wait_connected_in(self, uid: str, nodes: list[str]) -> int:
        """When all of these nodes were in exclusive IMEX domains of the ComputeDomain with that UID, connected with each other."""

        def connected(seen: Mapping[str, Object]) -> bool:
            found = [seen[node] for node in nodes]
            inside = all(_assignment(node).get("name", "").startswith(f"{uid}.") for node in found)
            serving = all(node["status"]["daemon"].get("domainUID") == _assignment(node).get("uid") for node in found)
            return inside and serving and fully_connected(found)

        return self._imex_nodes.wait(connected, f"the nodes of {uid} connected in its IMEX domain")

    def wait_at_rest(self, nodes: list[str]) -> None:
        """The driver ready for pods on every node."""
        self._imex_nodes.wait(
            lambda seen: all(node in seen for node in nodes) and fully_connected(seen[node] for node in nodes),
            "the daemons of all nodes Ready and connected with each other")

    def remove(self, name: str) -> float:
        """Deletes the ComputeDomain; seconds until it is gone and its channel free again."""
        uid = self.uid(name)
        began_ns = time.time_ns()
        self.delete(name)
        return (self.wait_freed(name, uid) - began_ns) / 1e9

    def delete(self, name: str) -> None:
        self._cluster.delete(COMPUTE_DOMAIN, name, self._namespace)

    def uid(self, name: str) -> str:
        return str(self._cluster.get(COMPUTE_DOMAIN, name, self._namespace)["metadata"]["uid"])

    def wait_freed(self, name: str, uid: str) -> int:
        """When the ComputeDomain was gone and no IMEX domain had a lease of it."""

        def no_lease(seen: Mapping[str, Object]) -> bool:
            leases = [lease for domain in seen.values() for lease in domain["spec"].get("channels", [])]
            return all(lease["computeDomain"]["uid"] != uid for lease in leases)

        gone = self._seen.wait(lambda seen: name not in seen, f"ComputeDomain {name} gone")
        return max(gone, self._imex_domains.wait(no_lease, f"the lease of ComputeDomain {name} freed"))
