//! A plan as findings for a CI system: its alarms, gaps, owners in doubt and deletions.
//!
//! The formats `sarif`, `gitlab` and `junit` show the same findings. A plan knows no files, so the place of a finding is
//! its owner: `Kustomization/flux-system/apps`.

use super::gaps;
use super::plan::{action, owners_in_doubt, reason, shown_alarms};
use super::text::sanitize::one_line;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::alarm::AlarmCode;
use gitops_core::plan::fleet::Fleet;
use gitops_core::plan::{Action, Alarm, OwnerOutcome, Plan};
use gitops_core::text::sha256;

/// Place of findings without an owner.
const CLUSTER: &str = "cluster";

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The plan exceeds a limit.
    Alarm,
    /// Something is not known.
    Gap,
    /// An owner applies nothing, or an object is deleted.
    Warning,
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFinding {
    pub severity: Severity,
    /// Stable code: of an alarm, or of a reason in docs/plan.md.
    pub rule: String,
    /// Owner, as `Kustomization/flux-system/apps`, or `cluster`.
    pub place: String,
    /// Identity of the object that is affected, or of the owner.
    pub subject: String,
    /// Text that tells it apart from others with the same rule, place and subject; empty if there is only one.
    pub distinction: String,
    pub message: String,
}

impl ReportedFinding {
    fn new(severity: Severity, rule: String, owner: Option<&OwnerId>, subject: &str, message: &str) -> Self {
        let place = owner.map_or_else(|| CLUSTER.to_owned(), place);
        let [subject, message] = [subject, message].map(|text| one_line(text).into_owned());
        Self { severity, rule, place, subject, distinction: String::new(), message }
    }

    /// Returns the same finding as one of several with the same rule, place and subject.
    fn distinguished_by(self, distinction: &str) -> Self {
        Self { distinction: one_line(distinction).into_owned(), ..self }
    }

    /// Returns the name of the finding: no other one in its place has the same.
    pub fn name(&self) -> String {
        let name = format!("{}: {}", self.subject, self.rule);
        if self.distinction.is_empty() { name } else { format!("{name}: {}", self.distinction) }
    }

    /// Returns the same finding in some of several clusters: `in cluster eu`.
    #[must_use]
    pub(super) fn in_place(self, place: &str) -> Self {
        let place = one_line(place.trim_start());
        Self { subject: format!("{} {place}", self.subject), message: format!("{place}: {}", self.message), ..self }
    }

    /// Returns a digest that stays the same in later plans with this finding.
    pub fn fingerprint(&self) -> String {
        let parts: Vec<&str> = [&*self.rule, &self.place, &self.subject, &self.distinction]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        sha256(parts.join("\n").as_bytes())
    }
}

/// Returns the alarms of several clusters, and what could not be read of them.
pub(super) fn findings_of_fleet(fleet: &Fleet) -> Vec<ReportedFinding> {
    let shown = fleet.alarms().iter().filter(|row| row.part.code != AlarmCode::Incomplete);
    let alarms = shown.map(|row| alarm(&row.part).in_place(&fleet.place(&row.clusters)));
    let gaps = fleet.gaps().iter().filter(|gap| gap.affects_answer);
    alarms.chain(gaps.map(|found| gap(found).in_place(&gaps::place(found)))).collect()
}

fn alarm(alarm: &Alarm) -> ReportedFinding {
    let owner = alarm.owner.as_ref();
    let subject = owner.map_or_else(|| CLUSTER.to_owned(), ToString::to_string);
    let finding = ReportedFinding::new(Severity::Alarm, alarm.code.to_string(), owner, &subject, &alarm.detail);
    match alarm.code {
        // A plan can have several of these.
        AlarmCode::StillReferenced | AlarmCode::FileEmptied | AlarmCode::Denied => {
            finding.distinguished_by(&alarm.detail)
        }
        _ => finding,
    }
}

fn gap(gap: &Gap) -> ReportedFinding {
    let namespace = gap.namespace.as_deref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
    let message = format!("{}{namespace}: {}", gap.subject, gap.message);
    let finding = ReportedFinding::new(Severity::Gap, "gap".to_owned(), None, &gap.subject, &message);
    finding.distinguished_by(gap.namespace.as_deref().unwrap_or_default())
}

