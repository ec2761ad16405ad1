"""The pods whose start and end are measured."""

from __future__ import annotations

import time

from bench.errors import BenchError
from bench.noop import IMAGE
from bench.observed import Observed
from lab.client import EVENT, POD, ApiError, Cluster, Object, pod_manifest, wait_until

STAMP = "/stamp"
ENDED = ("Failed", "Succeeded")


class Pods:
    """Pods that write down when their container began, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._seen = Observed(POD, namespace)

    def create(self, name: str, node: str, template: str = "") -> int:
        """Wall clock in ns just before the request."""
        manifest = pod_manifest(name, node, template, [STAMP], image=IMAGE)
        began_ns = time.time_ns()
        self._cluster.create(POD, manifest, self._namespace)
        return began_ns

    def stamp(self, name: str) -> int:
        """Waits for the pod; the wall clock in ns that its container wrote first."""
        try:
            self._seen.wait(lambda pods: name in pods and self._runs(pods[name]), f"pod {name} Running")
        except BenchError as error:
            raise BenchError(f"{error}; its events: {self._events(name)}") from error
        return int(wait_until(lambda: self._log(name), f"the stamp in the log of {name}", 20, step=0.02))

    def _runs(self, pod: Object) -> bool:
        phase = pod["status"].get("phase")
        if phase in ENDED:
            raise BenchError(f"pod {pod['metadata']['name']} is {phase}")
        return phase == "Running"

    def _log(self, name: str) -> str:
        try:
            return self._cluster.logs(name, self._namespace).partition("\n")[0]
        except ApiError:  # the container runs, its log file is about to be there
            return ""

    def _events(self, name: str) -> str:
        events = self._cluster.list(EVENT, self._namespace, fieldSelector=f"involvedObject.name={name}")
        return "; ".join(f"{event['reason']}: {event['message']}" for event in events) or "none"

    def remove(self, names: list[str]) -> float:
        """Deletes the pods in the ordinary way; seconds until the last is gone, its claim unprepared."""
        began_ns = time.time_ns()
        for name in names:
            self._cluster.delete(POD, name, self._namespace)
        return (self.wait_gone(names) - began_ns) / 1e9

    def wait_gone(self, names: list[str]) -> int:
        return self._seen.wait(lambda pods: not any(name in pods for name in names), f"pods {', '.join(names)} gone")
