"""Topology files: what they may say, what is filled in, how errors read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import topology
from lab.errors import LabError


def parse(**document: Any) -> list[topology.NodeHardware]:
    return topology.parse(document)


def test_default_node_has_four_gpus_in_one_healthy_clique() -> None:
    node = topology.default_node("node-1")
    assert len(node.gpus) == 4
    assert {(gpu.cluster_uuid, gpu.clique_id, gpu.state) for gpu in node.gpus} == {
        (topology.DEFAULT_CLUSTER_UUID, 1, "completed")
    }


def test_default_nodes_share_the_clique_and_no_gpu() -> None:
    one, two = topology.default_node("node-1"), topology.default_node("node-2")
    assert one.gpus[0].cluster_uuid == two.gpus[0].cluster_uuid
    assert not {gpu.uuid for gpu in one.gpus} & {gpu.uuid for gpu in two.gpus}


def test_node_overrides_file_and_gpu_overrides_node() -> None:
    one, two = parse(
        cliqueID=7,
        driverVersion="590.1",
        nodes=[{"name": "one"}, {"name": "two", "cliqueID": 8, "gpus": [{}, {"cliqueID": 9}]}],
    )
    assert [gpu.clique_id for gpu in one.gpus] == [7, 7, 7, 7]
    assert [gpu.clique_id for gpu in two.gpus] == [8, 9]
    assert one.driver_version == two.driver_version == "590.1"


def test_node_without_gpus() -> None:
    (node,) = parse(nodes=[{"name": "plain", "gpus": 0}])
    assert node.to_json()["gpus"] == []


def test_node_json_has_the_emulators_keys() -> None:
    (node,) = parse(nodes=[{"name": "one", "gpus": 1, "state": "not_supported"}])
    content = node.to_json()
    assert set(content) == {"node", "driverVersion", "channelCount", "gpus"}
    assert content["gpus"][0] == {
        "uuid": node.gpus[0].uuid,
        "clusterUuid": topology.DEFAULT_CLUSTER_UUID,
        "cliqueId": 1,
        "state": "not_supported",
        "status": "success",
        "healthMask": 170,
        "healthSummary": 1,
        "recoveryAction": 0,
    }


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "`nodes` is missing"),
        ([], "not a mapping"),
        ({"nodes": [{"name": "a"}], "clique": 1}, "unknown key 'clique'"),
        ({"nodes": [{"name": "Node_1"}]}, "'Node_1' is not a DNS label"),
        ({"nodes": [{}]}, "'' is not a DNS label"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "'a' is named twice"),
        ({"nodes": [{"name": "a", "gpus": "4"}]}, "gpus has the value '4'"),
        ({"nodes": [{"name": "a", "cliqueID": True}]}, "cliqueID has the value True"),
        ({"nodes": [{"name": "a", "state": "done"}]}, "state 'done' is unknown; use one of"),
        ({"nodes": [{"name": "a", "clusterUUID": "x"}]}, "clusterUUID 'x' is not a UUID"),
        ({"nodes": [{"name": "a", "gpus": [{"uuid": "G"}, {"uuid": "G"}]}]}, "'G' is used twice"),
    ],
)
def test_bad_topology_is_refused_naming_what_is_wrong(document: Any, says: str) -> None:
    with pytest.raises(LabError) as caught:
        topology.parse(document)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text", ["nodes: [{name: a, gpus: 2}]", '{"nodes":[{"name":"a","gpus":2}]}']
)
def test_file_may_be_yaml_or_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "topology"
    path.write_text(text)
    (node,) = topology.load(str(path))
    assert len(node.gpus) == 2


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    with pytest.raises(LabError, match=f"{path}: No such file"):
        topology.load(str(path))
    path.write_text(json.dumps({"nodes": []}))
    with pytest.raises(LabError, match=f"{path}: `nodes` is missing or empty"):
        topology.load(str(path))
