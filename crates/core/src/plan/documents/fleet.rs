//! Plans of one tree for several clusters as one answer: what several clusters have in common stands once, with their names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::OwnerId;
use crate::ownership::report::contexts::same_clusters;
use crate::plan::{
    Alarm, BlockedByFinalizers, Change, Contested, Diff, Fidelity, FinishedPlan, Outcome, OwnerOutcome, PinnedObject,
    Plan, PlanDocument, Reason, Summary,
};
use crate::text::{join_limited, pluralize};

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/fleet/v1";

/// Number of clusters that a text names.
const NAMED_CLUSTERS: usize = 5;

/// Number of causes that are followed.
const DEEPEST: usize = 16;

/// Answer of one cluster.
pub enum ClusterAnswer {
    Planned(Box<FinishedPlan>),
    /// Nothing in the cluster follows the tree, for this reason.
    Unaffected(String),
    /// The cluster could not be read, or the tree could not be planned for it.
    Failed(Gap),
}

/// The answer of several clusters to one tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    schema: &'static str,
    /// False if a gap can change the answer.
    complete: bool,
    /// True if the API server of each planned cluster was asked about all changes.
    rehearsed: bool,
    /// Gaps of all clusters; `context` is the name of the cluster.
    gaps: Vec<AnswerGap>,
    /// Every cluster that was named, in that order.
    clusters: Vec<FleetCluster>,
    /// Outcome of each owner. `fidelity` is `unknown` where it differs between the clusters.
    owners: Vec<Folded<OwnerOutcome>>,
    /// One row for equal changes. Uid and resource version are empty in a row of several clusters.
    changes: Vec<Folded<Change>>,
    diffs: Vec<Folded<Diff>>,
    contested: Vec<Folded<Contested>>,
    blocked_by_finalizers: Vec<Folded<BlockedByFinalizers>>,
    /// Limits that the plans exceed.
    alarms: Vec<Folded<Alarm>>,
    /// Changes of all clusters by action.
    summary: Summary,
}

/// One of several clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetCluster {
    /// Context of the kubeconfig, or file of the recording without its ending.
    pub name: String,
    pub state: ClusterState,
    /// Reason why there is no plan; empty for a planned cluster.
    pub detail: String,
    /// Another name of the same cluster. Its answer is the one that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_cluster_as: Option<String>,
    /// The plan, as a run for this cluster alone gives it; `null` without one.
    pub plan: Option<Plan>,
}

/// Result of the planning for one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    Planned,
    /// Nothing in the cluster follows the tree.
    Unaffected,
    /// The cluster is planned under another name.
    SameCluster,
    /// The cluster could not be read, or the tree could not be planned for it.
    Failed,
}

/// A part of several plans, and the clusters whose plans have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Folded<T> {
    /// Names of the clusters, in their order.
    pub clusters: Vec<String>,
    #[serde(flatten)]
    pub part: T,
}

/// Everything that exactly these clusters have in common, as a plan without a cluster.
pub struct CommonPlan {
    pub clusters: Vec<String>,
    pub plan: Plan,
    /// Number of objects that are deleted with those of the plan and differ from cluster to cluster, such as Pods.
    pub differing: usize,
}

