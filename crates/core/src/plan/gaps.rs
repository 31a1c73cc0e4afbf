//! Gaps that can change a plan, and those that cannot.
//!
//! A gap counts unless a rule shows that it cannot change the plan: what is not known may hide an object that is deleted.
//! docs/plan-a-commit.md describes the rules.

use std::collections::BTreeSet;

use super::{Action, Change, Plan};
use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use crate::kubernetes::snapshot::Snapshot;

impl Plan {
    /// Sets the kinds of objects that the plan depends on beside those of its rows. Without this, every gap counts.
    pub(crate) fn set_read_kinds(&mut self, kinds: BTreeSet<GroupKind>) {
        self.document.read_kinds = Some(kinds);
    }

    /// Finds the gaps that cannot change the plan.
    pub(super) fn weigh_gaps(&mut self, snapshot: &Snapshot) {
        let Some(read) = self.document.read_kinds.take() else { return };
        let gaps = std::mem::take(&mut self.document.gaps).into_iter();
        self.document.gaps =
            gaps.map(|gap| AnswerGap { affects_answer: self.can_change(&gap.gap, &read, snapshot), ..gap }).collect();
        self.sort();
    }

    /// Returns true if a gap may hide an object that the plan depends on: one of a kind that was looked for or that has a
    /// row, a consequence of a deletion, or an owner because of which the garbage collector keeps a dependent.
    fn can_change(&self, gap: &Gap, read: &BTreeSet<GroupKind>, snapshot: &Snapshot) -> bool {
        let types = &snapshot.types;
        !gap.is_about_types(types)
            || read.iter().any(|kind| gap.hides(kind, types))
            || self.changes().iter().any(|change| {
                gap.hides(&change.object.id.group_kind(), types)
                    || can_hide_consequence(change, gap, types)
                    || can_hide_owner(change, gap, snapshot)
            })
    }
}

/// Kind of the volumes, which a deleted claim can delete although they are in no namespace.
const VOLUME: (&str, &str) = ("", "PersistentVolume");

/// Returns true if a gap may hide an object that is deleted because this one is: the content of a Namespace, the resources
/// of a definition, a volume, or a dependent, which can be of any type. A dependent of a namespaced object is in its
/// namespace (docs/reference/garbage-collection.md).
fn can_hide_consequence(change: &Change, gap: &Gap, types: &[ResourceType]) -> bool {
    if !matches!(change.action, Action::Delete | Action::Recreate | Action::Unknown) {
        return false;
    }
    let id: &ObjectId = &change.object.id;
    if id.namespace.is_empty() {
        return true;
    }
    let is_elsewhere = gap.namespace.as_deref().is_some_and(|unread| *unread != *id.namespace);
    let known = types.iter().find(|known| gap.subject == known.resource());
    let is_cluster_scoped = known.is_some_and(|known| !known.namespaced);
    let hides_volumes = id.is("", "PersistentVolumeClaim") && gap.hides(&GroupKind::new(VOLUME.0, VOLUME.1), types);
    hides_volumes || !(is_elsewhere || is_cluster_scoped)
}

/// Returns true if a gap may hide another owner of a dependent, for which the garbage collector would keep it.
fn can_hide_owner(change: &Change, gap: &Gap, snapshot: &Snapshot) -> bool {
    let dependent = snapshot.object(&change.object.id).filter(|_| change.cause.is_some());
    let references = dependent.into_iter().flat_map(|object| &object.owner_references);
    let mut kinds = references.map(|reference| GroupKind::new(&reference.group, &reference.kind));
    kinds.any(|kind| gap.hides(&kind, &snapshot.types))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::gap::GapKind;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::{Actor, PinnedObject, ReasonCode};
    use crate::testing::{Build, gap, object, resource_type, snapshot};

    const SUBJECTS: [&str; 8] = [
        "roles.rbac.authorization.k8s.io",
        "secrets",
        "persistentvolumes",
        "nodes",
        "configmaps",
        "kustomizations.kustomize.toolkit.fluxcd.io",
        "metrics.k8s.io/v1beta1",
        "something else",
    ];

    /// Returns the subjects that can change a plan with these rows, which looks for Kustomizations.
    fn counting(rows: Vec<Change>) -> Vec<&'static str> {
        let mut dependent = object("", "Endpoints", "shop", "web").controlled_by("node");
        dependent.owner_references[0].group = "".into();
        dependent.owner_references[0].kind = "Node".into();
        let mut cluster = snapshot(vec![dependent], vec![]);
        cluster.types = vec![
            resource_type("", "ConfigMap", "configmaps", true),
            resource_type("", "Node", "nodes", false),
            resource_type("", "PersistentVolume", "persistentvolumes", false),
            resource_type("", "Secret", "secrets", true),
            resource_type("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", true),
            resource_type("rbac.authorization.k8s.io", "Role", "roles", true),
        ];
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_gaps(SUBJECTS.map(|subject| gap(GapKind::Forbidden, subject)));
        plan.add_changes(rows);
        plan.set_read_kinds([GroupKind::new("kustomize.toolkit.fluxcd.io", "Kustomization")].into());
        plan.weigh_gaps(&cluster);
        let counts = |subject: &&str| plan.counting_gaps().any(|gap| gap.subject == **subject);
        assert_eq!(plan.is_complete(), plan.counting_gaps().count() == 0);
        SUBJECTS.into_iter().filter(counts).collect()
    }

    fn row(action: Action, kind: &str, namespace: &str) -> Change {
        let object = PinnedObject::absent(ObjectId::new("", kind, namespace, "web"));
        Change::new(action, object, None, Actor::KustomizeController, ReasonCode::NotInBuild)
    }

    fn without(left_out: &[&str]) -> Vec<&'static str> {
        SUBJECTS.into_iter().filter(|subject| !left_out.contains(subject)).collect()
    }

    #[test]
    fn only_gaps_that_may_hide_what_the_plan_depends_on_count() {
        let always = ["kustomizations.kustomize.toolkit.fluxcd.io", "something else"];
        assert_eq!(counting(vec![]), always);
        assert_eq!(counting(vec![row(Action::Update, "Service", "shop")]), always);
        let with_secrets = ["secrets", always[0], always[1]];
        assert_eq!(counting(vec![row(Action::Create, "Secret", "shop")]), with_secrets);
    }

    #[test]
    fn a_deletion_can_have_consequences_of_any_type_in_its_namespace() {
        for action in [Action::Delete, Action::Recreate, Action::Unknown] {
            let rows = vec![row(action, "ConfigMap", "shop")];
            assert_eq!(counting(rows), without(&["persistentvolumes", "nodes"]), "{action}");
        }
        assert_eq!(counting(vec![row(Action::Delete, "PersistentVolumeClaim", "shop")]), without(&["nodes"]));
        assert_eq!(counting(vec![row(Action::Delete, "Namespace", "")]), SUBJECTS);
    }

    #[test]
    fn the_kind_of_another_owner_of_a_dependent_counts() {
        let cause = Some(ObjectId::new("", "Service", "shop", "web"));
        let dependent = Change { cause, ..row(Action::Delete, "Endpoints", "shop") };
        assert_eq!(counting(vec![dependent]), without(&["persistentvolumes"]));
    }

    #[test]
    fn every_gap_counts_in_a_plan_that_looks_for_all_kinds() {
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_gaps([gap(GapKind::Forbidden, "nodes")]);
        plan.weigh_gaps(&snapshot(vec![], vec![]));
        assert!(!plan.is_complete());
    }
}
