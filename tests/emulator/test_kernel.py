"""Channel rules of one node: who may use a channel, and what a channel protects."""

import shutil
import signal

import pytest
from world import eventually

NOT_PERMITTED, NOT_SUPPORTED, STATE_IN_USE, NOT_FOUND, NOT_MAPPABLE, NO_KERNEL = 10, 11, 12, 15, 16, 21


@pytest.fixture
def node(world):
    return world.node()


def exported(node, *arguments, **where):
    """A running export and its handle."""
    program = node.start_mnnvl("export", *arguments, **where)
    return program, program.first_line()


def test_proc_files_name_majors_and_capability(node):
    devices = (node.directory / "proc/devices").read_text()
    characters = devices.split("Block devices:")[0].splitlines()
    assert f"{node.major} nvidia-caps-imex-channels" in characters
    assert f"{node.caps_major} nvidia-caps" in characters
    capability = (node.directory / "proc/driver/nvidia/capabilities/fabric-imex-mgmt").read_text()
    assert capability == "DeviceFileMinor: 3\nDeviceFileMode: 256\nDeviceFileModify: 0\n"


def test_channels_are_those_of_the_containers_dev(node):
    node.make_channel(5)
    node.make_channel(9)
    node.make_channel(11, major=node.major + 100)  # some other driver's device
    assert node.mnnvl("channels").stdout.split() == ["5", "9"]


def test_without_a_channel_nothing_is_permitted(node):
    result = node.mnnvl("export")
    assert result.returncode == NOT_PERMITTED
    assert "CUDA_ERROR_NOT_PERMITTED" in result.stderr and "NV_ERR_INSUFFICIENT_PERMISSIONS" in result.stderr
    assert node.mnnvl("import", "65535:1").returncode == NOT_PERMITTED


def test_same_channel_imports_on_the_node_without_any_daemon(node):
    node.make_channel(5)
    _, handle = exported(node, "--text", "from the exporter")
    result = node.mnnvl("import", handle)
    assert (result.returncode, result.stdout) == (0, "from the exporter\n")


def test_another_channel_is_refused_though_the_handle_is_known(node):
    node.make_channel(5)
    node.make_channel(6)
    _, handle = exported(node, "--channel", "5")
    assert node.mnnvl("import", handle, "--channel", "6").returncode == NOT_PERMITTED


def test_a_channel_the_container_lacks_cannot_be_claimed(node):
    node.make_channel(5)
    assert node.mnnvl("export", "--channel", "6").returncode == NOT_PERMITTED


def test_channel_beyond_the_count_is_refused(node):
    node.make_channel(2048)
    assert node.mnnvl("export", "--channel", "2048").returncode == NOT_PERMITTED


def test_device_made_by_the_container_itself_is_refused_by_its_cgroup(world, node, device_cgroups):
    cgroup = world.device_cgroup(f"c {node.major}:5 rw")
    node.make_channel(5)
    assert node.run(["mknod", "/dev/nvidia-caps-imex-channels/channel6", "c", node.major, 6], cgroup=cgroup).returncode == 0
    assert node.mnnvl("channels", cgroup=cgroup).stdout.split() == ["5"]
    assert node.mnnvl("export", "--channel", "6", cgroup=cgroup).returncode == NOT_PERMITTED
    # The same device in a container whose cgroup grants it.
    other = world.device_cgroup(f"c {node.major}:6 rw")
    assert node.mnnvl("channels", cgroup=other).stdout.split() == ["6"]


def test_granted_by_cgroup_but_not_in_dev_is_refused(world, node, device_cgroups):
    cgroup = world.device_cgroup(f"c {node.major}:* rw")
    node.make_channel(5)
    assert node.mnnvl("export", "--channel", "6", cgroup=cgroup).returncode == NOT_PERMITTED


def test_judging_a_container_does_not_disturb_it(world, node, device_cgroups):
    cgroup = world.device_cgroup(f"c {node.major}:5 rw")
    node.make_channel(5)
    program, _ = exported(node, cgroup=cgroup)
    assert (cgroup / "cgroup.procs").read_text().split() == [str(program.pid)]
    assert list(node.directory.glob(".probe*")) == []


