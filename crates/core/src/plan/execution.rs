//! Order in which this tool deletes the objects of a plan.

use std::collections::HashMap;

use super::{Change, Plan};
use crate::kubernetes::deletion::order::{delete_order, same_wave};
use crate::kubernetes::object::ObjectId;

/// Returns the root whose deletion deletes each object of a plan; a root is its own.
pub fn roots_of_objects(plan: &Plan) -> HashMap<&ObjectId, &ObjectId> {
    let causes: HashMap<&ObjectId, Option<&ObjectId>> =
        plan.deletions().map(|change| (&change.object.id, change.cause.as_ref())).collect();
    causes.keys().map(|id| (*id, root_of(id, &causes))).collect()
}

fn root_of<'p>(id: &'p ObjectId, causes: &HashMap<&'p ObjectId, Option<&'p ObjectId>>) -> &'p ObjectId {
    // As many steps as there are objects: a plan file can hold a circle.
    let chain = std::iter::successors(Some(id), |id| causes.get(*id).copied().flatten());
    chain.take(causes.len() + 1).last().unwrap_or(id)
}

/// Returns the roots of a plan in waves: a wave starts when the one before has ended, and the objects of a wave may be
/// deleted at the same time. `given` comes first, in its order; objects that it does not name follow in Flux's order.
pub fn waves<'p>(plan: &'p Plan, given: &[Vec<ObjectId>]) -> Vec<Vec<&'p Change>> {
    let mut rest: HashMap<&ObjectId, &Change> = plan.roots().map(|change| (&change.object.id, change)).collect();
    let mut waves: Vec<Vec<&Change>> =
        given.iter().map(|wave| wave.iter().filter_map(|id| rest.remove(id)).collect()).collect();
    waves.retain(|wave| !wave.is_empty());
    let mut unnamed: Vec<&Change> = rest.into_values().collect();
    unnamed.sort_by(|a, b| delete_order(&a.object.id, &b.object.id));
    waves.extend(unnamed.chunk_by(|a, b| same_wave(&a.object.id, &b.object.id)).map(<[_]>::to_vec));
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::{Action, Actor, PinnedObject, ReasonCode};

    fn id_of(kind: &str, name: &str) -> ObjectId {
        ObjectId::new("", kind, "n", name)
    }

    fn deletion(kind: &str, name: &str) -> Change {
        let object = PinnedObject { uid: name.to_owned(), ..PinnedObject::absent(id_of(kind, name)) };
        Change::new(Action::Delete, object, None, Actor::KubectlGitops, ReasonCode::Leaked)
    }

    #[test]
    fn the_root_of_an_object_is_found_through_all_causes_and_a_circle_ends() {
        let caused =
            |name: &str, cause: &str| Change { cause: Some(id_of("Secret", cause)), ..deletion("Secret", name) };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes([
            deletion("Secret", "a"),
            caused("b", "a"),
            caused("c", "b"),
            caused("x", "y"),
            caused("y", "x"),
        ]);
        let roots = roots_of_objects(&plan);
        let root = |name: &str| &*roots[&id_of("Secret", name)].name;
        assert_eq!(["a", "b", "c"].map(root), ["a", "a", "a"]);
        assert!(["x", "y"].contains(&root("x")));
    }

    #[test]
    fn the_given_waves_come_first_and_the_rest_kind_by_kind() {
        let cascaded = Change { cause: Some(id_of("Namespace", "n")), ..deletion("Secret", "cascaded") };
        let kinds = [("ConfigMap", "a"), ("ConfigMap", "b"), ("Namespace", "n"), ("Secret", "c"), ("Secret", "d")];
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes(kinds.map(|(kind, name)| deletion(kind, name)).into_iter().chain([cascaded]));
        let names = |given: &[Vec<ObjectId>]| -> Vec<String> {
            let waves = waves(&plan, given);
            waves.iter().map(|wave| wave.iter().map(|change| &*change.object.id.name).collect()).collect()
        };
        assert_eq!(names(&[]), ["dc", "ba", "n"]);
        let given = [vec![id_of("Secret", "gone")], vec![id_of("ConfigMap", "a"), id_of("Secret", "c")]];
        assert_eq!(names(&given), ["ac", "d", "b", "n"]);
    }
}
