//! Other programs that show what a commit deletes, run on the same repository and the same cluster as a plan.
//!
//! They print kind, namespace and name, so all answers are compared by these. What a program says of an object counts as an
//! announced deletion if it says that the object goes, also if it says that the object comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::check::{Uids, identity, is_created_by_kubernetes};
use crate::cluster::Cluster;
use crate::controlplane::bin;
use crate::{child, items, text};

/// Name of this program in the table.
pub(super) const OWN: &str = "kubectl gitops plan";

/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// A program beside this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `flux diff kustomization --recursive`, which asks the cluster.
    Flux,
    /// `flate diff ks`, which compares two folders.
    Flate,
}

/// A question to a peer.
pub(super) struct Question<'a> {
    pub(super) cluster: &'a Cluster,
    /// Namespace of the scenario, which is also the prefix of its names.
    pub(super) namespace: &'a str,
    /// Checkout with the edit.
    pub(super) folder: &'a Path,
    /// Two folders with the repository and the Kustomization of its root, without and with the edit.
    pub(super) before: &'a Path,
    pub(super) after: &'a Path,
}

/// Objects that a program says will go, as `kind/name -n namespace` in lower case, and how long it took to say so. `None` if
/// it ended with an error.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) deleted: Option<BTreeSet<String>>,
    pub(super) time: Duration,
}

/// Comparison of an answer with the deletions that happened.
#[derive(Clone, Debug)]
pub struct Score {
    pub is_answered: bool,
    /// Deleted objects of inventories that the answer does not have.
    pub missed: usize,
    /// Deleted objects that the answer does not have: those of inventories, and their consequences.
    pub missed_all: usize,
    /// Objects of the answer that stay.
    pub wrong: usize,
    pub time: Duration,
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 2] = [Self::Flux, Self::Flate];

    /// Returns the command line that is compared, for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flux => "flux diff ks --recursive",
            Self::Flate => "flate diff ks",
        }
    }

    /// Returns the name of the program, which the control plane builds.
    pub fn program(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::Flate => "flate",
        }
    }

    /// Asks the program.
    pub(super) fn ask(self, question: &Question) -> Answer {
        let start = Instant::now();
        let output = child::output_within(&mut self.command(question), LIMIT);
        let time = start.elapsed();
        // flux ends with 1 if something differs; a time-out is no answer either.
        let answered = output.ok().filter(|output| matches!(output.status.code(), Some(0 | 1)));
        let deleted = answered.map(|output| self.deleted(&String::from_utf8_lossy(&output.stdout)));
        Answer { deleted, time }
    }

    fn command(self, question: &Question) -> Command {
        let Question { cluster, namespace, folder, before, after } = question;
        let mut command = Command::new(bin(self.program()));
        command.env("KUBECONFIG", cluster.kubeconfig()).current_dir(folder);
        match self {
            Self::Flux => command
                .args(["diff", "kustomization", "root", "--recursive", "--progress-bar=false", "-n", namespace])
                .arg("--path")
                .arg(folder.join("root"))
                .arg(format!("--local-sources=GitRepository/{namespace}/repo={}", folder.display())),
            Self::Flate => command
                .args(["diff", "ks", "--output=diff", "--no-progress", "--skip-secrets=false", "--skip-crds=false"])
                .args([OsStr::new("--path"), after.as_os_str(), OsStr::new("--path-orig"), before.as_os_str()])
                .arg("--cache-dir")
                .arg(before.join(".cache")),
        };
        command
    }

    /// Returns the objects that an output says will go.
    fn deleted(self, output: &str) -> BTreeSet<String> {
        match self {
            Self::Flux => output.lines().filter_map(deleted_by_flux).collect(),
            Self::Flate => output.split("\n--- ").filter_map(deleted_by_flate).collect(),
        }
    }
}

/// Reads a line of flux, such as `► ConfigMap/shop/web deleted`.
fn deleted_by_flux(line: &str) -> Option<String> {
    let object = line.strip_prefix("► ")?.strip_suffix(" deleted")?;
    let parts: Vec<&str> = object.split('/').collect();
    match parts[..] {
        [kind, name] => Some(identity("", kind, "", name)),
        [kind, namespace, name] => Some(identity("", kind, namespace, name)),
        _ => None,
    }
}

/// Reads a part of a unified diff of flate, whose first line is `Kind namespace/name`: an object without a new line goes.
fn deleted_by_flate(part: &str) -> Option<String> {
    let (head, lines) = part.split_once('\n')?;
    let (kind, name) = head.trim_start_matches("--- ").split_once(' ')?;
    let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with("+++ ") && !line.starts_with("@@ ")).collect();
    let is_removed = lines.iter().all(|line| line.trim().is_empty() || line.starts_with('-'));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    is_removed.then(|| identity("", kind, namespace, name))
}

