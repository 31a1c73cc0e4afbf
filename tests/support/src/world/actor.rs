//! Changes by other people and controllers between two requests.

use serde_json::json;

use super::objects::{PROTECTIONS, inventory_id, set_claim, uid};
use super::{Key, State};

impl State {
    /// Acts, unless it is too early.
    pub(crate) fn maybe_act(&mut self) {
        if self.activity > 0 && self.random.one_in(self.activity) {
            self.act();
        }
    }

    /// Does one thing that can happen in a cluster at any time.
    pub(crate) fn act(&mut self) {
        let Some(target) = self.target() else { return };
        let namespace = ["old1", "old2", "shop"][self.random.below(3)];
        let name = format!("new-{}", self.revision);
        let owner = ["apps", "other"][self.random.below(2)];
        match self.random.below(16) {
            0 => self.create("configmaps", namespace, &name, None),
            1 => self.create("secrets", namespace, &name, Some(owner)),
            2 if self.served.contains_key("widgets") => self.create("widgets", namespace, &name, Some(owner)),
            3 => self.remove_with_cascade(&target),
            4 => {
                // A new owner labels the object and then records it.
                self.change(&target, |object| set_claim(object, "other"));
                self.record("other", &target);
            }
            5 | 6 => {
                let (key, value) = PROTECTIONS[self.random.below(3)];
                self.change(&target, |object| object["metadata"]["annotations"] = json!({key: value}));
            }
            7 => self.change(&target, |object| object["metadata"]["labels"] = json!({"app": "x"})),
            8 => {
                let (plural, namespace, name) = target.clone();
                self.remove_with_cascade(&target);
                self.create(plural, &namespace, &name, Some("apps"));
            }
            9 if !self.has_owner("gone") => self.create_owner("gone", &[]),
            9 | 10 => self.record(owner, &target),
            11 => {
                // An object that nobody planned becomes a dependent.
                let parent = self.objects.get(&target).map(uid).unwrap_or_default().to_owned();
                if target.0 == "configmaps" {
                    self.create("secrets", &target.1, &name, None);
                    self.refer("secrets", &target.1, &name, &parent);
                }
            }
            12 => {
                let uid = self.objects.get(&target).map(uid).unwrap_or_default().to_owned();
                self.denied.insert(uid);
            }
            13 => {
                let apps = super::objects::key("kustomizations", "flux-system", "apps");
                self.change(&apps, |owner| owner["status"]["conditions"][0]["status"] = json!("Unknown"));
            }
            14 if !self.served.contains_key("gadgets") => {
                self.served.insert("gadgets", self.clock);
                self.create("gadgets", namespace, &name, None);
            }
            15 if self.random.one_in(8) => self.expired = true,
            _ => {}
        }
    }

    /// An object that the plan deletes, or any that a tenant could touch.
    fn target(&mut self) -> Option<Key> {
        let is_target = |key: &Key| {
            key.0 != "kustomizations" && !["kube-system", "default", "flux-system", "shop"].contains(&key.2.as_str())
        };
        let all: Vec<Key> = self.objects.keys().filter(|key| is_target(key)).cloned().collect();
        if all.is_empty() {
            return None;
        }
        let at = self.random.below(all.len());
        Some(all[at].clone())
    }

    fn has_owner(&self, name: &str) -> bool {
        self.objects.contains_key(&super::objects::key("kustomizations", "flux-system", name))
    }

    /// Adds an object to the inventory of an owner, without a sign of it on the object.
    fn record(&mut self, owner: &str, target: &Key) {
        let id = inventory_id(target);
        self.change(&super::objects::key("kustomizations", "flux-system", owner), |owner| {
            if let Some(entries) = owner["status"]["inventory"]["entries"].as_array_mut() {
                entries.push(json!({"id": id, "v": "v1"}));
            }
        });
    }

    /// Deletes an object as somebody else would, with its cascade. A definition takes its type along.
    pub(crate) fn remove_with_cascade(&mut self, root: &Key) {
        for key in self.cascade(root) {
            self.remove(&key);
            if key.0 == "customresourcedefinitions" {
                self.served.remove("widgets");
            }
        }
    }
}
