//! Findings that a team knows and accepts: a list of entries, each with its reason, which `inventory --ignore` reads.

use serde::{Deserialize, Serialize};

use crate::glob::{BadPattern, Glob};
use crate::kubernetes::object::ObjectId;
use crate::yaml;

/// Statuses of findings, for the field `status` of an entry.
const STATUSES: [&str; 4] = ["leaked", "orphaned", "conflict", "unmanaged"];

/// Content of a file with accepted findings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IgnoreList {
    ignore: Vec<IgnoreEntry>,
}

/// Findings that are accepted for one reason. A field that is absent matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IgnoreEntry {
    /// Kind of any group, as `Deployment`, or with its group, as `deployment.apps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace, with `*` for any text; empty for objects of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name, with `*` for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Status of the finding, such as `leaked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Reason why the findings are accepted.
    pub reason: String,
}

/// Findings that a list removed from an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ignored {
    /// Number of findings that were removed.
    pub findings: usize,
    /// Entries of the list, in its order, except those for another status.
    pub entries: Vec<UsedEntry>,
}

/// An entry and the number of findings that it matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedEntry {
    #[serde(flatten)]
    pub entry: IgnoreEntry,
    /// Number of findings that match the entry, also if they match an earlier one.
    pub matched: usize,
}

impl IgnoreList {
    /// Reads a YAML file and checks its entries.
    ///
    /// # Errors
    /// If it is no YAML with a list `ignore`, or an entry has no reason, no object, or a bad value; the message names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let list: Self = yaml::only_document(text)?;
        for (at, entry) in list.ignore.iter().enumerate() {
            entry.check().map_err(|message| format!("entry {}: {message}", at + 1))?;
        }
        Ok(list)
    }

    pub(super) fn entries_for(&self, status: &str) -> AcceptedFindings {
        let entries = self.ignore.iter().filter(|entry| entry.status.as_deref().is_none_or(|own| own == status));
        AcceptedFindings(entries.filter_map(|entry| Some((Matcher::new(entry).ok()?, entry.clone(), 0))).collect())
    }
}

/// Entries for one status, each with the number of findings that it matches.
pub(super) struct AcceptedFindings(Vec<(Matcher, IgnoreEntry, usize)>);

impl AcceptedFindings {
    /// Returns true if an entry matches an object with the status, and counts it for each of them.
    pub(super) fn accept(&mut self, id: &ObjectId) -> bool {
        let mut is_accepted = false;
        for (matcher, _, matched) in &mut self.0 {
            let matches = matcher.matches(id);
            *matched += usize::from(matches);
            is_accepted |= matches;
        }
        is_accepted
    }

    /// Returns the entries and the number of findings that were removed.
    pub(super) fn into_ignored(self, findings: usize) -> Ignored {
        let entries = self.0.into_iter().map(|(_, entry, matched)| UsedEntry { entry, matched }).collect();
        Ignored { findings, entries }
    }
}

/// The patterns of an entry, parsed.
struct Matcher {
    /// In lower case.
    kind: Option<String>,
    namespace: Option<Glob>,
    name: Option<Glob>,
}

impl Matcher {
    fn new(entry: &IgnoreEntry) -> Result<Self, BadPattern> {
        let [namespace, name] = [&entry.namespace, &entry.name].map(|text| text.as_ref().map(pattern).transpose());
        let kind = entry.kind.as_ref().map(|kind| kind.to_lowercase());
        Ok(Self { kind, namespace: namespace?, name: name? })
    }

    fn matches(&self, id: &ObjectId) -> bool {
        let has_kind = self.kind.as_ref().is_none_or(|kind| {
            *kind == id.kind.to_lowercase()
                || (!id.group.is_empty() && *kind == id.group_kind().to_string().to_lowercase())
        });
        has_kind && fits(self.namespace.as_ref(), &id.namespace) && fits(self.name.as_ref(), &id.name)
    }
}

fn pattern(text: &String) -> Result<Glob, BadPattern> {
    Glob::parse(text.as_bytes())
}

/// Returns true if a text matches a pattern, or if there is none.
fn fits(pattern: Option<&Glob>, text: &str) -> bool {
    pattern.is_none_or(|glob| glob.matches(text.as_bytes()))
}