def test_file_mode_keeps_other_users_out(node):
    node.make_channel(5, mode=0o600)
    # A copy: the way to the build folder may be closed to others.
    client = shutil.copy(node.world.bin / "mnnvl", node.directory)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", client, "channels"]
    assert node.run(as_nobody, check=True).stdout == ""
    node.make_channel(6, mode=0o666)
    assert node.run(as_nobody, check=True).stdout.split() == ["6"]


def test_a_symbolic_link_out_of_the_container_is_not_followed(world):
    outside, inside = world.node(), world.node(kernel=False)
    outside.make_channel(5)
    # What the link names exists where the kernel model runs, but not in the container.
    inside.run(["rmdir", "/dev/nvidia-caps-imex-channels"], check=True)
    inside.run(["ln", "-s", f"/proc/{outside.kernel.pid}/root/dev/nvidia-caps-imex-channels",
                "/dev/nvidia-caps-imex-channels"], check=True)
    program = inside.start([world.bin / "mnnvl", "channels"], "link", env={"MNNVL_DIR": str(outside.directory)})
    assert (program.wait(), program.out()) == (0, "")


def test_subscription_outlives_the_device_node(node):
    node.make_channel(5)
    program, handle = exported(node, "--text", "still here")
    node.root("/dev/nvidia-caps-imex-channels/channel5").unlink()
    assert node.mnnvl("import", handle).returncode == NOT_PERMITTED
    node.make_channel(5)
    assert node.mnnvl("import", handle).stdout == "still here\n"
    assert program.process.poll() is None


def test_memory_is_gone_with_its_exporter(node):
    node.make_channel(5)
    node_export, handle = exported(node)
    assert node_export.stop() == 0
    # A handle made without a session is meaningless to any other kernel, and this one no longer knows it.
    assert node.mnnvl("import", handle).returncode == NOT_SUPPORTED


def test_memory_outlives_its_exporter_while_imported(node):
    node.make_channel(5)
    program, handle = exported(node, "--text", "kept")
    holder = node.start_mnnvl("import", handle, "--hold")
    assert holder.first_line() == "kept"
    program.stop()
    assert node.mnnvl("import", handle).stdout == "kept\n"
    assert holder.stop() == 0
    eventually(lambda: node.mnnvl("import", handle).returncode == NOT_SUPPORTED)


def test_different_cliques_of_one_node_cannot_map(node):
    gpu = {"clusterUuid": "6a130f54-1c66-4f20-9a5b-0d2f0f6f7a11", "state": "completed"}
    node.write(gpus=[{**gpu, "uuid": "GPU-a", "cliqueId": 1}, {**gpu, "uuid": "GPU-b", "cliqueId": 2}])
    node.make_channel(5)
    _, handle = exported(node, "--gpu", "0")
    assert node.mnnvl("import", handle, "--gpu", "0").returncode == 0
    assert node.mnnvl("import", handle, "--gpu", "1").returncode == NOT_MAPPABLE


def test_gpu_without_fabric_cannot_export(node):
    node.make_channel(5)
    node.write(gpu={"state": "in_progress"})
    assert node.mnnvl("export").returncode == NOT_SUPPORTED
    node.write(gpu={"state": "completed"})
    assert exported(node)[1] == "65535:1"


def test_channel_feature_off(world):
    node = world.node(kernel=False)
    node.write(channelCount=0)
    node.start_kernel()
    node.make_channel(0)
    assert "imex-channels" not in (node.directory / "proc/devices").read_text()
    assert node.mnnvl("export").returncode == NOT_SUPPORTED


def test_client_reports_a_stopped_kernel(node):
    node.make_channel(5)
    program, _ = exported(node)
    node.kernel.signal(signal.SIGKILL)
    assert program.wait() == NO_KERNEL
    assert node.mnnvl("channels").returncode == NO_KERNEL


def test_kernel_refuses_to_start_without_its_node(world):
    node = world.node(kernel=False)
    (node.directory / "node.json").unlink()
    result = node.run([world.bin / "mnnvl-kernel", "--dir", node.directory, "--major", 3000, "--caps-major", 3001])
    assert result.returncode == 1 and "node.json" in result.stderr
