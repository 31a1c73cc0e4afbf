//! In which order objects are resumed: what others wait for comes first.

use std::collections::HashMap;

use serde_json::Value;

use super::suspension::view;
use crate::kubernetes::object::{ObjectId, Resource};

/// The stage of each object: 0 for those that wait for none of the others, otherwise one more than the latest they wait
/// for, through their source or `spec.dependsOn`. A loop is cut where it closes.
pub fn stages(objects: &[&Resource]) -> Vec<usize> {
    let places: HashMap<&ObjectId, usize> =
        objects.iter().enumerate().map(|(at, full)| (&full.object.id, at)).collect();
    let needs = |full: &&Resource| needs(full).iter().filter_map(|id| places.get(id).copied()).collect();
    let needs: Vec<Vec<usize>> = objects.iter().map(needs).collect();
    let mut stages = vec![0; objects.len()];
    // Each round settles at least one stage; a loop stops moving after as many rounds as there are objects.
    for _ in 0..objects.len() {
        let next = |of: usize| needs[of].iter().map(|need| stages[*need] + 1).max().unwrap_or(0).min(objects.len());
        let settled: Vec<_> = (0..objects.len()).map(next).collect();
        if settled == stages {
            break;
        }
        stages = settled;
    }
    stages
}

fn needs(full: &Resource) -> Vec<ObjectId> {
    let id = &full.object.id;
    let mut needs = view::sources(full);
    for dependency in full.at("/spec/dependsOn").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| dependency.get(key).and_then(Value::as_str);
        if let Some(name) = text("name") {
            let namespace = text("namespace").unwrap_or(&id.namespace);
            needs.push(ObjectId::new(&id.group, &id.kind, namespace, name));
        }
    }
    needs
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
    fn sources_and_dependencies_come_first() {
        let uses = json!({"kind": "GitRepository", "name": "git"});
        let objects = [
            named("Kustomization", "apps", json!({"spec": {"sourceRef": uses, "dependsOn": [{"name": "infra"}]}})),
            named("Kustomization", "infra", json!({"spec": {"sourceRef": uses}})),
            named("GitRepository", "git", json!({})),
            named("Kustomization", "alone", json!({"spec": {"dependsOn": [{"name": "elsewhere"}]}})),
        ];
        assert_eq!(stages(&objects.iter().collect::<Vec<_>>()), [2, 1, 0, 0]);
    }

    #[test]
    fn a_loop_ends() {
        let on = |name: &str| json!({"spec": {"dependsOn": [{"name": name}]}});
        let objects = [named("Kustomization", "a", on("b")), named("Kustomization", "b", on("a"))];
        assert_eq!(stages(&objects.iter().collect::<Vec<_>>()).len(), 2);
    }
}
