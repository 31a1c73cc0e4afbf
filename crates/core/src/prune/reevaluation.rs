//! Re-evaluation of planned deletions on a newer reading of the cluster, right before they are sent
//! (docs/reference/ownership.md 8, rule 7).
//!
//! The rules of the plan apply again to the object itself. In addition, its cascade may contain only what the plan deletes
//! too, and nothing that an earlier step did not delete.

use std::collections::{HashMap, HashSet};

use super::candidates::reason_to_stay;
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnershipStatus;
use crate::ownership::index::Index;
use crate::plan::outcome::DeletionResult;
use crate::plan::{Change, Plan, Reason, ReasonCode};

/// Applies the rules of a plan again to some of its roots, without their cascades. Returns the reason to keep each of them,
/// or `None` to delete it.
pub type Reevaluate<'a> = dyn Fn(&Index<'_>, &[&Change]) -> Vec<Option<Reason>> + 'a;

/// A plan that is being executed, and the results so far.
pub struct Reevaluation<'p> {
    /// Uids of all objects that the plan deletes, cascades included.
    planned: HashSet<&'p str>,
    /// Deletions in an object's own right.
    roots: HashMap<&'p ObjectId, &'p Change>,
    /// Roots that have ended, true for those that are gone or terminating.
    ended: HashMap<&'p ObjectId, bool>,
    /// Gaps that the user has seen in the plan.
    gaps: &'p [AnswerGap],
    evaluate: &'p Reevaluate<'p>,
}

impl<'p> Reevaluation<'p> {
    /// Begins the execution of a plan.
    pub fn new(plan: &'p Plan, evaluate: &'p Reevaluate<'p>) -> Self {
        Self {
            planned: plan.deletions().map(|change| change.object.uid.as_str()).collect(),
            roots: plan.roots().map(|change| (&change.object.id, change)).collect(),
            ended: HashMap::new(),
            gaps: plan.gaps(),
            evaluate,
        }
    }

    /// Records the result of a root.
    pub fn end(&mut self, change: &'p Change, result: &DeletionResult) {
        self.ended.insert(&change.object.id, result.is_deletion());
    }

    /// Returns the first gap of a reading that the plan did not have.
    pub fn new_gap<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Gap> {
        let mut gaps = snapshot.gaps.iter();
        gaps.find(|gap| {
            !self.gaps.iter().any(|known| (&known.subject, &known.namespace) == (&gap.subject, &gap.namespace))
        })
    }

    /// Returns the reason to keep each of these roots, or `None` to delete it.
    pub fn reasons_to_keep(&self, snapshot: &Snapshot, roots: &[&Change]) -> Vec<Option<Reason>> {
        if let Some(gap) = self.new_gap(snapshot) {
            let reason = not_read(format!("{}: {}", gap.subject, gap.message));
            return vec![Some(reason); roots.len()];
        }
        let index = Index::build(snapshot);
        let cascade = Cascade::new(snapshot);
        let own = (self.evaluate)(&index, roots);
        let pending = self.reasons_of_pending(&index, &cascade, roots);
        let reasons = roots.iter().zip(own).map(|(change, own)| match snapshot.object(&change.object.id) {
            Some(object) if *object.uid == *change.object.uid => {
                own.or_else(|| self.cascade_reason(&index, &cascade, object, &pending))
            }
            _ => Some(replaced()),
        });
        reasons.collect()
    }

    /// Evaluates the roots that have not ended and that a cascade of `roots` contains.
    fn reasons_of_pending(
        &self,
        index: &Index<'_>,
        cascade: &Cascade<'_>,
        roots: &[&Change],
    ) -> HashMap<&'p ObjectId, Reason> {
        let objects = roots.iter().filter_map(|change| index.snapshot().object(&change.object.id));
        let cascaded = objects.flat_map(|object| cascade.closure([object]));
        let ids: HashSet<&ObjectId> = cascaded.map(|cascaded| &cascaded.object.id).collect();
        let pending: Vec<&'p Change> = ids
            .into_iter()
            .filter_map(|id| self.roots.get(id))
            .filter(|change| !self.ended.contains_key(&change.object.id))
            .copied()
            .collect();
        if pending.is_empty() {
            return HashMap::new();
        }
        let reasons = (self.evaluate)(index, &pending);
        let rows = pending.into_iter().zip(reasons);
        rows.filter_map(|(change, reason)| Some((&change.object.id, reason?))).collect()
    }

    /// Returns the reason to keep a root because of what Kubernetes would delete with it.
    fn cascade_reason(
        &self,
        index: &Index<'_>,
        cascade: &Cascade<'_>,
        root: &ObjectMetadata,
        pending: &HashMap<&'p ObjectId, Reason>,
    ) -> Option<Reason> {
        if let Some(detail) = cascade.unlisted_content(root) {
            return Some(Reason::new(ReasonCode::Cascade, detail));
        }
        if cascade.is_unserved_definition(root) {
            let detail = "no version of its resources is served, so they cannot be listed";
            return Some(Reason::new(ReasonCode::Cascade, detail));
        }
        let Some(root) = index.snapshot().object(&root.id) else { return Some(replaced()) };
        cascade.closure([root]).iter().find_map(|cascaded| {
            let why = self.reason_to_stay(index, cascaded.object, pending)?;
            Some(Reason::new(ReasonCode::Cascade, format!("it would also delete {}, {why}", cascaded.object.id)))
        })
    }

    fn reason_to_stay(
        &self,
        index: &Index<'_>,
        object: &ObjectMetadata,
        pending: &HashMap<&'p ObjectId, Reason>,
    ) -> Option<String> {
        if !self.planned.contains(&*object.uid) {
            return Some("which the plan does not delete".to_owned());
        }
        if self.ended.get(&object.id) == Some(&false) {
            return Some("which was not deleted before".to_owned());
        }
        if let Some(reason) = pending.get(&object.id) {
            return Some(format!("which stays: {reason}"));
        }
        reason_to_stay(index, object, &|id| self.roots.contains_key(id))
    }
}

