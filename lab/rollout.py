"""How far a Deployment or DaemonSet is with what it was told last. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def is_observed(workload: Object) -> bool:
    """True when its counts are about what it asks for now, not about the version before."""
    return workload.get("status", {}).get("observedGeneration") == workload["metadata"]["generation"]


def missing(workload: Object, wanted: int | None = None) -> str:
    """What keeps it from having `wanted` pods, all new and ready; an empty text: nothing.

    Without `wanted` as many as it asks for, and at least one. A DaemonSet learns of changed nodes later than its generation tells.
    """
    status = workload.get("status", {})
    name = workload["metadata"]["name"]
    if not is_observed(workload):
        return f"{name}: its controller has not seen the newest version"
    if wanted is None:
        wanted = workload["spec"].get("replicas", status.get("desiredNumberScheduled", 0))
    updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", 0))
    ready = status.get("readyReplicas", status.get("numberReady", 0))
    old = max(0, status.get("replicas", 0) - updated)
    if wanted == updated == ready and wanted > 0 and old == 0:
        return ""
    return f"{name}: {updated} of {wanted} updated, {ready} ready" + (f", {old} old" if old else "")