impl Fleet {
    /// Joins the answers of clusters, in their order. A cluster that was named twice counts once, with the newest recording, or
    /// the answer that has the fewest gaps. `are_recorded` is true if the clusters are recordings.
    pub fn new(answers: Vec<(String, ClusterAnswer)>, are_recorded: bool) -> Self {
        let read = answers.iter().filter_map(|(name, answer)| match answer {
            ClusterAnswer::Planned(plan) => {
                Some((&*plan.cluster().uid, (Reverse(plan.recorded()), plan.gaps().len()), &**name))
            }
            _ => None,
        });
        let same = same_clusters(read);
        let mut gaps = vec![];
        let clusters: Vec<FleetCluster> = answers
            .into_iter()
            .map(|(name, answer)| {
                let same_cluster_as = same.get(&name).cloned();
                let (state, detail, plan) = match answer {
                    ClusterAnswer::Planned(_) if same_cluster_as.is_some() => {
                        (ClusterState::SameCluster, String::new(), None)
                    }
                    ClusterAnswer::Planned(plan) => {
                        gaps.extend(plan.gaps().iter().cloned().map(|gap| gap.of_cluster(&name, are_recorded)));
                        (ClusterState::Planned, String::new(), Some((**plan).clone()))
                    }
                    ClusterAnswer::Unaffected(why) => (ClusterState::Unaffected, why, None),
                    ClusterAnswer::Failed(gap) => {
                        let detail = gap.message.clone();
                        gaps.push(AnswerGap::from(gap).of_cluster(&name, are_recorded));
                        (ClusterState::Failed, detail, None)
                    }
                };
                FleetCluster { name, state, detail, same_cluster_as, plan }
            })
            .collect();
        let rehearsed = planned(&clusters).all(|(_, plan)| plan.document.rehearsed);
        let summary = planned(&clusters).fold(Summary::default(), |sum, (_, plan)| sum + plan.summary());
        Self {
            schema: SCHEMA,
            complete: !gaps.iter().any(|gap| gap.affects_answer),
            rehearsed,
            owners: fold(&clusters, |plan| plan.owners(), owner_key, join_owners),
            changes: fold(&clusters, |plan| plan.changes(), change_key, |row, _| row.object = unpinned(row)),
            diffs: fold(&clusters, |plan| plan.diffs(), Clone::clone, |_, _| {}),
            contested: fold(&clusters, |plan| plan.contested(), Clone::clone, |_, _| {}),
            blocked_by_finalizers: fold(&clusters, |plan| plan.blocked_by_finalizers(), Clone::clone, |_, _| {}),
            alarms: fold(&clusters, |plan| plan.alarms(), alarm_key, |_, _| {}),
            summary,
            gaps,
            clusters,
        }
    }

    pub fn clusters(&self) -> &[FleetCluster] {
        &self.clusters
    }

    pub fn gaps(&self) -> &[AnswerGap] {
        &self.gaps
    }

    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Limits that the plans exceed, each with the clusters whose plans do.
    pub fn alarms(&self) -> &[Folded<Alarm>] {
        &self.alarms
    }

    /// Changes of all clusters by action.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Plans of the clusters that have one, with their names.
    pub fn plans(&self) -> impl Iterator<Item = (&str, &Plan)> {
        planned(&self.clusters)
    }

    /// Number of different clusters that were named.
    fn number(&self) -> usize {
        self.clusters.iter().filter(|cluster| cluster.state != ClusterState::SameCluster).count()
    }

    /// Returns the place of something that these clusters have in common: `in 11 of 12 clusters (not in eu)`. A cluster that
    /// could not be planned for may have it too: `in 11 of 12 clusters (unknown in eu)`.
    pub fn place(&self, clusters: &[String]) -> String {
        let number = self.number();
        match clusters {
            [one] => return format!("in cluster {one}"),
            all if all.len() == number => return format!("in all {}", pluralize(number, "cluster")),
            _ => {}
        }
        let others = self
            .clusters
            .iter()
            .filter(|cluster| cluster.state != ClusterState::SameCluster)
            .filter(|cluster| !clusters.contains(&cluster.name));
        let (unknown, without): (Vec<_>, Vec<_>) = others.partition(|cluster| cluster.state == ClusterState::Failed);
        let known = if without.len() < clusters.len().min(NAMED_CLUSTERS) {
            listed("not", &without)
        } else {
            Some(join_limited(clusters, NAMED_CLUSTERS))
        };
        let names: Vec<String> = known.into_iter().chain(listed("unknown", &unknown)).collect();
        format!("in {} of {} ({})", clusters.len(), pluralize(number, "cluster"), names.join("; "))
    }

    /// Returns a plan for each set of clusters that have something in common that no other cluster has, the largest set
    /// first. A plan also has the outcomes of the owners of its rows.
    pub fn common_plans(&self) -> Vec<CommonPlan> {
        let mut plans: BTreeMap<&[String], Plan> = BTreeMap::new();
        let (rows, differing) = self.rows_of_plans();
        let spokes: BTreeMap<Arc<str>, ClusterIdentity> =
            self.plans().flat_map(|(_, plan)| plan.spokes().clone()).collect();
        distribute(&self.owners, &mut plans, |document| &mut document.owners);
        distribute(rows, &mut plans, |document| &mut document.changes);
        distribute(&self.diffs, &mut plans, |document| &mut document.diffs);
        distribute(&self.contested, &mut plans, |document| &mut document.contested);
        distribute(&self.blocked_by_finalizers, &mut plans, |document| &mut document.blocked_by_finalizers);
        for (clusters, plan) in &mut plans {
            plan.set_spokes(spokes.clone());
            let of_rows: BTreeSet<OwnerId> = plan.changes().iter().filter_map(|change| change.owner.clone()).collect();
            let missing = self.owners.iter().filter(|row| {
                let is_wider = row.clusters.len() > clusters.len();
                is_wider && of_rows.contains(&row.part.owner) && clusters.iter().all(|name| row.clusters.contains(name))
            });
            plan.add_owners(missing.map(|row| row.part.clone()));
        }
        let mut common: Vec<CommonPlan> = plans
            .into_iter()
            .map(|(clusters, plan)| CommonPlan {
                clusters: clusters.to_vec(),
                plan,
                differing: differing.get(clusters).copied().unwrap_or_default(),
            })
            .collect();
        common.sort_by_key(|common| std::cmp::Reverse(common.clusters.len()));
        common
    }

