//! One row for each state of each kind.

use serde_json::json;

use super::*;
use crate::kubernetes::object::parse_time;
use crate::testing::object;

fn state(group: &str, kind: &str, content: &Value) -> char {
    match ready(&object(group, kind, "a", "b"), content) {
        Readiness::Ready => 'r',
        Readiness::InProgress(_) => 'p',
        Readiness::Failed(_) => 'f',
        Readiness::Terminating => 't',
    }
}

fn conditions(list: &[(&str, &str, &str)]) -> Value {
    let conditions: Vec<Value> =
        list.iter().map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason})).collect();
    json!({"status": {"conditions": conditions}})
}

#[test]
fn kinds_without_rules_go_by_generation_and_conditions() {
    let rows = [
        ('r', json!({})),
        ('r', Value::Null),
        ('p', json!({"status": {"observedGeneration": 7}})),
        ('r', conditions(&[("Ready", "True", "")])),
        ('p', conditions(&[("Ready", "False", "")])),
        ('p', conditions(&[("Ready", "Unknown", "")])),
        ('p', conditions(&[("Available", "False", "")])),
        ('p', conditions(&[("Ready", "True", ""), ("Reconciling", "True", "")])),
        ('f', conditions(&[("Ready", "False", ""), ("Stalled", "True", "")])),
    ];
    for (expected, content) in rows {
        assert_eq!(state("example.com", "Odd", &content), expected, "{content}");
    }
    let mut deleted = object("", "Pod", "a", "b");
    deleted.deletion_timestamp = parse_time("2026-01-01T00:00:00Z");
    assert_eq!(ready(&deleted, &json!({})), Readiness::Terminating);
}

fn deployment(all: i64, updated: i64, available: i64) -> Value {
    json!({"spec": {"replicas": 2}, "status": {"observedGeneration": 1, "replicas": all, "updatedReplicas": updated,
            "readyReplicas": available, "availableReplicas": available}})
}

fn stateful_set(current: &str, partition: i64) -> Value {
    json!({"spec": {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": partition}}}, "status": {
            "replicas": 2, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 1, "currentRevision": current,
            "updateRevision": "b"}})
}

fn daemon_set(ready: i64) -> Value {
    json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "updatedNumberScheduled": 3, "numberAvailable": ready, "numberReady": ready}})
}

#[test]
fn workloads_go_by_their_counts() {
    let rows = [
        ("Deployment", 'r', deployment(2, 2, 2)),
        ("Deployment", 'p', deployment(3, 2, 2)),
        ("Deployment", 'p', deployment(2, 1, 2)),
        ("Deployment", 'p', deployment(2, 2, 1)),
        ("Deployment", 'p', json!({})),
        ("Deployment", 'f', conditions(&[("Progressing", "False", "ProgressDeadlineExceeded")])),
        ("StatefulSet", 'r', stateful_set("b", 0)),
        ("StatefulSet", 'p', stateful_set("a", 0)),
        ("StatefulSet", 'r', stateful_set("a", 1)),
        ("StatefulSet", 'r', json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})),
        ("DaemonSet", 'r', daemon_set(3)),
        ("DaemonSet", 'p', daemon_set(2)),
        ("DaemonSet", 'p', json!({})),
        ("ReplicaSet", 'r', json!({"spec": {"replicas": 0}})),
        ("ReplicaSet", 'p', json!({"spec": {"replicas": 1}})),
    ];
    for (kind, expected, content) in rows {
        assert_eq!(state("apps", kind, &content), expected, "{kind} {content}");
    }
}

#[test]
fn core_kinds_have_rules_of_their_own() {
    let waiting = json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let crd = ("apiextensions.k8s.io", "CustomResourceDefinition");
    let rows = [
        ("", "Pod", 'r', running),
        ("", "Pod", 'f', waiting),
        ("", "Pod", 'r', json!({"status": {"phase": "Succeeded"}})),
        ("", "Pod", 'f', json!({"status": {"phase": "Failed"}})),
        ("", "Pod", 'p', json!({"status": {"phase": "Pending"}})),
        ("", "PersistentVolumeClaim", 'r', json!({"status": {"phase": "Bound"}})),
        ("", "PersistentVolumeClaim", 'p', json!({"status": {"phase": "Pending"}})),
        ("", "Service", 'r', json!({"spec": {"type": "ClusterIP"}})),
        ("", "Service", 'p', json!({"spec": {"type": "LoadBalancer"}})),
        (
            "",
            "Service",
            'r',
            json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1"}]}}}),
        ),
        ("batch", "Job", 'p', json!({})),
        ("batch", "Job", 'r', json!({"status": {"startTime": "x"}})),
        ("batch", "Job", 'r', conditions(&[("Complete", "True", "")])),
        ("batch", "Job", 'f', conditions(&[("Failed", "True", "")])),
        (crd.0, crd.1, 'r', conditions(&[("Established", "True", "")])),
        (crd.0, crd.1, 'p', conditions(&[("Established", "False", "Installing")])),
        (crd.0, crd.1, 'f', conditions(&[("NamesAccepted", "False", "x")])),
        (crd.0, crd.1, 'p', json!({})),
    ];
    for (group, kind, expected, content) in rows {
        assert_eq!(state(group, kind, &content), expected, "{kind} {content}");
    }
}
