//! Report on qbec's labels: objects by application, environment, tag and component, with copied metadata separated from
//! genuine metadata.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::{APPLICATION, ENVIRONMENT, SCHEME, TAG, component, gc_eligibility};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::scheme::GcEligibility;
use crate::ownership::scheme::claim::Strength;
use crate::ownership::scheme::label_report::{LabelReport, LabelledObject, NONE, ReportTable};

/// Origin of the metadata of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum MetadataOrigin {
    /// qbec wrote it for this object.
    Genuine,
    /// It was written for another object, or a controller copied it to an object that it created.
    Copied,
    /// Only the labels, which qbec did not write itself: most likely copied.
    Unproven,
}

impl MetadataOrigin {
    fn of(strength: Strength) -> Self {
        match strength {
            Strength::Bound | Strength::Corroborated => Self::Genuine,
            Strength::Contradicted => Self::Copied,
            Strength::Bare => Self::Unproven,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::Copied => "copied",
            Self::Unproven => "unproven",
        }
    }
}

#[derive(Serialize)]
struct GroupMember {
    #[serde(flatten)]
    object: ObjectId,
    origin: MetadataOrigin,
    evidence: String,
}

/// The objects of one application, environment, tag and component.
#[derive(Serialize)]
struct ObjectGroup {
    /// Empty if the label is missing.
    application: String,
    /// Empty if the label is missing.
    environment: String,
    /// An empty tag is not the same as none.
    tag: Option<String>,
    /// Empty if the annotation is missing.
    component: String,
    /// Reason why no run of qbec can select these objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<&'static str>,
    objects: Vec<GroupMember>,
}

impl ObjectGroup {
    fn count(&self, origin: MetadataOrigin) -> String {
        self.objects.iter().filter(|member| member.origin == origin).count().to_string()
    }

    /// Returns the cells that identify the group.
    fn place(&self) -> Vec<String> {
        let tag = match self.tag.as_deref() {
            None => NONE,
            Some("") => "\"\"",
            Some(tag) => tag,
        };
        vec![or_none(&self.application), or_none(&self.environment), tag.to_owned(), or_none(&self.component)]
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}

/// Returns the report on all selected objects.
pub(super) fn report(_: &Snapshot, labelled: &[LabelledObject<'_>]) -> LabelReport {
    let groups = grouped(labelled);
    let group_rows = groups.iter().map(|group| {
        let counts = [MetadataOrigin::Genuine, MetadataOrigin::Copied, MetadataOrigin::Unproven]
            .map(|origin| group.count(origin));
        [group.place(), counts.to_vec(), vec![group.unreachable.unwrap_or_default().to_owned()]].concat()
    });
    let object_rows = groups.iter().flat_map(|group| {
        group.objects.iter().map(|member| {
            let id = &member.object;
            let cells = [&*id.namespace, &*id.kind, &*id.name, member.origin.as_str(), &*member.evidence];
            [group.place(), cells.map(str::to_owned).to_vec()].concat()
        })
    });
    LabelReport {
        system: SCHEME.system,
        groups: ReportTable {
            columns: &["app", "env", "tag", "component", "genuine", "copied", "unproven", "note"],
            rows: group_rows.collect(),
        },
        objects: ReportTable {
            columns: &["app", "env", "tag", "component", "namespace", "kind", "name", "origin", "evidence"],
            rows: object_rows.collect(),
        },
        details: json!(groups),
        warnings: vec![],
        replaces_owners: true,
    }
}

fn grouped(labelled: &[LabelledObject<'_>]) -> Vec<ObjectGroup> {
    let mut groups: BTreeMap<(&str, &str, Option<&str>, &str), ObjectGroup> = BTreeMap::new();
    for LabelledObject { object, claim, .. } in labelled.iter().filter(|row| row.is_selected) {
        let application = object.labels.get(APPLICATION).unwrap_or_default();
        let environment = object.labels.get(ENVIRONMENT).unwrap_or_default();
        let (tag, component) = (object.labels.get(TAG), component(object));
        let group = groups.entry((application, environment, tag, component)).or_insert_with(|| ObjectGroup {
            application: application.to_owned(),
            environment: environment.to_owned(),
            tag: tag.map(str::to_owned),
            component: component.to_owned(),
            unreachable: match gc_eligibility(object) {
                GcEligibility::NeverCollected(reason) => Some(reason),
                _ => None,
            },
            objects: vec![],
        });
        let (origin, evidence) = (MetadataOrigin::of(claim.strength), claim.evidence.to_string());
        group.objects.push(GroupMember { object: object.id.clone(), origin, evidence });
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::ObjectMetadata;
    use crate::ownership::index::Index;
    use crate::ownership::report::label_reports;
    use crate::ownership::schemes::qbec::{COMPONENT, LAST_APPLIED};
    use crate::testing::{Build, object, snapshot};

    fn labelled(name: &str, environment: &str) -> ObjectMetadata {
        let bare = object("", "ConfigMap", "shop", name).label(APPLICATION, "shop").label(ENVIRONMENT, environment);
        bare.annotation(COMPONENT, "web").annotation(LAST_APPLIED, &format!("/ConfigMap/shop/{name}"))
    }

    #[test]
    fn grouped_by_everything_and_judged_one_by_one() {
        let objects = vec![
            labelled("a", "dev"),
            labelled("b", "dev").annotation(COMPONENT, "mail"),
            labelled("c", "dev").label(TAG, "pr-1"),
            labelled("d", "dev").label(TAG, ""),
            labelled("e", "prod"),
            labelled("copy", "dev").annotation(LAST_APPLIED, "/ConfigMap/shop/a"),
            object("", "ConfigMap", "shop", "labels").label(APPLICATION, "shop").label(ENVIRONMENT, "dev"),
            object("", "ConfigMap", "shop", "other"),
        ];
        let snapshot = snapshot(objects, vec![]);
        let report = label_reports::label_report("qbec", &Index::build(&snapshot), &|_| true).unwrap();
        let groups: Vec<Vec<&str>> =
            report.groups.rows.iter().map(|row| row[1..].iter().map(String::as_str).collect()).collect();
        let unreachable = "qbec cannot select an empty tag";
        let expected = [
            ["dev", "<none>", "<none>", "0", "0", "1", ""],
            ["dev", "<none>", "mail", "1", "0", "0", ""],
            ["dev", "<none>", "web", "1", "1", "0", ""],
            ["dev", "\"\"", "web", "1", "0", "0", unreachable],
            ["dev", "pr-1", "web", "1", "0", "0", ""],
            ["prod", "<none>", "web", "1", "0", "0", ""],
        ];
        assert_eq!(groups, expected);
        let objects: Vec<(&str, &str)> = report.objects.rows.iter().map(|row| (&*row[6], &*row[7])).collect();
        let expected = [
            ("labels", "unproven"),
            ("b", "genuine"),
            ("a", "genuine"),
            ("copy", "copied"),
            ("d", "genuine"),
            ("c", "genuine"),
            ("e", "genuine"),
        ];
        assert_eq!(objects, expected);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["qbec"][3]["tag"], "");
        assert!(json["qbec"][0]["tag"].is_null() && json["qbec"][3]["unreachable"] == unreachable);
    }
}
