import json

import pytest

from bench.audit import AuditLog, open_watches, parse, parse_all, tally
from tests.bench.events import CONTROLLER, DRIVER, PLUGIN, event


def test_a_request_is_read_with_component_caller_and_times():
    line = event(PLUGIN, "patch", "imexnodes", subresource="status", name="node-1", node="node-1", received=100.25, took=0.5)
    request = parse(line)
    assert (request.component, request.caller_node) == ("kubelet-plugin", "node-1")
    assert (request.verb, request.resource, request.name, request.code) == ("patch", "imexnodes/status", "node-1", 200)
    assert (request.received, request.answered) == (100.25, 100.75)


def test_a_request_for_no_resource_is_named_by_its_path():
    line = json.loads(event(CONTROLLER, "get", ""))
    del line["objectRef"]
    line["requestURI"] = "/readyz?verbose"
    assert parse(json.dumps(line)).resource == "/readyz"


@pytest.mark.parametrize(("stage", "code", "counted"), [
    ("ResponseStarted", 200, True), ("ResponseComplete", 200, False), ("ResponseComplete", 403, True)])
def test_a_watch_counts_once_when_it_starts_or_is_refused(stage, code, counted):
    assert (parse(event(PLUGIN, "watch", "imexnodes", stage=stage, code=code)) is not None) == counted


def test_a_list_that_streams_counts_once():
    assert parse(event(PLUGIN, "list", "imexnodes", stage="ResponseStarted")) is None
    assert parse(event(PLUGIN, "list", "imexnodes", stage="ResponseComplete")) is not None


def test_requests_come_in_the_order_received():
    lines = [event(CONTROLLER, "get", "pods", name="second", received=2), event(CONTROLLER, "get", "pods", name="first", received=1, took=9)]
    assert [request.name for request in parse_all(lines)] == ["first", "second"]


def test_only_work_of_the_driver_is_counted_and_the_rest_apart():
    lines = [
        event(CONTROLLER, "create", "resourceclaimtemplates", code=201),
        event(CONTROLLER, "patch", "imexdomains", code=409),
        event(CONTROLLER, "patch", "imexdomains"),
        event(PLUGIN, "get", "imexdomains", node="node-1"),
        event(PLUGIN, "get", "imexdomains", node="node-2"),
        event(PLUGIN, "create", "resourceslices", code=201),
        event(PLUGIN, "watch", "imexnodes", stage="ResponseStarted"),
        event(CONTROLLER, "update", "leases"),
        event(CONTROLLER, "create", "events", code=201),
        event("system:kube-scheduler", "patch", "resourceclaims", subresource="status"),
        event("system:serviceaccount:kube-system:compute-domain-controller", "create", "pods"),
    ]
    found = tally(parse_all(lines), DRIVER)
    assert (found.total, found.writes, found.refused) == (5, 3, 1)
    assert found.by_kind == {
        "controller create resourceclaimtemplates 201": 1, "controller patch imexdomains 200": 1, "controller patch imexdomains 409": 1,
        "kubelet-plugin get imexdomains 200": 2,
    }
    assert found.apart == {
        "controller events": 1, "controller leader lease": 1, "kubelet-plugin slices": 1, "kubelet-plugin watch": 1}


def test_open_watches_are_listed_by_instance():
    def watch(audit_id: str, name: str, node: str = "", user: str = PLUGIN, resource: str = "imexnodes") -> str:
        query = f"fieldSelector=metadata.name%3D{name}&watch=1" if name else "watch=1"
        return event(user, "watch", resource, node=node, stage="ResponseStarted", query=query, audit_id=audit_id)

    def end(audit_id: str) -> str:
        return event(PLUGIN, "watch", "imexnodes", audit_id=audit_id)

    lines = [
        watch("1", "node-1", "node-1"), watch("2", "node-2", "node-2"), end("1"), watch("3", "node-1", "node-1"),
        watch("4", "old-domain", "node-1", resource="imexdomains"), end("4"), watch("5", "domain", "node-1", resource="imexdomains"),
        watch("6", "", user=CONTROLLER, resource="computedomains"), watch("7", "", user="system:kube-scheduler", resource="pods"),
    ]
    assert open_watches(lines, DRIVER) == {
        "controller": ["computedomains"],
        "kubelet-plugin on node-1": ["imexdomains metadata.name=domain", "imexnodes metadata.name=node-1"],
        "kubelet-plugin on node-2": ["imexnodes metadata.name=node-2"],
    }


def test_watches_that_a_killed_server_left_unended_count_once():
    lines = [event(CONTROLLER, "watch", "computedomains", stage="ResponseStarted", audit_id=number) for number in ("1", "2")]
    assert open_watches(lines, DRIVER) == {"controller": ["computedomains"]}


def test_the_log_is_read_from_a_position_without_a_half_written_line(tmp_path):
    path = tmp_path / "audit.log"
    path.write_text(event(CONTROLLER, "get", "pods", name="before") + "\n")
    log = AuditLog(path)
    position = log.position()
    with path.open("a") as file:
        file.write(event(CONTROLLER, "get", "pods", name="after") + "\n" + event(CONTROLLER, "get", "pods")[:30])
    assert [request.name for request in log.since(position)] == ["after"]


def test_a_rotated_log_is_an_error_not_a_small_count(tmp_path):
    path = tmp_path / "audit.log"
    path.write_text("x" * 100)
    log = AuditLog(path)
    position = log.position()
    path.write_text("")
    with pytest.raises(ValueError, match="rotated"):
        log.since(position)


def test_a_bench_without_audit_log_ends_at_its_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        AuditLog(tmp_path / "nowhere.log")
