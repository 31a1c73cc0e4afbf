//! Order of resuming objects: dependencies before the objects that wait for them.

use std::collections::HashMap;

use serde_json::Value;

use super::view;
use crate::kubernetes::object::{ObjectId, Resource, list_at};

/// Returns the stage of each object: 0 if it waits for none of the others, otherwise one more than the last stage that it
/// waits for through its source or `spec.dependsOn`. A cycle of dependencies ends at the number of objects.
pub fn stages(objects: &[&Resource]) -> Vec<usize> {
    let indices: HashMap<&ObjectId, usize> =
        objects.iter().enumerate().map(|(index, full)| (&full.object.id, index)).collect();
    let mut graph: Vec<Vec<usize>> = Vec::new();
    for full in objects {
        graph.push(dependencies(full).iter().filter_map(|id| indices.get(id).copied()).collect());
    }
    let mut stages = vec![0; objects.len()];
    // Each round completes at least one stage, so without a cycle this many rounds are enough.
    for _ in 0..objects.len() {
        let mut next = Vec::new();
        for dependencies in &graph {
            let stage = dependencies.iter().map(|index| stages[*index] + 1).max().unwrap_or(0);
            next.push(stage.min(objects.len()));
        }
        if next == stages {
            break;
        }
        stages = next;
    }
    stages
}

fn dependencies(full: &Resource) -> Vec<ObjectId> {
    let id = &full.object.id;
    let mut found = view::sources(full);
    for dependency in list_at(&full.content, "/spec/dependsOn") {
        if let Some(name) = dependency.get("name").and_then(Value::as_str) {
            let namespace = dependency.get("namespace").and_then(Value::as_str).unwrap_or(&id.namespace);
            found.push(ObjectId::new(&id.group, &id.kind, namespace, name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::flux_object;

    fn named(kind: &str, name: &str, content: Value) -> Resource {
        let mut full = flux_object(kind, content, &[]);
        full.object.id.name = name.into();
        full
    }

    #[test]
    fn sources_and_dependencies_are_in_earlier_stages() {
        let uses = json!({"kind": "GitRepository", "name": "git"});
        let objects = [
            named("Kustomization", "apps", json!({"spec": {"sourceRef": uses, "dependsOn": [{"name": "infra"}]}})),
            named("Kustomization", "infra", json!({"spec": {"sourceRef": uses}})),
            named("GitRepository", "git", json!({})),
            named("Kustomization", "alone", json!({"spec": {"dependsOn": [{"name": "elsewhere"}]}})),
        ];
        assert_eq!(stages(&objects.iter().collect::<Vec<_>>()), [2, 1, 0, 0]);
    }

    fn depending_on(name: &str) -> Value {
        json!({"spec": {"dependsOn": [{"name": name}]}})
    }

    #[test]
    fn a_cycle_of_dependencies_ends() {
        let objects = [named("Kustomization", "a", depending_on("b")), named("Kustomization", "b", depending_on("a"))];
        assert_eq!(stages(&objects.iter().collect::<Vec<_>>()).len(), 2);
    }
}