impl IgnoreEntry {
    fn check(&self) -> Result<(), String> {
        if self.reason.trim().is_empty() {
            return Err("the reason is empty: say why the finding is accepted".to_owned());
        }
        if [&self.kind, &self.namespace, &self.name].iter().all(|field| field.is_none()) {
            return Err("it has no kind, namespace or name, so it would match every finding".to_owned());
        }
        if let Some(status) = self.status.as_deref().filter(|status| !STATUSES.contains(status)) {
            return Err(format!("status {status:?} is none of {}", STATUSES.join(", ")));
        }
        for text in [&self.namespace, &self.name].into_iter().flatten() {
            pattern(text).map_err(|_| format!("{text:?} is no pattern; write * for any text"))?;
        }
        Ok(())
    }

    /// Returns the fields that select findings, as `kind ConfigMap, name legacy-*`.
    pub fn describe(&self) -> String {
        let fields = [("kind", &self.kind), ("namespace", &self.namespace), ("name", &self.name)];
        let given = fields.iter().filter_map(|(field, value)| Some(format!("{field} {}", value.as_ref()?)));
        given.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::index::Index;
    use crate::ownership::report::{Body, InventoryDocument, InventoryFilter, InventoryReport, Question};
    use crate::testing::{object, snapshot};

    /// Returns the answer about unmanaged objects: a Deployment and two ConfigMaps in `shop`, and a ClusterRole.
    fn unmanaged() -> InventoryDocument {
        let objects = [
            ("apps", "Deployment", "shop", "web"),
            ("", "ConfigMap", "shop", "legacy-a"),
            ("", "ConfigMap", "shop", "kept"),
            ("rbac.authorization.k8s.io", "ClusterRole", "", "legacy-b"),
        ];
        let cluster =
            snapshot(objects.map(|(group, kind, place, name)| object(group, kind, place, name)).to_vec(), vec![]);
        let index = Index::build(&cluster);
        let report = InventoryReport::new(&index, &[]);
        report.document(Body::Findings(report.findings(Question::Unmanaged, |_, _| true)), &InventoryFilter::default())
    }

    #[test]
    fn entries_match_by_kind_namespace_name_and_status() {
        for (entry, expected) in [
            ("kind: deployment", "kept legacy-a legacy-b"),
            ("kind: Deployment.apps", "kept legacy-a legacy-b"),
            ("kind: deployment.extensions", "web kept legacy-a legacy-b"),
            ("name: legacy-*", "web kept"),
            ("{name: legacy-*, namespace: ''}", "web kept legacy-a"),
            ("namespace: shop", "legacy-b"),
            ("{namespace: shop, status: leaked}", "web kept legacy-a legacy-b"),
            ("{namespace: shop, status: unmanaged}", "legacy-b"),
        ] {
            let entry = if entry.starts_with('{') { entry.to_owned() } else { format!("{{{entry}}}") };
            let list = IgnoreList::parse(&format!("ignore: [{}, reason: known}}]", &entry[..entry.len() - 1])).unwrap();
            let mut answer = unmanaged();
            let totals = answer.totals;
            answer.remove_ignored(&list, "unmanaged");
            let Body::Findings(findings) = &answer.body else { panic!("findings") };
            let mut names: Vec<&str> = findings.iter().map(|finding| &*finding.object.name).collect();
            let mut expected: Vec<&str> = expected.split(' ').collect();
            names.sort_unstable();
            expected.sort_unstable();
            assert_eq!(names, expected, "{entry}");
            let ignored = answer.ignored.unwrap();
            assert_eq!(
                (ignored.findings, answer.totals),
                (4 - names.len(), totals),
                "{entry}: the totals are of all objects"
            );
            assert_eq!(ignored.entries.len(), usize::from(!entry.contains("leaked")), "{entry}");
        }
    }

    #[test]
    fn bad_files_are_refused_with_the_entry() {
        for (text, expected) in [
            ("", "missing field `ignore`"),
            ("[]", "invalid"),
            ("ignore: [{name: a}]", "missing field `reason`"),
            ("ignore: [{name: a, reason: ' '}]", "entry 1: the reason is empty"),
            ("ignore: [{name: a, reason: b}, {reason: b}]", "entry 2: it has no kind"),
            ("ignore: [{name: a, reason: b, status: gone}]", "entry 1: status \"gone\" is none of leaked"),
            ("ignore: [{name: '[', reason: b}]", "entry 1: \"[\" is no pattern"),
            ("ignore: [{nmae: a, reason: b}]", "unknown field `nmae`"),
            ("ignore: []\n---\nignore: []", "it must be one YAML document"),
        ] {
            let error = IgnoreList::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
