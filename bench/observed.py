"""Objects of the API server as a watch shows them, with the time at which a condition came true."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from bench.errors import BenchError
from lab.client import Cluster, Kind, Object

# Longer than any run: the server would end the stream earlier by itself.
STREAM_SECONDS = 6 * 3600


class Observed:
    """All objects of a kind, by name, kept by one watch on a thread of its own.

    A watch instead of polling: what is measured shares the machine with the one who looks.
    """

    def __init__(self, kind: Kind, namespace: str = "") -> None:
        self._kind = kind
        self._namespace = namespace
        self._objects: dict[str, Object] = {}
        self._changed = threading.Condition()
        self._changed_ns = time.time_ns()
        self._failure = ""
        threading.Thread(target=self._run, daemon=True, name=f"watch of {kind.plural}").start()

    def _run(self) -> None:
        try:
            for event, obj in Cluster("bench").watch(self._kind, self._namespace, timeoutSeconds=str(STREAM_SECONDS)):
                if event == "ERROR":
                    raise BenchError(str(obj.get("message")))
                self._apply(event, obj, time.time_ns())
            self._fail("the server ended the stream")
        except Exception as error:  # the waiting thread reports it
            self._fail(str(error))

    def _apply(self, event: str, obj: Object, now_ns: int) -> None:
        with self._changed:
            if event == "DELETED":
                self._objects.pop(obj["metadata"]["name"], None)
            else:
                self._objects[obj["metadata"]["name"]] = obj
            self._changed_ns = now_ns
            self._changed.notify_all()

    def _fail(self, reason: str) -> None:
        with self._changed:
            self._failure = reason
            self._changed.notify_all()

    def wait(self, condition: Callable[[Mapping[str, Object]], object], what: str, timeout: float = 150) -> int:
        """Waits until the condition holds; the wall clock, in ns, of the last change seen until then.

        The default is longer than the kubelet waits before it repeats a failed Prepare, so that such a wait is measured, not lost.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition(self._objects):
                if self._failure:
                    raise BenchError(f"the watch of {self._kind.plural} broke: {self._failure}")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise BenchError(f"not within {timeout:.0f} s: {what}")
                self._changed.wait(remaining)
            return self._changed_ns

    def get(self, name: str) -> Object | None:
        with self._changed:
            return self._objects.get(name)

    def all(self) -> list[Object]:
        with self._changed:
            return list(self._objects.values())
