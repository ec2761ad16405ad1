"""libnvidia-ml.so.1 as the real Python binding (nvidia-ml-py) sees it.

The library is loaded by its bare name, as the binding does, so each case runs in a process of its own with
LD_LIBRARY_PATH set; the case's code prints JSON.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest

CLUSTER = "6a130f54-1c66-4f20-9a5b-0d2f0f6f7a11"


def gpu(index: int = 0, **changes) -> dict:
    return {
        "uuid": f"GPU-00000000-0000-4000-8000-{index:012x}",
        "clusterUuid": CLUSTER,
        "cliqueId": 7,
        "state": "completed",
        "status": "success",
        "healthMask": 0xAA,
        "healthSummary": 1,
        "recoveryAction": 0,
        **changes,
    }


@pytest.fixture
def node(tmp_path, emulator_dir):
    """A node directory; `run` executes code with pynvml imported as n and `write` to replace node.json."""

    class Node:
        path = tmp_path

        def write(self, *gpus: dict, **changes) -> None:
            state = {"node": "n1", "driverVersion": "580.105.08", "channelCount": 2048, "gpus": list(gpus), **changes}
            (tmp_path / "node.json").write_text(json.dumps(state))

        def run(self, code: str):
            prelude = "import json, os, pynvml as n\nout = lambda v: print(json.dumps(v))\n"
            result = subprocess.run(
                [sys.executable, "-c", prelude + textwrap.dedent(code)],
                env={**os.environ, "LD_LIBRARY_PATH": str(emulator_dir), "MNNVL_DIR": str(tmp_path)},
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert result.returncode == 0, result.stderr
            return json.loads(result.stdout)

    return Node()


FABRIC = """
    n.nvmlInit()
    def fabric(index, version=3):
        info = n.c_nvmlGpuFabricInfo_v3_t() if version == 3 else n.c_nvmlGpuFabricInfo_v2_t()
        n.nvmlDeviceGetGpuFabricInfoV(n.nvmlDeviceGetHandleByIndex(index), n.byref(info))
        return dict(cluster=bytes(info.clusterUuid).hex(), status=info.status, clique=info.cliqueId,
                    state=info.state & 0xff, mask=info.healthMask, summary=getattr(info, "healthSummary", None))
"""


def test_driver_version_count_and_uuid(node):
    node.write(gpu(0), gpu(1))
    assert node.run("""
        n.nvmlInit()
        out([n.nvmlSystemGetDriverVersion(), n.nvmlDeviceGetCount(),
             n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(1))])
    """) == ["580.105.08", 2, gpu(1)["uuid"]]


def test_fabric_info_v3_of_a_healthy_gpu(node):
    node.write(gpu())
    assert node.run(FABRIC + "    out(fabric(0))") == {
        "cluster": CLUSTER.replace("-", ""), "status": 0, "clique": 7, "state": 3, "mask": 0xAA, "summary": 1}


def test_fabric_info_v2_has_no_summary(node):
    node.write(gpu())
    got = node.run(FABRIC + "    out(fabric(0, 2))")
    assert got["mask"] == 0xAA and got["summary"] is None


def test_deprecated_fabric_info_without_version(node):
    node.write(gpu())
    assert node.run("""
        n.nvmlInit()
        info = n.c_nvmlGpuFabricInfo_t()
        n.nvmlDeviceGetGpuFabricInfo(n.nvmlDeviceGetHandleByIndex(0), n.byref(info))
        out([bytes(info.clusterUuid).hex(), info.cliqueId, info.state & 0xff])
    """) == [CLUSTER.replace("-", ""), 7, 3]


def test_gpus_of_one_node_may_be_in_different_cliques(node):
    node.write(gpu(0, cliqueId=1), gpu(1, cliqueId=2))
    assert node.run(FABRIC + "    out([fabric(0)['clique'], fabric(1)['clique']])") == [1, 2]


def test_forming_fabric_reports_neither_cluster_nor_clique(node):
    node.write(gpu(state="in_progress"))
    got = node.run(FABRIC + "    out(fabric(0))")
    assert (got["state"], got["cluster"], got["clique"]) == (2, "0" * 32, 0)


def test_degraded_gpu_is_completed_with_status_not_supported(node):
    node.write(gpu(status="not_supported", healthSummary=2))
    got = node.run(FABRIC + "    out(fabric(0))")
    assert (got["state"], got["status"], got["summary"]) == (3, 3, 2)


def test_a_change_of_the_node_shows_without_reinitialising(node):
    node.write(gpu(state="in_progress"))
    after = json.dumps({"driverVersion": "580.105.08", "gpus": [gpu(cliqueId=9)]})
    assert node.run(FABRIC + f"""
    before = fabric(0)["state"]
    open(os.environ["MNNVL_DIR"] + "/node.json", "w").write({after!r})
    out([before, fabric(0)["state"], fabric(0)["clique"]])
    """) == [2, 3, 9]


def expect_error(body: str) -> str:
    return f"""
        n.nvmlInit()
        try:
            {body}
            out("no error")
        except n.NVMLError as e:
            out([e.value, str(e)])
    """


def test_wrong_structure_version_is_refused(node):
    node.write(gpu())
    assert node.run(expect_error(
        "info = n.c_nvmlGpuFabricInfo_v3_t(); info.version = 0x09000028; "
        "n.nvmlDeviceGetGpuFabricInfoV(n.nvmlDeviceGetHandleByIndex(0), n.byref(info))"))[0] == 25


def test_gpu_without_fabric_query_answers_not_supported(node):
    node.write(gpu(fabricQuerySupported=False))
    assert node.run(expect_error(
        "info = n.c_nvmlGpuFabricInfo_v3_t(); "
        "n.nvmlDeviceGetGpuFabricInfoV(n.nvmlDeviceGetHandleByIndex(0), n.byref(info))"))[0] == 3


def test_index_out_of_range_is_invalid_argument(node):
    node.write(gpu())
    assert node.run(expect_error("n.nvmlDeviceGetHandleByIndex(5)")) == [2, "Invalid Argument"]


def test_calls_before_init_are_refused(node):
    node.write(gpu())
    code = expect_error("n.nvmlShutdown(); n.nvmlDeviceGetCount()")
    assert node.run(code)[0] == 1


def test_init_without_a_node_means_no_driver(node):
    assert node.run("""
        try:
            n.nvmlInit(); out("no error")
        except n.NVMLError as e:
            out(e.value)
    """) == 9


@pytest.mark.parametrize("from_node,from_kernel,expected", [(0, None, 0), (0, 5, 5), (2, 5, 2)])
def test_recovery_action_is_field_230(node, from_node, from_kernel, expected):
    node.write(gpu(recoveryAction=from_node))
    if from_kernel is not None:
        (node.path / "recovery_action").write_text(str(from_kernel))
    assert node.run("""
        n.nvmlInit()
        recovery, other = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [230, 1])
        out([recovery.nvmlReturn, recovery.value.uiVal, other.nvmlReturn])
    """) == [0, expected, 3]


def test_platform_info(node):
    node.write(gpu(chassisSerial="1820325191113", slotNumber=4, trayIndex=3, hostId=1, moduleId=2))
    assert node.run("""
        n.nvmlInit()
        info = n.c_nvmlPlatformInfo_v2_t()
        n.nvmlDeviceGetPlatformInfo(n.nvmlDeviceGetHandleByIndex(0), n.byref(info))
        out([info.chassisSerialNumber, ord(info.slotNumber), ord(info.trayIndex)])
    """) == ["1820325191113", 4, 3]