/// Returns the findings of a plan, alarms first.
pub fn findings(plan: &Plan) -> Vec<ReportedFinding> {
    let mut findings: Vec<ReportedFinding> =
        shown_alarms(plan).map(alarm).chain(plan.counting_gaps().map(gap)).collect();
    for (what, owners) in owners_in_doubt(plan) {
        for OwnerOutcome { owner, reason, .. } in owners {
            let (rule, subject) = (reason.code.to_string(), owner.to_string());
            let message = format!("{owner} is {what}: {reason}");
            findings.push(ReportedFinding::new(Severity::Warning, rule, Some(owner), &subject, &message));
        }
    }
    for change in plan.changes().iter().filter(|row| row.is_deletion() || row.action == Action::Unknown) {
        let (rule, subject) = (change.reason.code.to_string(), change.object.id.to_string());
        let message = format!("{} {subject}: {}", action(change), reason(plan, change));
        findings.push(ReportedFinding::new(Severity::Warning, rule, change.owner.as_ref(), &subject, &message));
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn place(OwnerId { kind, namespace, name, .. }: &OwnerId) -> String {
    let parts = [&**kind, namespace, name];
    one_line(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::format::Format;
    use crate::output::text::table::Look;
    use gitops_core::kubernetes::gap::GapKind;
    use gitops_core::kubernetes::object::ObjectId;
    use gitops_core::kubernetes::snapshot::ClusterIdentity;
    use gitops_core::plan::{Actor, Change, FinishedPlan, Outcome, PinnedObject, ReasonCode};
    use serde_json::Value;

    /// Returns a plan with an alarm, a gap, a blocked owner, a deletion and an update, whose names are this text.
    fn plan(text: &str) -> FinishedPlan {
        let [system, kind, namespace] = ["flux", "Kustomization", "flux-system"].map(str::to_owned);
        let owner = OwnerId { system, kind, namespace, name: text.to_owned() };
        let row = |action, name: &str| {
            let id = ObjectId::new("", "ConfigMap", "shop", name);
            let object = PinnedObject { id, uid: "u".to_owned(), resource_version: "1".to_owned() };
            Change::new(action, object, Some(owner.clone()), Actor::KustomizeController, ReasonCode::NotInBuild)
        };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes([row(Action::Delete, text), row(Action::Update, "updated")]);
        plan.add_owners([OwnerOutcome::new(owner.clone(), Outcome::Blocked, ReasonCode::Suspended)]);
        let (subject, message) = ("secrets".to_owned(), text.to_owned());
        plan.add_gaps([Gap { kind: GapKind::Forbidden, subject, namespace: None, message }]);
        let detail = text.to_owned();
        plan.set_alarms(vec![Alarm { code: AlarmCode::OwnerEmptied, owner: Some(owner), detail, remedy: None }]);
        plan.into()
    }

    fn document(format: Format, plan: &FinishedPlan) -> Value {
        serde_json::from_str(&format.render(plan, Look::whole(true)).unwrap()).unwrap()
    }

    #[test]
    fn every_report_has_the_alarm_the_gap_the_blocked_owner_and_the_deletion() {
        let plan = plan("apps");
        let rules = ["owner-emptied", "gap", "suspended", "not-in-build"];
        assert_eq!(findings(&plan).iter().map(|finding| &*finding.rule).collect::<Vec<_>>(), rules);

        let sarif = document(Format::Sarif, &plan);
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        let levels: Vec<_> = results.iter().map(|result| result["level"].as_str().unwrap()).collect();
        assert_eq!(levels, ["error", "error", "warning", "warning"]);
        let location = &results[3]["locations"][0];
        assert_eq!(location["physicalLocation"]["artifactLocation"]["uri"], "Kustomization/flux-system/apps");
        assert_eq!(location["logicalLocations"][0]["fullyQualifiedName"], "configmap/apps -n shop");

        let gitlab = document(Format::Gitlab, &plan);
        let severities: Vec<_> =
            gitlab.as_array().unwrap().iter().map(|row| row["severity"].as_str().unwrap()).collect();
        assert_eq!(severities, ["blocker", "critical", "minor", "minor"]);
        let fingerprints: std::collections::BTreeSet<_> =
            gitlab.as_array().unwrap().iter().map(|row| row["fingerprint"].as_str().unwrap()).collect();
        assert_eq!(fingerprints.len(), 4);

        let junit = Format::Junit.render(&plan, Look::whole(true)).unwrap();
        assert!(junit.contains("prune --plan\" tests=\"4\" failures=\"1\" errors=\"1\">"), "{junit}");
        assert!(junit.contains("<failure type=\"owner-emptied\" message=\"apps\"/>"), "{junit}");
    }

    #[test]
    fn alarms_with_one_code_differ_in_name_and_fingerprint() {
        let alarm = |detail: &str| Alarm {
            code: AlarmCode::StillReferenced,
            owner: None,
            detail: detail.to_owned(),
            remedy: None,
        };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.set_alarms(vec![alarm("this deletes one"), alarm("this deletes two")]);
        let found = findings(&plan);
        assert_ne!(found[0].fingerprint(), found[1].fingerprint());
        let names = found.iter().map(ReportedFinding::name);
        let expected = ["one", "two"].map(|name| format!("cluster: still-referenced: this deletes {name}"));
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_plan_without_findings_is_an_empty_report() {
        let plan = FinishedPlan::from(Plan::new(ClusterIdentity::default()));
        assert_eq!(document(Format::Sarif, &plan)["runs"][0]["results"], serde_json::json!([]));
        assert_eq!(document(Format::Gitlab, &plan), serde_json::json!([]));
        assert!(
            Format::Junit
                .render(&plan, Look::whole(true))
                .unwrap()
                .ends_with("tests=\"0\" failures=\"0\" errors=\"0\">\n</testsuites>\n")
        );
    }

    #[test]
    fn text_of_others_is_no_xml() {
        let hostile = plan("\"/></testcase><failure message=\"x\u{1b}\u{ffff}]]>&amp;<!--");
        let elements =
            |plan: &FinishedPlan| Format::Junit.render(plan, Look::whole(true)).unwrap().matches('<').count();
        assert_eq!(elements(&hostile), elements(&plan("apps")));
        let xml = Format::Junit.render(&hostile, Look::whole(true)).unwrap();
        assert!(!xml.contains(['\u{1b}', '\u{ffff}']) && xml.matches('"').count().is_multiple_of(2), "{xml}");
    }
}
