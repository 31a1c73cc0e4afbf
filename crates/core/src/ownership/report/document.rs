//! Serialised form of the answers, `kubectl-gitops/inventory/v1`.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::explain::Explanation;
use super::ignored::{IgnoreList, Ignored};
use super::rows::{Finding, OwnerObjects, OwnerSummary, Totals};
use super::tree::TreeNode;
use crate::kubernetes::gap::AnswerGap;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::scheme::label_report::LabelReport;

/// Schema name of the serialised form.
pub const SCHEMA: &str = "kubectl-gitops/inventory/v1";

/// Answer of `inventory`. Later versions may add fields; no field changes its meaning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InventoryDocument {
    pub schema: &'static str,
    /// Identity of the cluster; absent if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// Clusters of the answer, if it is about several, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextSummary>,
    /// Time at which reading began.
    pub taken: DateTime<Utc>,
    /// True if everything that can change the answer could be read.
    pub complete: bool,
    pub gaps: Vec<AnswerGap>,
    /// All objects that were read, by status.
    pub totals: Totals,
    /// Part of the cluster that was read, where the answer needs no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Filter that hides a part of the answer. It does not affect the totals and the counts of an owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filtered>,
    /// Findings that `--ignore` removed. They are still in the totals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<Ignored>,
    /// Rows of the answer.
    #[serde(flatten)]
    pub body: Body,
    /// Report on the labels of the chosen system, if it keeps no inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>"))]
    pub label_report: Option<LabelReport>,
    /// Leaked, orphaned and contested objects beside an answer about owners, for a page that shows both.
    #[serde(skip)]
    pub beside: Vec<Finding>,
}

impl InventoryDocument {
    /// Removes the findings that a list accepts from an answer about one status. Other answers stay as they are.
    pub fn remove_ignored(&mut self, list: &IgnoreList, status: &str) {
        let Body::Findings(findings) = &mut self.body else { return };
        let (before, mut accepted) = (findings.len(), list.entries_for(status));
        findings.retain(|finding| !accepted.accept(&finding.object));
        self.ignored = Some(accepted.into_ignored(before - findings.len()));
    }
}

/// Filter by kind and label, and the number of rows that it hides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    /// Kinds, as `deployment.apps`; empty for all.
    pub kinds: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Number of shown rows: owners in a list of owners, otherwise objects.
    pub shown: usize,
    /// Number of rows that only the filter hides.
    pub hidden: usize,
}

/// One of several clusters. The rest is absent if the cluster could not be read, or another context names it too.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextSummary {
    /// Name of the context in the kubeconfig.
    pub context: String,
    /// Another context of the same cluster. Its answer is the one that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_cluster_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// All objects that were read, by status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// Part of the cluster that was read, where the answer needs no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Report on the labels of the chosen system, if it keeps no inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>"))]
    pub label_report: Option<LabelReport>,
}

/// Rows of an answer, serialised under the name of their kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Body {
    Owners(Vec<OwnerSummary>),
    /// Owners with their objects.
    Objects(Vec<OwnerObjects>),
    /// Objects of one status.
    Findings(Vec<Finding>),
    /// Owners, their objects and dependents, nested.
    Tree(Vec<TreeNode>),
    Explanation(Box<Explanation>),
}