/// Returns the reason to keep an object that could not be judged again.
pub fn not_read(detail: impl Into<String>) -> Reason {
    Reason::new(ReasonCode::NotRead, detail)
}

/// Returns the reason to keep an object that has the name of a planned one.
pub fn replaced() -> Reason {
    Reason::new(ReasonCode::Replaced, "another object has taken its name")
}

/// Returns the reason to keep an object that changed in each of so many attempts.
pub fn unsettled(attempts: usize) -> Reason {
    Reason::new(ReasonCode::Unsettled, format!("it changed {attempts} times while it was being deleted"))
}

/// Returns the reason to keep an object that is not leaked or orphaned any more, or no member of its set.
pub(crate) fn no_longer_claimed(index: &Index<'_>, id: &ObjectId) -> Reason {
    if let Some(owner) = index.recorded_by(id).first() {
        return Reason::new(ReasonCode::Recorded, format!("{owner} lists it"));
    }
    match index.snapshot().object(id).map(|object| index.status(object)) {
        Some(OwnershipStatus::Managed(owner)) => {
            Reason::new(ReasonCode::OwnerChanged, format!("{owner} manages it now"))
        }
        Some(OwnershipStatus::Unknown(claim, why)) => {
            Reason::new(ReasonCode::OwnerUntrusted, format!("{}: {why}", claim.owner))
        }
        _ => Reason::new(ReasonCode::Unclaimed, "no owner claims it any more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::gap::GapKind;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::{Action, Actor};
    use crate::testing::{Build, gap, object, resource_type, snapshot};

    /// A definition with a resource, and a ConfigMap with a dependent that is a root of its own.
    fn cluster() -> Snapshot {
        let parent = object("", "ConfigMap", "n", "parent");
        let mut dependent = object("", "Secret", "n", "dependent").referring_to(&parent.uid);
        dependent.owner_references[0].group = "".into();
        let definition = object("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com");
        let mut read = snapshot(vec![parent, dependent, definition], vec![]);
        read.types = vec![
            resource_type("", "ConfigMap", "configmaps", true),
            resource_type("", "Secret", "secrets", true),
            resource_type("example.com", "Widget", "widgets", true),
        ];
        read
    }

    fn plan(read: &Snapshot) -> Plan {
        let mut plan = Plan::new(ClusterIdentity::default());
        let row = |object| Change::new(Action::Delete, object, None, Actor::KubectlGitops, ReasonCode::Leaked);
        plan.add_changes(read.objects.iter().map(row));
        plan
    }

    /// Returns the reason to keep the root of this name on a newer reading, after `before` happened. `keeps` is the object
    /// that its own rules keep.
    fn reason(newer: &Snapshot, name: &str, keeps: &str, before: &[(&str, DeletionResult)]) -> String {
        let planned = plan(&cluster());
        let evaluate = |_: &Index<'_>, changes: &[&Change]| -> Vec<Option<Reason>> {
            let own = |change: &&Change| (&*change.object.id.name == keeps).then(|| ReasonCode::Protected.into());
            changes.iter().map(own).collect()
        };
        let mut judge = Reevaluation::new(&planned, &evaluate);
        let root = |name: &str| planned.roots().find(|change| &*change.object.id.name == name).unwrap();
        for (name, result) in before {
            judge.end(root(name), result);
        }
        judge.reasons_to_keep(newer, &[root(name)]).remove(0).map(|reason| reason.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_unchanged_object_is_deleted_and_its_own_reason_keeps_it() {
        assert_eq!(reason(&cluster(), "parent", "", &[]), "");
        assert_eq!(reason(&cluster(), "parent", "parent", &[]), "protected");
    }

    #[test]
    fn another_object_of_the_name_and_a_new_gap_keep_it() {
        let mut newer = cluster();
        newer.objects.iter_mut().for_each(|object| object.uid = format!("{}-new", object.uid).into());
        assert!(reason(&newer, "parent", "", &[]).starts_with("replaced"));
        let mut newer = cluster();
        newer.gaps = vec![gap(GapKind::Forbidden, "nodes")];
        assert_eq!(reason(&newer, "parent", "", &[]), "not-read: nodes: forbidden");
    }

    #[test]
    fn the_reason_to_keep_an_object_says_what_became_of_its_claim() {
        let mut object = object("", "ConfigMap", "n", "a");
        let reason = |object: &ObjectMetadata, gaps: Vec<Gap>| {
            let mut read = snapshot(vec![object.clone()], vec![]);
            read.gaps = gaps;
            no_longer_claimed(&Index::build(&read), &object.id).code
        };
        assert_eq!(reason(&object, vec![]), ReasonCode::Unclaimed);
        object = object.of_kustomization("apps");
        let hidden = gap(GapKind::Forbidden, "kustomizations.kustomize.toolkit.fluxcd.io");
        assert_eq!(reason(&object, vec![hidden]), ReasonCode::OwnerUntrusted);
        let app = serde_json::json!({"data": {"spec": r#"{"labelKey": "kapp.k14s.io/app", "labelValue": "1"}"#}});
        let app =
            crate::testing::object("", "ConfigMap", "kapp", "web").label("kapp.k14s.io/is-app", "").with_content(app);
        let managed = crate::testing::object("", "ConfigMap", "n", "b")
            .label("kapp.k14s.io/app", "1")
            .annotation("kapp.k14s.io/identity", "v1;n//ConfigMap/b;v1");
        let read = snapshot(vec![managed.clone()], vec![app]);
        assert_eq!(no_longer_claimed(&Index::build(&read), &managed.id).code, ReasonCode::OwnerChanged);
    }

    #[test]
    fn a_gap_that_the_plan_showed_is_not_new() {
        let gap = |namespace: &str| Gap { namespace: Some(namespace.to_owned()), ..gap(GapKind::Forbidden, "pods") };
        let mut planned = plan(&cluster());
        planned.add_gaps([gap("a")]);
        let evaluate = |_: &Index<'_>, changes: &[&Change]| vec![None; changes.len()];
        let judge = Reevaluation::new(&planned, &evaluate);
        let mut newer = cluster();
        newer.gaps = vec![gap("a")];
        assert_eq!(judge.new_gap(&newer), None);
        newer.gaps.push(gap("b"));
        assert_eq!(judge.new_gap(&newer).and_then(|gap| gap.namespace.as_deref()), Some("b"));
    }

    #[test]
    fn a_cascade_with_an_object_that_stays_keeps_the_root() {
        let stays = "cascade: it would also delete secret/dependent -n n, which";
        assert_eq!(reason(&cluster(), "parent", "dependent", &[]), format!("{stays} stays: protected"));
        for kept in
            [DeletionResult::Failed(String::new()), DeletionResult::Unknown(String::new()), DeletionResult::NotTried]
        {
            assert_eq!(
                reason(&cluster(), "parent", "", &[("dependent", kept)]),
                format!("{stays} was not deleted before")
            );
        }
        assert_eq!(reason(&cluster(), "parent", "", &[("dependent", DeletionResult::Terminating(vec![]))]), "");
        let mut newer = cluster();
        let new = newer.objects.iter_mut().find(|object| &*object.id.name == "dependent").unwrap();
        new.uid = "new".into();
        assert_eq!(reason(&newer, "parent", "", &[]), format!("{stays} the plan does not delete"));
        let mut newer = cluster();
        let listed = newer.objects.iter_mut().find(|object| &*object.id.name == "dependent").unwrap();
        *listed = listed.clone().annotation("helm.sh/resource-policy", "keep");
        assert_eq!(reason(&newer, "parent", "", &[]), format!("{stays} helm.sh/resource-policy=keep protects"));
    }

    #[test]
    fn a_definition_is_kept_unless_its_resources_can_be_listed() {
        assert_eq!(reason(&cluster(), "widgets.example.com", "", &[]), "");
        let mut newer = cluster();
        newer.types.retain(|kind| &*kind.kind != "Widget");
        assert!(reason(&newer, "widgets.example.com", "", &[]).starts_with("cascade: no version"));
    }
}
