"""What hardware the lab's nodes have: the topology file and its checks.

A topology is YAML or JSON:

    driverVersion: 580.105.08     # optional, here and below: defaults for all nodes
    clusterUUID: 6ba7…            # the NVLink cluster; default: one of the lab's own
    cliqueID: 1
    state: completed              # completed | in_progress | not_started | not_supported
    gpus: 4                       # how many, or a list with one mapping a GPU
    channelCount: 2048
    nodes:
      - name: node-1              # each may say any of the keys above
      - name: node-2
        gpus: [{cliqueID: 1}, {cliqueID: 2}]
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError

DEFAULT_GPUS = 4
DEFAULT_DRIVER_VERSION = "580.105.08"
DEFAULT_CHANNEL_COUNT = 2048
STATES = ("completed", "in_progress", "not_started", "not_supported")

# GPU and cluster UUIDs are derived from names, so a lab made again has the same.
_NAMESPACE = uuid.UUID("8e3f7a52-6d0c-5a7e-9a44-0d1c5b7e2f10")
DEFAULT_CLUSTER_UUID = str(uuid.uuid5(_NAMESPACE, "cluster"))

_GPU_KEYS = {
    "uuid": str,
    "clusterUUID": str,
    "cliqueID": int,
    "state": str,
    "status": str,
    "healthMask": int,
    "healthSummary": int,
    "recoveryAction": int,
}
_NODE_KEYS = {
    "name": str,
    "gpus": (int, list),
    "clusterUUID": str,
    "cliqueID": int,
    "state": str,
    "driverVersion": str,
    "channelCount": int,
}
_FILE_KEYS = {key: kind for key, kind in _NODE_KEYS.items() if key != "name"} | {"nodes": list}
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")


@dataclass(frozen=True)
class Gpu:
    """One GPU and its place in the NVLink fabric, as NVML reports it."""

    uuid: str
    cluster_uuid: str
    clique_id: int
    state: str = "completed"
    status: str = "success"
    health_mask: int = 170
    health_summary: int = 1
    recovery_action: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "uuid": self.uuid,
            "clusterUuid": self.cluster_uuid,
            "cliqueId": self.clique_id,
            "state": self.state,
            "status": self.status,
            "healthMask": self.health_mask,
            "healthSummary": self.health_summary,
            "recoveryAction": self.recovery_action,
        }


@dataclass(frozen=True)
class NodeHardware:
    """A node's part of the topology; becomes its node.json."""

    name: str
    gpus: tuple[Gpu, ...]
    driver_version: str = DEFAULT_DRIVER_VERSION
    channel_count: int = DEFAULT_CHANNEL_COUNT

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.name,
            "driverVersion": self.driver_version,
            "channelCount": self.channel_count,
            "gpus": [gpu.to_json() for gpu in self.gpus],
        }


def default_node(name: str) -> NodeHardware:
    """A node of the default topology: four GPUs, all nodes in one clique."""
    return parse_node({"name": name}, {})


def load(source: str) -> list[NodeHardware]:
    """Reads a topology file; errors name file, field, value and remedy."""
    try:
        text = Path(source).read_text()
    except OSError as error:
        raise LabError(f"topology file {source}: {error.strerror}") from error
    try:
        return parse(_decode(text))
    except LabError as error:
        raise LabError(f"topology file {source}: {error.message}") from error


def _decode(text: str) -> Any:
    import yaml  # only here: a lab with the default topology needs no package

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LabError(f"is neither YAML nor JSON: {error}") from error


def parse(document: Any) -> list[NodeHardware]:
    """Checks a decoded topology and fills in its defaults."""
    _check_keys(document, _FILE_KEYS, "the file")
    entries = document.get("nodes", [])
    if not entries:
        raise LabError("`nodes` is missing or empty; name at least one node")
    nodes = [parse_node(entry, document) for entry in entries]
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"node {name!r} is named twice; each node needs a name of its own")
    uuids = [gpu.uuid for node in nodes for gpu in node.gpus]
    for gpu in uuids:
        if uuids.count(gpu) > 1:
            raise LabError(f"GPU uuid {gpu!r} is used twice; leave uuids out to have them made")
    return nodes


def parse_node(entry: Any, defaults: Mapping[str, Any]) -> NodeHardware:
    """One entry of `nodes`, with the file's top level as its defaults."""
    _check_keys(entry, _NODE_KEYS, "an entry of `nodes`")
    name = entry.get("name", "")
    if not _NODE_NAME.fullmatch(name):
        raise LabError(f"node name {name!r} is not a DNS label of at most 42 characters")
    merged = {key: value for key, value in defaults.items() if key != "nodes"} | dict(entry)
    gpus = merged.get("gpus", DEFAULT_GPUS)
    listed = [{} for _ in range(gpus)] if isinstance(gpus, int) else gpus
    inherited = ("clusterUUID", "cliqueID", "state")
    fabric: dict[str, Any] = {key: merged[key] for key in inherited if key in merged}
    return NodeHardware(
        name=name,
        gpus=tuple(_parse_gpu(name, index, fabric, gpu) for index, gpu in enumerate(listed)),
        driver_version=merged.get("driverVersion", DEFAULT_DRIVER_VERSION),
        channel_count=merged.get("channelCount", DEFAULT_CHANNEL_COUNT),
    )


def _parse_gpu(node: str, index: int, fabric: Mapping[str, Any], entry: Any) -> Gpu:
    where = f"GPU {index} of node {node!r}"
    _check_keys(entry, _GPU_KEYS, where)
    merged = {**fabric, **entry}
    state = merged.get("state", "completed")
    if state not in STATES:
        raise LabError(f"{where}: state {state!r} is unknown; use one of {', '.join(STATES)}")
    cluster = merged.get("clusterUUID", DEFAULT_CLUSTER_UUID)
    try:
        uuid.UUID(cluster)
    except ValueError:
        raise LabError(f"{where}: clusterUUID {cluster!r} is not a UUID") from None
    optional = {
        "status": "status",
        "healthMask": "health_mask",
        "healthSummary": "health_summary",
        "recoveryAction": "recovery_action",
    }
    return Gpu(
        uuid=merged.get("uuid", f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"),
        cluster_uuid=cluster,
        clique_id=merged.get("cliqueID", 1),
        state=state,
        **{field: merged[key] for key, field in optional.items() if key in merged},
    )


def _check_keys(value: Any, allowed: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, Mapping):
        raise LabError(f"{where} is not a mapping but {value!r}")
    for key, item in value.items():
        if key not in allowed:
            known = ", ".join(sorted(allowed))
            raise LabError(f"{where} has the unknown key {key!r}; known are {known}")
        if not isinstance(item, allowed[key]) or isinstance(item, bool):
            raise LabError(f"{where}: {key} has the value {item!r}, which is of the wrong type")
