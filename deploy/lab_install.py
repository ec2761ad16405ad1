"""`lab install`: puts the driver's image into the lab's nodes and installs the chart as docs/install.md says. Safe to repeat.

A repetition with another image replaces controller and plugins by rolling update; the controller then replaces the daemons of nodes that
hold no channel.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import rollout

CHECKOUT = Path(__file__).resolve().parent.parent
LAB = CHECKOUT / "lab" / "lab"
CHART = CHECKOUT / "deploy" / "chart" / "computedomain-driver"
CRDS = CHECKOUT / "deploy" / "crds"
VALUES = CHECKOUT / "deploy" / "lab-values.yaml"
HOST = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
ARCHIVE = CHECKOUT / "build" / "image" / f"computedomain-driver-{HOST}.tar"

NAMESPACE = "computedomain-system"
RELEASE = "computedomain-driver"
LABELS = {
    # The daemons claim a device with admin access.
    "resource.kubernetes.io/admin-access": "true",
    # Only counts where the cluster enforces pod security; the plugin mounts directories of the host.
    "pod-security.kubernetes.io/enforce": "privileged",
}
# Changes with the image, so that a new image of the same name is rolled out.
IMAGE_ANNOTATION = "resource.nvidia.com/image-digest"
REVISION_LABEL = "resource.nvidia.com/daemon-revision"

Object = dict[str, Any]


class InstallError(Exception):
    """A step that failed, with what its program said."""


def main() -> int:
    arguments = _arguments()
    try:
        install(arguments)
    except InstallError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab install", description=__doc__)
    parser.add_argument("--image", type=Path, default=ARCHIVE, help="OCI archive (default: what `make image` wrote)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further value of the chart; repeatable")
    parser.add_argument("--timeout", type=float, default=180, help="seconds until everything has to run")
    return parser.parse_args()


def install(arguments: argparse.Namespace) -> None:
    deadline = time.monotonic() + arguments.timeout
    if not arguments.image.exists():
        raise InstallError(f"no image {arguments.image}: run `make image` first")
    digest = _digest(arguments.image)
    _say(f"importing the image {digest[:19]} into all nodes")
    _lab("images", "import", str(arguments.image))
    _say("applying namespace and CRDs")
    _kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(_namespace()))
    # Helm owns their fields since the first installation, though it changes them no more.
    _kubectl("apply", "--server-side", "--force-conflicts", f"--filename={CRDS}")
    _kubectl("wait", "--for=condition=Established", "--timeout=60s", f"--filename={CRDS}")
    _say("installing the chart")
    annotations = json.dumps({IMAGE_ANNOTATION: digest})
    _lab("helm", "upgrade", "--install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={VALUES}",
         f"--set-json=podAnnotations={annotations}", *(f"--set={value}" for value in arguments.set))
    _wait("controller and kubelet plugins rolled out", lambda: _rolled_out(digest), deadline)
    _wait("the daemons of idle nodes are replaced where the chart wants another revision", _daemons_replaced, deadline)
    _wait("each node has reported, and its daemon is ready where it has a fabric", _nodes_ready, deadline)
    _say(f"done: `{LAB.relative_to(CHECKOUT)} kubectl -n {NAMESPACE} get pods`")


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": LABELS}}


def _digest(archive: Path) -> str:
    """Of the image's manifest."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        if index is None:
            raise InstallError(f"{archive} is no OCI archive: it holds no index.json")
        return json.load(index)["manifests"][0]["digest"]


def _rolled_out(digest: str) -> str:
    """What is still missing, or an empty text."""
    for kind in ("deployment", "daemonset"):
        for workload in _list(kind):
            if workload["metadata"]["name"] == "compute-domain-daemon":
                continue  # replaced by the controller, node by node
            if lack := rollout.missing(workload):
                return lack
    old = [p["metadata"]["name"] for p in _list("pods", "app.kubernetes.io/component!=daemon") if not _has_image(p, digest)]
    return f"pods of the image before still there: {', '.join(old)}" if old else ""


def _has_image(pod: Object, digest: str) -> bool:
    return pod["metadata"].get("annotations", {}).get(IMAGE_ANNOTATION) == digest


def _daemons_replaced() -> str:
    """What is still missing, or an empty text. The controller leaves the daemon of a node alone where pods hold channels."""
    template = json.loads(_kubectl("get", "daemonset", "compute-domain-daemon", f"--namespace={NAMESPACE}", "--output=json"))
    wanted = template["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
    for node in _list("imexnodes", namespace=""):
        status = node.get("status", {})
        daemon = status.get("daemon", {})
        if daemon.get("state", "Absent") != "Absent" and daemon.get("revision") != wanted and not status.get("channels"):
            return f"daemon of {node['metadata']['name']} is of another revision than {wanted}"
    return ""


def _nodes_ready() -> str:
    """What is still missing, or an empty text."""
    reports = {n["metadata"]["name"]: n.get("status", {}) for n in _list("imexnodes", namespace="")}
    for node in _list("nodes", namespace=""):
        name = node["metadata"]["name"]
        status = reports.get(name, {})
        fabric = status.get("fabric", {}).get("state")
        if fabric is None:
            return f"node {name} has not reported"
        daemon = status.get("daemon", {}).get("state", "Absent")
        if fabric == "Ready" and daemon != "Ready":
            return f"daemon of {name} is {daemon}"
    ready = sum(1 for pod in _list("pods", "app.kubernetes.io/component=daemon") if _is_ready(pod))
    wanted = sum(1 for status in reports.values() if status.get("fabric", {}).get("state") == "Ready")
    return "" if ready >= wanted else f"{ready} of {wanted} daemon pods are ready"


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _wait(what: str, missing: Callable[[], str], deadline: float) -> None:
    """Polls `missing` until it says nothing; reports each new answer, and the state of the pods if time runs out."""
    _say(f"waiting until {what}")
    said = ""
    while found := missing():
        if time.monotonic() > deadline:
            raise InstallError(f"{found}; the pods of the driver:\n{_diagnosis()}")
        if found != said:
            _say(f"  {found}")
            said = found
        time.sleep(0.5)


def _diagnosis() -> str:
    inside = f"--namespace={NAMESPACE}"
    texts = [_kubectl("get", "pods", inside, "--output=wide"),
             _kubectl("get", "events", inside, "--field-selector=type=Warning", "--sort-by=.lastTimestamp")[-3000:]]
    for component in ("controller", "kubelet-plugin", "daemon"):
        selector = f"--selector=app.kubernetes.io/component={component}"
        texts.append(f"--- logs of {component}\n" + _kubectl("logs", inside, selector, "--tail=5", "--prefix", "--ignore-errors", check=False))
    return "\n".join(texts)


def _list(kind: str, selector: str = "", namespace: str = NAMESPACE) -> list[Object]:
    scope = [f"--namespace={namespace}"] if namespace else []
    return json.loads(_kubectl("get", kind, *scope, f"--selector={selector}", "--output=json"))["items"]


def _kubectl(*arguments: str, stdin: str = "", check: bool = True) -> str:
    return _lab("kubectl", *arguments, stdin=stdin, check=check)


def _lab(*arguments: str, stdin: str = "", check: bool = True) -> str:
    done = subprocess.run([LAB, *arguments], input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise InstallError(f"`lab {' '.join(arguments[:3])} …` failed:\n{done.stderr.strip()}")
    return done.stdout


def _say(text: str) -> None:
    print(f"install: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
