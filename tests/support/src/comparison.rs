//! Compares what a system's own collector deletes with what the binary plans, by uid.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use serde_json::Value;
use xtask::cluster::Cluster;

use crate::folder::{folder, reports};
use crate::gitops::{Run, gitops};

/// A recording of the cluster, made by the binary.
pub fn snapshot(cluster: &Cluster, name: &str) -> Snapshot {
    let file = folder(&format!("snapshot-{name}")).join("cluster.json");
    let run = gitops(cluster, &["snapshot", file.to_str().unwrap()]);
    assert!([0, 6].contains(&run.code), "a plan, perhaps with an alarm: {}", run.stderr);
    kubectl_gitops::tools::snapshot_file::read(&file).unwrap()
}

/// The rows of a plan in JSON: uid, and `Ok(reason)` for a deletion that is no cascade or `Err(reason)` for an object that
/// stays.
pub fn rows(run: &Run) -> BTreeMap<String, Result<String, String>> {
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let text = |row: &Value, pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let row = |row: &Value| {
        let reason = crate::tree_plan::reason(row);
        let judged = match (text(row, "/action").as_str(), row["cause"].is_null()) {
            ("delete", true) => Ok(reason),
            ("delete", false) => Err(format!("cascade of {}", text(row, "/cause/name"))),
            _ => Err(reason),
        };
        (text(row, "/object/uid"), judged)
    };
    plan["changes"].as_array().unwrap().iter().map(row).collect()
}

/// Deletions of two collectors in one case, by `Kind/name`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Number of objects that both delete.
    pub both: usize,
    /// Objects that only the other deletes, with our reason.
    pub only_theirs: BTreeMap<String, String>,
    /// Objects that only this tool deletes, with its reason.
    pub only_ours: BTreeMap<String, String>,
    /// Deleted by the other, and no word of it in our plan.
    pub unexplained: BTreeSet<String>,
}

/// Compares by uid and names by `Kind/name`.
pub fn compare(snapshot: &Snapshot, theirs: &BTreeSet<String>, run: &Run) -> Difference {
    let names: BTreeMap<&str, &ObjectId> = snapshot.objects.iter().map(|object| (&*object.uid, &object.id)).collect();
    let name = |uid: &str| names.get(uid).map_or_else(|| uid.to_owned(), |id| format!("{}/{}", id.kind, id.name));
    let ours = rows(run);
    let mut difference = Difference::default();
    for uid in theirs {
        match ours.get(uid) {
            Some(Ok(_)) => difference.both += 1,
            Some(Err(reason)) => drop(difference.only_theirs.insert(name(uid), reason.clone())),
            None => drop(difference.unexplained.insert(name(uid))),
        }
    }
    for (uid, judged) in &ours {
        if let Ok(reason) = judged
            && !theirs.contains(uid)
        {
            difference.only_ours.insert(name(uid), reason.clone());
        }
    }
    difference
}

/// The lines of a table `case → theirs → ours → why`, printed to standard error and written below the target
/// folder.
#[derive(Debug, Default)]
pub struct Table(String);

impl Table {
    pub fn add(&mut self, case: &str, difference: &Difference) {
        let Difference { both, only_theirs, only_ours, unexplained } = difference;
        let theirs = both + only_theirs.len() + unexplained.len();
        let ours = both + only_ours.len();
        let why: Vec<String> =
            only_theirs.iter().chain(only_ours).map(|(name, why)| format!("{name}: {why}")).collect();
        let why = if why.is_empty() { "equal".to_owned() } else { why.join("; ") };
        let _ = writeln!(self.0, "{case:<60} {theirs:>6} {ours:>5}  {why}");
        for name in unexplained {
            let _ = writeln!(self.0, "    not in our plan: {name}");
        }
    }

    /// Adds a line of words.
    pub fn note(&mut self, case: &str, words: &str) {
        let _ = writeln!(self.0, "{case:<60} {words}");
    }

    /// Plays a case of each seed, which returns the number of objects that both delete, and writes the table.
    pub fn play(seeds: Range<u64>, case: impl Fn(u64, &mut Self) -> usize, name: &str) {
        let mut table = Self::default();
        let both: usize = seeds.clone().map(|seed| case(seed, &mut table)).sum();
        table.note(
            "all",
            &format!("{} cases, {both} objects deleted by both, 0 unexplained differences", seeds.count()),
        );
        table.tell(name);
    }

    /// Writes the table.
    pub fn tell(&self, name: &str) {
        let text = format!("{:<60} {:>6} {:>5}  why\n{}", "case", "theirs", "ours", self.0);
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::fs::write(reports().join(name), text).expect("the table is written");
    }
}
