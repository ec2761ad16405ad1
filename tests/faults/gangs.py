"""Short-lived ComputeDomains, one after another, as a pipeline makes them: what starts and ends while something is broken."""

from __future__ import annotations

import random
import shutil
import threading
import time

from lab.client import COMPUTE_DOMAIN, EVENT, NAMESPACE, POD, Cluster, wait_until

from .load import ALLOWANCE, FOLDER, NO_ANSWER, Domain, Load, insist, make_namespace

# The kubelet repeats a call that failed only 60 to 90 s later, and a node may be off for a while on top.
LONGEST_START = 180.0 + ALLOWANCE


class Gangs:
    """Makes gangs of one pod a node, waits until all run and share memory, and deletes them in any order, by force or not."""

    def __init__(self, load: Load, prefix: str, seed: int) -> None:
        self.starts: list[tuple[float, str]] = []  # seconds from the first pod's creation to memory shared by all, and who
        self._load = load
        self._namespace = f"{prefix}-gangs"
        self._dice = random.Random(seed)
        self._stop = threading.Event()
        self._give_up = False
        self._thread = threading.Thread(target=self._run, name="gangs")

    def start(self) -> None:
        make_namespace(self._load.cluster, self._namespace)
        self._thread.start()

    def stop(self, at_once: bool = False) -> None:
        """Returns when the last gang has lived its life, or gives it up."""
        self._give_up = at_once
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._load.cluster.delete(NAMESPACE, self._namespace)

    def _run(self) -> None:
        cluster = Cluster("gangs")  # a client is for one thread
        gang = Domain(cluster, self._namespace, "gang", self._load.nodes)
        while not self._stop.is_set():
            try:
                self._live(cluster, gang)
            except Exception as error:  # also an AssertionError: the load must not end in silence
                self._load.evidence.add_wrong(f"{gang.name}: {error}")
                return

    def _live(self, cluster: Cluster, gang: Domain) -> None:
        began = time.monotonic()
        gang.create()
        try:
            wait_until(lambda: self._shares(gang, began), f"{gang.name} shares memory", LONGEST_START, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._why(cluster, gang)}") from error
        self.starts.append((time.monotonic() - began, gang.name))
        self._load.disturbances.begin("end of the gang", domains=frozenset({gang.name}))
        grace = self._dice.choice((None, 0, 1))
        steps = [lambda: self._delete_pods(cluster, gang, grace), lambda: cluster.delete(COMPUTE_DOMAIN, gang.name, self._namespace)]
        self._dice.shuffle(steps)
        for step in steps:
            insist(step, f"{gang.name} deleted")
        # Its number may still be held: by design the next gang does not wait for that.
        shutil.rmtree(FOLDER / gang.name, ignore_errors=True)

    def _shares(self, gang: Domain, began: float) -> bool:
        places = gang.places()
        evidence = self._load.evidence
        if self._give_up or all(evidence.last_success(a, b) > 0 for a in places for b in places):
            return True
        # A pod that its node lost is not what this waits for.
        if time.monotonic() - began > 1 and not self._stop.is_set():
            try:
                gang.replace_dead()
            except NO_ANSWER:
                return False
        return False

    def _delete_pods(self, cluster: Cluster, gang: Domain, grace: int | None) -> None:
        for node in gang.nodes:
            cluster.delete(POD, gang.pod_name(node), self._namespace, grace)

    def _why(self, cluster: Cluster, gang: Domain) -> str:
        late = [f"{node}: {pod['status'].get('phase')}" for node, pod in gang.pods().items()]
        events = [e["message"] for e in cluster.list(EVENT, self._namespace) if e["involvedObject"].get("name", "").startswith(gang.name)]
        return f"{', '.join(late)}; {' | '.join(events[-4:])}"
