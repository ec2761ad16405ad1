"""The configuration files of a node's programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from lab import network
from lab.images import PAUSE_IMAGE

CNI_FOLDER = "/run/lab/config/cni"
CNI_PROGRAMS = "/usr/lib/cni"
BASE_SPEC = "/run/lab/config/base-spec.json"


def write(
    folder: Path, programs: Path, *, name: str, index: int, cgroup: str, feature_gates: str
) -> None:
    """Writes the files of all programs of one node."""
    gates = parse_gates(feature_gates)
    template = subprocess.run([programs / "ctr", "oci", "spec"], capture_output=True, check=True)
    spec = base_spec(json.loads(template.stdout))
    (folder / "base-spec.json").write_text(json.dumps(spec, indent=1))
    (folder / "containerd.toml").write_text(containerd())
    (folder / "kubelet.json").write_text(json.dumps(kubelet(cgroup, gates), indent=1))
    (folder / "kube-proxy.json").write_text(json.dumps(kube_proxy(name, gates), indent=1))
    # No cluster DNS. The control plane's address refuses queries at once, where
    # an address that nobody has would make every look-up wait.
    (folder / "resolv.conf").write_text(f"nameserver {network.CONTROL_ADDRESS}\n")
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "10-lab.conflist").write_text(json.dumps(cni(index), indent=1))


def parse_gates(text: str) -> dict[str, bool]:
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {gate.strip(): value.strip().lower() == "true" for gate, _, value in pairs}


def base_spec(template: dict[str, Any]) -> dict[str, Any]:
    """The spec that every container starts from: the node's hardware is in it.

    The template limits open files to 1024, which no kubelet asked for.
    """
    template["process"].pop("rlimits", None)
    hardware = {"source": "/run/mnnvl", "destination": "/run/mnnvl", "type": "bind"}
    template["mounts"].append(hardware | {"options": ["rbind", "ro", "rprivate"]})
    return template


def containerd() -> str:
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = []

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd/opt"

[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  # A machine without CAP_SYS_RESOURCE may not lower an oom score.
  restrict_oom_score_adj = true

  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{CNI_PROGRAMS}"]
    conf_dir = "{CNI_FOLDER}"
    use_internal_loopback = true

  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{BASE_SPEC}"
"""


def kubelet(cgroup: str, gates: dict[str, bool]) -> dict[str, Any]:
    config = "/run/lab/config"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{config}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{config}/kubelet.crt",
        "tlsPrivateKeyFile": f"{config}/kubelet.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": f"{config}/resolv.conf",
        "clusterDNS": [network.CONTROL_ADDRESS],
        "clusterDomain": "cluster.local",
        "featureGates": gates,
        # All nodes share the machine's cgroups; each has a part of its own.
        "cgroupRoot": cgroup,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        # The machine's disk and memory are shared: no node may judge them.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 200,
    }


def kube_proxy(name: str, gates: dict[str, bool]) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": "/run/lab/config/kube-proxy.kubeconfig"},
        "hostnameOverride": name,
        "clusterCIDR": network.POD_NETWORK,
        "featureGates": gates,
        # These sysctls belong to the machine, not to the node.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "30s"},
    }


def cni(index: int) -> dict[str, Any]:
    """Each pod on a link of its own, routed by the node.

    With a bridge an answer between two pods of one node would bypass the node's
    address translation on machines whose bridges do not call iptables.
    """
    return {
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": network.pod_network(index)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
