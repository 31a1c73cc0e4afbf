//! Remarks on the changes of a release, for people.

use std::collections::BTreeSet;

use serde_json::Value;

use super::actions::records::{has_failed_install, has_failed_upgrade};
use super::change::{Change, was_rolled_back};
use super::render::release_charts::without_metadata;
use crate::kubernetes::object::Resource;

/// Number of changed values that are named.
const NAMED_VALUES: usize = 3;

/// Describes what changes in a release, for people.
pub(super) fn described(live: &Resource, change: &Change) -> Vec<String> {
    let mut remarks = vec![];
    let new = &change.new.chart;
    let Some(old) = &change.old else {
        let version = without_metadata(&new.version);
        let after = if has_failed_upgrade(live) {
            ", after an upgrade that failed"
        } else if has_failed_install(live) {
            ", after an installation that failed"
        } else if was_rolled_back(live) {
            ", after an upgrade that failed and was rolled back"
        } else {
            ""
        };
        return vec![format!("chart {} {version}{after}", new.name)];
    };
    let [before, after] = [&old.chart, new].map(|chart| without_metadata(&chart.version));
    if before != after {
        remarks.push(format!("chart {} {before} → {after}", new.name));
    } else if old.chart.version != new.version {
        remarks.push(format!("chart {} {after} of another revision", new.name));
    } else if old.chart.name != new.name {
        remarks.push(format!("chart {} becomes {} {after}", old.chart.name, new.name));
    }
    let is_private = old.values.is_private || change.new.values.is_private;
    if !is_private && !old.values.is_same(&change.new.values) {
        let [old, new] = [old, &change.new].map(|version| version.values.merged());
        let mut paths = vec![];
        add_changed_paths("", &old, &new, &mut paths);
        let more = paths.len().saturating_sub(NAMED_VALUES);
        paths.truncate(NAMED_VALUES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        remarks.push(format!("values {}{more}", paths.join(", ")));
    }
    remarks
}

/// Adds the paths at which two values differ.
fn add_changed_paths(path: &str, old: &Value, new: &Value, paths: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            paths.push(path.to_owned());
        }
        return;
    };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let [old, new] = [before, after].map(|fields| fields.get(key).unwrap_or(&Value::Null));
        add_changed_paths(&below, old, new, paths);
    }
}
