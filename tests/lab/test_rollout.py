"""When a Deployment or DaemonSet counts as rolled out."""

from __future__ import annotations

import pytest

from lab.rollout import is_observed, missing


def deployment(**status: int) -> dict:
    return {"metadata": {"name": "controller", "generation": 3}, "spec": {"replicas": 2}, "status": {"observedGeneration": 3, **status}}


def daemon_set(**status: int) -> dict:
    return {"metadata": {"name": "plugin", "generation": 3}, "spec": {}, "status": {"observedGeneration": 3, **status}}


COMPLETE = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
ON_EVERY_NODE = {"desiredNumberScheduled": 4, "updatedNumberScheduled": 4, "numberReady": 4}


@pytest.mark.parametrize("workload", [deployment(**COMPLETE), daemon_set(**ON_EVERY_NODE)])
def test_nothing_is_missing_when_all_pods_are_new_and_ready(workload: dict) -> None:
    assert missing(workload) == ""


@pytest.mark.parametrize(("workload", "said"), [
    (deployment(**COMPLETE | {"observedGeneration": 2}), "controller: its controller has not seen the newest version"),
    (deployment(), "controller: 0 of 2 updated, 0 ready"),
    (deployment(**COMPLETE | {"updatedReplicas": 1}), "controller: 1 of 2 updated, 2 ready, 1 old"),
    (deployment(**COMPLETE | {"replicas": 3}), "controller: 2 of 2 updated, 2 ready, 1 old"),
    (daemon_set(**ON_EVERY_NODE | {"numberReady": 3}), "plugin: 4 of 4 updated, 3 ready"),
    (daemon_set(), "plugin: 0 of 0 updated, 0 ready"),
])
def test_what_is_missing_is_said(workload: dict, said: str) -> None:
    assert missing(workload) == said


def test_daemon_set_that_does_not_know_of_a_node_yet_misses_its_pod() -> None:
    assert missing(daemon_set(**ON_EVERY_NODE), wanted=4) == ""
    assert missing(daemon_set(**ON_EVERY_NODE), wanted=5) == "plugin: 4 of 5 updated, 4 ready"


def test_workload_nobody_has_looked_at_is_not_observed() -> None:
    assert not is_observed({"metadata": {"name": "new", "generation": 1}, "spec": {}})