    /// Returns the rows of the plans, and the number of the other rows by the clusters of the plan that counts them:
    /// consequences of an object that more clusters have, because a controller chose its name.
    fn rows_of_plans(&self) -> (Vec<&Folded<Change>>, BTreeMap<&[String], usize>) {
        let deleted = self.changes.iter().filter(|row| row.part.is_deletion());
        let mut by_id: BTreeMap<&ObjectId, Vec<&Folded<Change>>> = BTreeMap::new();
        deleted.for_each(|row| by_id.entry(&row.part.object.id).or_default().push(row));
        let (mut rows, mut differing) = (vec![], BTreeMap::<&[String], usize>::new());
        for row in &self.changes {
            match wider_cause(row, &by_id) {
                Some(clusters) => *differing.entry(clusters).or_default() += row.clusters.len(),
                None => rows.push(row),
            }
        }
        (rows, differing)
    }
}

/// Returns the clusters of the deletion that causes this one, if they are more than those of this one.
fn wider_cause<'f>(
    row: &Folded<Change>,
    deleted: &BTreeMap<&ObjectId, Vec<&'f Folded<Change>>>,
) -> Option<&'f [String]> {
    let mut cause = row.part.cause.as_ref();
    // Causes of others could form a circle.
    for _ in 0..DEEPEST {
        let known = deleted.get(cause?)?;
        let found = known.iter().find(|known| row.clusters.iter().all(|name| known.clusters.contains(name)))?;
        if found.clusters.len() > row.clusters.len() {
            return Some(&found.clusters);
        }
        cause = found.part.cause.as_ref();
    }
    None
}

/// Returns a word with the names of clusters; `None` without any.
fn listed(word: &str, found: &[&FleetCluster]) -> Option<String> {
    let names = found.iter().map(|cluster| &*cluster.name);
    (!found.is_empty()).then(|| format!("{word} in {}", join_limited(names, NAMED_CLUSTERS)))
}

fn planned(clusters: &[FleetCluster]) -> impl Iterator<Item = (&str, &Plan)> {
    clusters.iter().filter_map(|cluster| Some((&*cluster.name, cluster.plan.as_ref()?)))
}

