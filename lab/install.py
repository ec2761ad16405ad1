"""Installs the project's driver in the lab, as an administrator would."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from lab import fleet, images
from lab.cluster import Cluster
from lab.errors import LabError
from lab.progress import say

RELEASE = "computedomain-driver"
NAMESPACE = "computedomain-system"
REPOSITORY = "localhost/computedomain-driver"
TIMEOUT = "120s"

# All nodes share one kernel: the node's own view of it is below /run/mnnvl.
VALUES = {
    "driverRoot": "/run/nvidia/driver",
    "procDevicesFile": "/run/mnnvl/proc/devices",
    "capabilitiesDir": "/run/mnnvl/proc/driver/nvidia/capabilities",
    "bootIDFile": "/run/mnnvl/boot_id",
}


def install(cluster: Cluster, further: list[str]) -> None:
    """Image, CRDs and chart; repeating it upgrades what has changed."""
    checkout = cluster.identity.checkout
    archive = checkout / "build" / "image" / f"computedomain-driver-{images.architecture()}.tar"
    if not archive.exists():
        raise LabError(f"{archive} is missing; make it with `make image`")
    # A tag of its own for every content: pods are replaced when it changes.
    tag = f"dev-{images.digest(archive)}"
    fleet.import_image(cluster, archive, None, f"{REPOSITORY}:{tag}")
    _run(cluster, ["kubectl", "apply", "--server-side", "-f", "-"], _namespace())
    _run(cluster, ["kubectl", "apply", "--server-side", "-f", str(checkout / "deploy" / "crds")])
    settings = [f"{name}={value}" for name, value in VALUES.items()]
    settings += [f"image.repository={REPOSITORY}", f"image.tag={tag}", *further]
    chart = str(checkout / "deploy" / "chart" / "computedomain-driver")
    command = ["helm", "upgrade", "--install", RELEASE, chart, "--namespace", NAMESPACE]
    for setting in settings:
        command += ["--set", setting]
    say("installing the driver")
    _run(cluster, [*command, "--wait", "--timeout", TIMEOUT])
    say(f"the driver runs in namespace {NAMESPACE}")


def _namespace() -> str:
    """The daemons' claims ask for admin access, which a namespace must allow."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    metadata = {"name": NAMESPACE, "labels": labels}
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def _run(cluster: Cluster, command: list[str], text: str = "") -> None:
    control = cluster.control(cluster.current())
    done = subprocess.run(
        [*control.require_namespaces().enter(), *command],
        input=text,
        capture_output=True,
        text=True,
        env=dict(os.environ) | control.environment(),
        cwd=Path("/"),
        check=False,
    )
    if done.returncode != 0:
        raise LabError((done.stdout + done.stderr).strip(), component=" ".join(command[:2]))
