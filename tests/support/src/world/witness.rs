//! Judges each DELETE with rules that are written independently of the program's.
//!
//! A deletion that a client could not know to be wrong is no violation: a change after its last read. But that read must be in its place: the content
//! of a Namespace or a definition after the deletion before, the owners after the object itself.

use super::objects::{PROTECTIONS, claim, inventory_id, key, type_of, uid};
use super::{Key, State};

impl State {
    /// Records everything about a deletion that must not happen.
    pub(crate) fn judge_deletion(&mut self, root: &Key) {
        let mut found = vec![];
        for own in self.cascade(root) {
            let object = &self.objects[&own];
            let known = own != *root && self.changed_after_reading(root, &own);
            let mut add = |why: &str| found.push(format!("{root:?} takes {own:?}, {why}"));
            let is_row = self.expected.rows.contains(uid(object));
            if !is_row && !known {
                add("which is no row of the plan");
            }
            if self.refused.contains(uid(object)) {
                add("whose own deletion was refused");
            }
            let annotations = &object["metadata"]["annotations"];
            if PROTECTIONS.iter().any(|(key, value)| annotations[key] == *value) && !known {
                add("which is protected");
            }
            let labels = self.expected.labels.get(uid(object));
            if labels.is_some_and(|labels| *labels != claim(object)) && !known {
                add("whose labels changed");
            }
            // An inventory says nothing about an object that the client has not seen.
            if let Some(owner) = self.recorder(&own).filter(|_| is_row || !known)
                && !self.owner_changed_after_reading(root, &owner)
            {
                add(&format!("which {} lists", owner.2));
            }
        }
        let object = &self.objects[root];
        if object["metadata"]["ownerReferences"].is_array() {
            found.push(format!("{root:?} has an owner reference"));
        }
        let owner = claim(object)[0].as_str().map(|name| key("kustomizations", "flux-system", name));
        if let Some(owner) = owner.filter(|owner| !self.owner_changed_after_reading(root, owner)) {
            let is_ready = self.objects.get(&owner).map(|owner| owner["status"]["conditions"][0]["status"] == "True");
            match (self.expected.orphaned.contains(uid(object)), is_ready) {
                (true, Some(_)) => found.push(format!("{root:?} was orphaned, and {} exists", owner.2)),
                (false, None) => found.push(format!("{root:?} was leaked, and {} is gone", owner.2)),
                (false, Some(false)) => found.push(format!("{root:?} was leaked, and {} is not ready", owner.2)),
                _ => {}
            }
        }
        self.violations.extend(found);
    }

    /// An owner whose inventory lists an object.
    fn recorder(&self, own: &Key) -> Option<Key> {
        let id = inventory_id(own);
        let lists = |owner: &serde_json::Value| {
            let entries = owner["status"]["inventory"]["entries"].as_array();
            entries.is_some_and(|entries| entries.iter().any(|entry| entry["id"] == *id))
        };
        self.objects.iter().find(|(key, owner)| key.0 == "kustomizations" && lists(owner)).map(|(key, _)| key.clone())
    }

    /// Returns true if an object of a cascade changed after the client listed it for the last time before this DELETE.
    fn changed_after_reading(&self, root: &Key, own: &Key) -> bool {
        let is_listed_anew = ["namespaces", "customresourcedefinitions"].contains(&root.0);
        let since = match is_listed_anew && self.is_sequential {
            true => self.history.last_delete,
            false => self.history.execution,
        };
        let served = self.served.get(own.0).copied().unwrap_or_default();
        // Of deletions that run at the same time, each has its own discovery.
        let discovery = if self.is_sequential { self.history.discovery } else { since };
        if served > discovery && self.history.discovery >= since {
            return true;
        }
        let list = |namespace: &str| self.history.lists.get(&(type_of(own.0).plural, namespace.to_owned())).copied();
        let read = list(&own.1).max(list("")).unwrap_or_default();
        read > since && self.history.changed.get(own).copied().unwrap_or_default() > read
    }

    /// Returns true if an owner changed, appeared or went after the client read the owners for this object.
    fn owner_changed_after_reading(&self, root: &Key, owner: &Key) -> bool {
        let object = self.history.gets.get(root).copied().unwrap_or_default();
        let list = self.history.lists.get(&("kustomizations", String::new())).copied();
        let read = list.max(self.history.gets.get(owner).copied()).unwrap_or_default();
        read > object && self.history.changed.get(owner).copied().unwrap_or_default() > read
    }
}