/// Joins the parts of plans that have the same key, in their order. `join` changes the joined part for each further one.
fn fold<'p, T: Clone + 'p, K: Ord>(
    clusters: &'p [FleetCluster],
    parts: impl Fn(&'p Plan) -> &'p [T],
    key: impl Fn(&T) -> K,
    join: impl Fn(&mut T, &T),
) -> Vec<Folded<T>> {
    let mut positions: BTreeMap<K, usize> = BTreeMap::new();
    let mut folded: Vec<Folded<T>> = vec![];
    for (name, plan) in planned(clusters) {
        for part in parts(plan) {
            let at = *positions.entry(key(part)).or_insert(folded.len());
            match folded.get_mut(at) {
                // A plan can say the same twice.
                Some(known) if known.clusters.last().is_some_and(|last| last == name) => {}
                Some(known) => {
                    known.clusters.push(name.to_owned());
                    join(&mut known.part, part);
                }
                None => folded.push(Folded { clusters: vec![name.to_owned()], part: part.clone() }),
            }
        }
    }
    folded
}

/// Adds each part to a list of the plan of its clusters.
fn distribute<'f, T: Clone + 'f>(
    folded: impl IntoIterator<Item = &'f Folded<T>>,
    plans: &mut BTreeMap<&'f [String], Plan>,
    list: impl Fn(&mut PlanDocument) -> &mut Vec<T>,
) {
    for row in folded {
        list(&mut plans.entry(&row.clusters).or_default().document).push(row.part.clone());
    }
}

fn owner_key(row: &OwnerOutcome) -> (OwnerId, Outcome, Reason) {
    (row.owner.clone(), row.outcome, row.reason.clone())
}

fn join_owners(row: &mut OwnerOutcome, other: &OwnerOutcome) {
    if row.fidelity != other.fidelity {
        row.fidelity = Fidelity::Unknown;
    }
    row.parents.extend(other.parents.iter().cloned());
    row.dependencies.extend(other.dependencies.iter().cloned());
}

/// Returns a change without the uid and the resource version of one cluster.
fn change_key(row: &Change) -> Change {
    Change { object: unpinned(row), ..row.clone() }
}

fn unpinned(row: &Change) -> PinnedObject {
    PinnedObject::absent(row.object.id.clone())
}

fn alarm_key(alarm: &Alarm) -> (String, Option<OwnerId>, String) {
    (alarm.code.to_string(), alarm.owner.clone(), alarm.detail.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::gap::GapKind;
    use crate::plan::alarm::{AlarmCode, Remedy};
    use crate::plan::{Action, Actor, ReasonCode};

    fn owner() -> OwnerId {
        OwnerId::new("flux", "Kustomization", "flux-system", "apps")
    }

    fn row(action: Action, name: &str, uid: &str) -> Change {
        let id = ObjectId::new("", "ConfigMap", "shop", name);
        let object = PinnedObject { uid: uid.to_owned(), ..PinnedObject::absent(id) };
        Change::new(action, object, Some(owner()), Actor::KustomizeController, ReasonCode::NotInBuild)
    }

    /// Returns the plan of a cluster that deletes ConfigMaps with these names.
    fn plan(uid: &str, deleted: &[&str], fidelity: Fidelity) -> Plan {
        let mut plan = Plan::new(ClusterIdentity { uid: uid.to_owned(), server: format!("https://{uid}") });
        plan.add_changes(deleted.iter().map(|name| row(Action::Delete, name, &format!("{uid}-{name}"))));
        plan.add_owners([OwnerOutcome {
            fidelity,
            ..OwnerOutcome::new(owner(), Outcome::Applies, ReasonCode::NewRevision)
        }]);
        plan
    }

    fn fleet(answers: Vec<(&str, ClusterAnswer)>) -> Fleet {
        Fleet::new(answers.into_iter().map(|(name, answer)| (name.to_owned(), answer)).collect(), false)
    }

    fn planned(plan: Plan) -> ClusterAnswer {
        ClusterAnswer::Planned(Box::new(plan.into()))
    }

    fn gap(message: &str) -> Gap {
        Gap { kind: GapKind::Failed, subject: "cluster".to_owned(), namespace: None, message: message.to_owned() }
    }

    fn names(folded: &Folded<Change>) -> (&str, Vec<&str>, &str) {
        let clusters = folded.clusters.iter().map(String::as_str).collect();
        (&folded.part.object.id.name, clusters, &folded.part.object.uid)
    }

    #[test]
    fn equal_rows_stand_once_and_other_rows_keep_what_pins_them() {
        let fleet = fleet(vec![
            ("eu", planned(plan("1", &["a", "b"], Fidelity::Verified))),
            ("us", planned(plan("2", &["a"], Fidelity::Unknown))),
        ]);
        let rows: Vec<_> = fleet.changes.iter().map(names).collect();
        assert_eq!(rows, [("a", vec!["eu", "us"], ""), ("b", vec!["eu"], "1-b")]);
        assert_eq!((fleet.owners.len(), fleet.owners[0].part.fidelity), (1, Fidelity::Unknown));
        assert_eq!((fleet.summary.delete, fleet.complete), (3, true));
        let alone = fleet.clusters[0].plan.as_ref().unwrap();
        assert_eq!(alone, &plan("1", &["a", "b"], Fidelity::Verified), "as a single run gives it");
    }

    #[test]
    fn common_plans_partition_the_rows_and_repeat_the_outcome_of_their_owners() {
        let fleet = fleet(vec![
            ("eu", planned(plan("1", &["a", "b"], Fidelity::Verified))),
            ("us", planned(plan("2", &["a"], Fidelity::Verified))),
            ("ap", planned(plan("3", &["a", "b"], Fidelity::Verified))),
        ]);
        let common = fleet.common_plans();
        let parts: Vec<_> = common
            .iter()
            .map(|part| (fleet.place(&part.clusters), part.plan.changes().len(), part.plan.owners().len()))
            .collect();
        let expected = [("in all 3 clusters".to_owned(), 1, 1), ("in 2 of 3 clusters (not in us)".to_owned(), 1, 1)];
        assert_eq!(parts, expected);
    }

    /// Pods of a Deployment have other names in each cluster, and those of a ReplicaSet that only one has are its own.
    #[test]
    fn what_is_deleted_with_a_common_object_is_counted_where_its_names_differ() {
        let id = |kind, name: &str| ObjectId::new("", kind, "shop", name);
        let with = |uid: &str, pods: &[&str]| {
            let mut plan = plan(uid, &[], Fidelity::Verified);
            let row = |id, cause: Option<ObjectId>| {
                let row = Change { object: PinnedObject::absent(id), ..row(Action::Delete, "", "") };
                Change { cause, owner: None, ..row }
            };
            plan.add_changes([row(id("Deployment", "web"), None)]);
            plan.add_changes([row(id("ReplicaSet", "web-1"), Some(id("Deployment", "web")))]);
            plan.add_changes(pods.iter().map(|pod| row(id("Pod", pod), Some(id("ReplicaSet", "web-1")))));
            planned(plan)
        };
        let fleet = fleet(vec![("eu", with("1", &["a", "b"])), ("us", with("2", &["c"]))]);
        let common = fleet.common_plans();
        let parts: Vec<_> = common.iter().map(|part| (part.plan.changes().len(), part.differing)).collect();
        assert_eq!((parts, fleet.changes.len()), (vec![(2, 3)], 5));
    }

    #[test]
    fn a_cluster_without_a_plan_says_why_and_only_a_failed_one_is_a_gap() {
        let fleet = fleet(vec![
            ("eu", planned(plan("1", &["a"], Fidelity::Verified))),
            ("again", planned(plan("1", &["a"], Fidelity::Verified))),
            ("other", ClusterAnswer::Unaffected("no source of this cluster".to_owned())),
            ("down", ClusterAnswer::Failed(gap("no answer"))),
        ]);
        let states: Vec<_> = fleet.clusters.iter().map(|cluster| (cluster.state, &*cluster.detail)).collect();
        let expected = [
            (ClusterState::Planned, ""),
            (ClusterState::SameCluster, ""),
            (ClusterState::Unaffected, "no source of this cluster"),
            (ClusterState::Failed, "no answer"),
        ];
        assert_eq!(states, expected);
        assert_eq!(fleet.clusters[1].same_cluster_as.as_deref(), Some("eu"));
        assert_eq!((fleet.complete, fleet.summary.delete, fleet.gaps.len()), (false, 1, 1));
        assert_eq!(fleet.gaps[0].context.as_deref(), Some("down"));
        assert_eq!(fleet.place(&["eu".to_owned()]), "in cluster eu");
    }

    #[test]
    fn a_cluster_that_failed_is_not_said_to_lack_what_the_others_have() {
        let deletes = |uid: &str| planned(plan(uid, &["a"], Fidelity::Verified));
        let fleet = fleet(vec![
            ("eu", deletes("1")),
            ("us", deletes("2")),
            ("ap", deletes("3")),
            ("other", ClusterAnswer::Unaffected("no source of this cluster".to_owned())),
            ("down", ClusterAnswer::Failed(gap("no answer"))),
        ]);
        let place = |names: &[&str]| fleet.place(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(place(&["eu", "us", "ap"]), "in 3 of 5 clusters (not in other; unknown in down)");
        assert_eq!(place(&["eu", "us"]), "in 2 of 5 clusters (eu, us; unknown in down)");
    }

    #[test]
    fn an_alarm_names_the_clusters_that_raise_it() {
        let alarmed = |uid: &str, detail: &str| {
            let mut plan = plan(uid, &["a"], Fidelity::Verified);
            let detail = detail.to_owned();
            plan.set_alarms(vec![Alarm::new(AlarmCode::OwnerEmptied, Some(&owner()), detail, Remedy::CheckPaths)]);
            planned(plan)
        };
        let fleet = fleet(vec![
            ("eu", alarmed("1", "all of 3")),
            ("us", alarmed("2", "all of 3")),
            ("ap", alarmed("3", "all of 9")),
            ("calm", planned(plan("4", &["a"], Fidelity::Verified))),
        ]);
        let alarms: Vec<_> = fleet.alarms.iter().map(|row| (row.clusters.join(" "), &*row.part.detail)).collect();
        assert_eq!(alarms, [("eu us".to_owned(), "all of 3"), ("ap".to_owned(), "all of 9")]);
        assert_eq!(fleet.place(&fleet.alarms[0].clusters), "in 2 of 4 clusters (eu, us)");
    }
}
