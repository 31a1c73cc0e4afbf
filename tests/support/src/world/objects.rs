//! Objects of the world, and the cluster that every run begins with.

use serde_json::{Value, json};

use super::{Key, State, Type};

pub(crate) const FLUX: &str = "kustomize.toolkit.fluxcd.io";
pub(crate) const PROTECTIONS: [(&str, &str); 3] = [
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
    ("helm.sh/resource-policy", "keep"),
    ("kubectl-gitops/keep", "true"),
];

pub(crate) const TYPES: [Type; 7] = [
    Type { group: "", kind: "Namespace", plural: "namespaces", namespaced: false },
    Type { group: "", kind: "ConfigMap", plural: "configmaps", namespaced: true },
    Type { group: "", kind: "Secret", plural: "secrets", namespaced: true },
    Type {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        namespaced: false,
    },
    Type { group: "example.com", kind: "Widget", plural: "widgets", namespaced: true },
    Type { group: "example.com", kind: "Gadget", plural: "gadgets", namespaced: true },
    Type { group: FLUX, kind: "Kustomization", plural: "kustomizations", namespaced: true },
];

/// The type of a plural.
pub(crate) fn type_of(plural: &str) -> &'static Type {
    TYPES.iter().find(|kind| kind.plural == plural).expect("a type of the world")
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The labels by which an object claims its owner.
pub(crate) fn claim(object: &Value) -> Value {
    let labels = &object["metadata"]["labels"];
    json!([labels[format!("{FLUX}/name")], labels[format!("{FLUX}/namespace")]])
}

pub(crate) fn key(plural: &'static str, namespace: &str, name: &str) -> Key {
    (plural, namespace.to_owned(), name.to_owned())
}

impl State {
    /// The namespaces `old1` and `old2` and the definition of widgets are leaked or orphaned, with all that is in them;
    /// `shop` has leaked and orphaned objects, one of which has a dependent. `apps` manages 20 ConfigMaps, `other` none.
    pub(crate) fn populate(&mut self) {
        for kind in TYPES.iter().filter(|kind| kind.plural != "gadgets") {
            self.served.insert(kind.plural, 0);
        }
        for name in ["kube-system", "default", "flux-system", "shop"] {
            self.create("namespaces", "", name, None);
        }
        let managed: Vec<String> = (0..20).map(|number| format!("shop_cm-{number}__ConfigMap")).collect();
        self.create_owner("apps", &managed);
        self.create_owner("other", &[]);
        let owner = |state: &mut Self| if state.random.one_in(4) { "gone" } else { "apps" };
        for namespace in ["old1", "old2"] {
            let claimed = owner(self);
            self.create("namespaces", "", namespace, Some(claimed));
            for number in 0..self.random.below(3) {
                let claimed = owner(self);
                self.create("configmaps", namespace, &format!("in-{number}"), Some(claimed));
            }
        }
        for number in 0..2 {
            let claimed = owner(self);
            self.create("configmaps", "shop", &format!("leaked-{number}"), Some(claimed));
        }
        self.create("secrets", "shop", "leaked", Some("apps"));
        self.create("configmaps", "shop", "unmanaged", None);
        let parent = uid(&self.objects[&key("configmaps", "shop", "leaked-0")]).to_owned();
        self.create("secrets", "shop", "dependent", None);
        self.refer("secrets", "shop", "dependent", &parent);
        self.create("customresourcedefinitions", "", "widgets.example.com", Some("apps"));
        for number in 0..self.random.below(3) {
            self.create("widgets", "shop", &format!("w-{number}"), Some("apps"));
        }
        if self.random.one_in(4) {
            self.change(&key("configmaps", "shop", "leaked-1"), |object| {
                object["metadata"]["finalizers"] = json!(["example.com/hold"]);
            });
        }
        self.history.changed.clear();
    }

    /// Creates an object that claims an owner, written by its controller, in place of one of the same name.
    pub(crate) fn create(&mut self, plural: &'static str, namespace: &str, name: &str, owner: Option<&str>) {
        let kind = type_of(plural);
        self.revision += 1;
        let version = if kind.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", kind.group) };
        let mut object = json!({"apiVersion": version, "kind": kind.kind, "metadata": {
            "name": name, "uid": format!("uid-{}", self.revision), "resourceVersion": self.revision.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z"}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if let Some(owner) = owner {
            set_claim(&mut object, owner);
        }
        self.put(key(plural, namespace, name), object);
    }

    pub(crate) fn create_owner(&mut self, name: &str, entries: &[String]) {
        self.create("kustomizations", "flux-system", name, None);
        let entries: Vec<Value> = entries.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
        self.change(&key("kustomizations", "flux-system", name), |owner| {
            owner["metadata"]["generation"] = json!(1);
            owner["spec"] = json!({"prune": true});
            owner["status"] = json!({"observedGeneration": 1, "inventory": {"entries": entries},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}]});
        });
    }

    /// Gives an object a controller.
    pub(crate) fn refer(&mut self, plural: &'static str, namespace: &str, name: &str, parent: &str) {
        self.change(&key(plural, namespace, name), |object| {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": parent, "controller": true}]);
        });
    }

    /// Changes an object, if it exists.
    pub(crate) fn change(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            self.revision += 1;
            change(&mut object);
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.put(key.clone(), object);
        }
    }

    fn put(&mut self, key: Key, object: Value) {
        self.history.changed.insert(key.clone(), self.clock);
        self.objects.insert(key, object);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.history.changed.insert(key.clone(), self.clock);
        self.objects.remove(key);
    }

    /// Everything that Kubernetes deletes with an object: namespace content, custom resources, dependents.
    pub(crate) fn cascade(&self, root: &Key) -> Vec<Key> {
        let mut gone = vec![root.clone()];
        loop {
            let uids: Vec<&str> = gone.iter().filter_map(|key| Some(uid(self.objects.get(key)?))).collect();
            let falls = |key: &Key, object: &Value| {
                let in_namespace = gone.iter().any(|(plural, _, name)| *plural == "namespaces" && *name == key.1);
                let definition = format!("{}.{}", key.0, type_of(key.0).group);
                let defined =
                    gone.iter().any(|(plural, _, name)| *plural == "customresourcedefinitions" && *name == definition);
                let parent = object["metadata"]["ownerReferences"][0]["uid"].as_str();
                in_namespace || defined || parent.is_some_and(|parent| uids.contains(&parent))
            };
            let more: Vec<Key> = self
                .objects
                .iter()
                .filter(|(key, object)| !gone.contains(key) && falls(key, object))
                .map(|(key, _)| key.clone())
                .collect();
            if more.is_empty() {
                return gone;
            }
            gone.extend(more);
        }
    }
}

/// Labels an object as the controller of a Kustomization in flux-system does.
pub(crate) fn set_claim(object: &mut Value, owner: &str) {
    let (name, namespace) = (format!("{FLUX}/name"), format!("{FLUX}/namespace"));
    object["metadata"]["labels"] = json!({&name: owner, &namespace: "flux-system"});
    object["metadata"]["managedFields"] = json!([{"manager": "kustomize-controller", "operation": "Apply",
        "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{name}"): {}, format!("f:{namespace}"): {}}}}}]);
}

/// The entry of an object in an inventory.
pub(crate) fn inventory_id(key: &Key) -> String {
    let kind = type_of(key.0);
    format!("{}_{}_{}_{}", key.1, key.2, kind.group, kind.kind)
}
