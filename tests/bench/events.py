"""Audit events as an API server writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

DRIVER = "computedomain-system"
CONTROLLER = f"system:serviceaccount:{DRIVER}:compute-domain-controller"
PLUGIN = f"system:serviceaccount:{DRIVER}:compute-domain-kubelet-plugin"
GROUPS = {
    "imexdomains": "resource.nvidia.com", "imexnodes": "resource.nvidia.com", "computedomains": "resource.nvidia.com",
    "resourceclaims": "resource.k8s.io", "resourceclaimtemplates": "resource.k8s.io", "resourceslices": "resource.k8s.io",
    "leases": "coordination.k8s.io", "events": "events.k8s.io",
}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event(user: str, verb: str, resource: str, *, code: int = 200, received: float = 0.0, took: float = 0.0, subresource: str = "",
          name: str = "", node: str = "", stage: str = "ResponseComplete", query: str = "", audit_id: str = "") -> str:
    """One line of an audit log."""
    target = {"resource": resource, "apiGroup": GROUPS.get(resource, ""), "subresource": subresource, "name": name}
    content: dict[str, Any] = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": audit_id, "stage": stage, "verb": verb,
        "requestURI": f"/apis/x/{resource}?{query}",
        "user": {"username": user, "extra": {"authentication.kubernetes.io/node-name": [node]} if node else {}},
        "objectRef": {key: value for key, value in target.items() if value},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": at(received), "stageTimestamp": at(received + took),
    }
    return json.dumps(content)