/// Returns the deletions that a plan announces; a race is announced.
pub(super) fn deleted_by_plan(plan: &Value) -> BTreeSet<String> {
    let goes = |change: &&Value| matches!(text(change, "/action"), "delete" | "recreate");
    let object = |change: &Value| {
        let [kind, namespace, name] =
            ["kind", "namespace", "name"].map(|key| text(&change["object"], &format!("/{key}")));
        identity("", kind, namespace, name)
    };
    items(plan, "/changes").filter(goes).map(object).collect()
}

/// Returns the identities of `kind.group/name -n namespace`, without the group.
pub(super) fn without_group(id: &str) -> String {
    let (kind, rest) = id.split_once('/').unwrap_or((id, ""));
    format!("{}/{rest}", kind.split('.').next().unwrap_or(kind))
}

/// Compares answers with what happened. `listed` has the objects of all inventories before.
pub(super) fn scores(
    answers: &BTreeMap<&'static str, Answer>,
    before: &Uids,
    after: &Uids,
    listed: &BTreeMap<String, usize>,
    is_part: impl Fn(&str) -> bool,
) -> BTreeMap<&'static str, Score> {
    // Objects that Kubernetes itself creates in a namespace are deleted with it, and no program has to say so.
    let goes = |(id, uid): &(&String, &String)| after.get(*id) != Some(uid) && !is_created_by_kubernetes(id);
    let gone: BTreeSet<String> = before.iter().filter(goes).map(|(id, _)| without_group(id)).collect();
    let score = |answer: &Answer| {
        let none = BTreeSet::new();
        let said = answer.deleted.as_ref().unwrap_or(&none);
        let missed: Vec<&String> = gone.difference(said).collect();
        Score {
            is_answered: answer.deleted.is_some(),
            missed: missed.iter().filter(|id| listed.contains_key(id.as_str())).count(),
            missed_all: missed.len(),
            wrong: said.difference(&gone).filter(|id| is_part(id) && !is_created_by_kubernetes(id)).count(),
            time: answer.time,
        }
    };
    answers.iter().map(|(name, answer)| (*name, score(answer))).collect()
}

/// Returns the objects in the inventory of a Kustomization.
pub(super) fn listed(kustomization: &Value) -> impl Iterator<Item = String> {
    items(kustomization, "/status/inventory/entries").filter_map(|entry| {
        // NAMESPACE_NAME_GROUP_KIND; the name can have underscores.
        let (namespace, rest) = text(entry, "/id").split_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let (name, _) = rest.rsplit_once('_')?;
        Some(identity("", kind, namespace, &name.replace("__", ":")))
    })
}

/// Fails with the name of the program that is missing.
pub(super) fn ensure() -> Result<()> {
    let programs: Vec<&str> = Peer::ALL.iter().map(|peer| peer.program()).collect();
    crate::controlplane::ensure(&programs).context("the other programs")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn removed_objects_are_read_from_the_outputs() {
        let flux = "► Kustomization/shop/apps diff\n► ConfigMap/shop/web deleted\n► Namespace/shop deleted\n";
        assert_eq!(Peer::Flux.deleted(flux), ["configmap/web -n shop", "namespace/shop"].map(str::to_owned).into());
        let flate = "\n--- ConfigMap shop/web\n+++ ConfigMap shop/web\n@@ -1,2 +1 @@\n-kind: ConfigMap\n-data: {}\n \n\n\
                     --- ConfigMap shop/api\n+++ ConfigMap shop/api\n@@ -1 +1,2 @@\n+kind: ConfigMap\n+data: {}\n \n\n\
                     --- ConfigMap shop/db\n+++ ConfigMap shop/db\n@@ -1,2 +1,2 @@\n kind: ConfigMap\n-v: 1\n+v: 2\n";
        assert_eq!(Peer::Flate.deleted(flate), ["configmap/web -n shop".to_owned()].into());
        assert!(Peer::Flate.deleted("").is_empty());
    }

    #[test]
    fn entries_of_an_inventory_are_objects() {
        let entries =
            json!([{"id": "shop_web__ConfigMap", "v": "v1"}, {"id": "_a__b_rbac.authorization.k8s.io_ClusterRole"}]);
        let kustomization = json!({"status": {"inventory": {"entries": entries}}});
        let listed: Vec<String> = listed(&kustomization).collect();
        assert_eq!(listed, ["configmap/web -n shop", "clusterrole/a:b"]);
    }
}
