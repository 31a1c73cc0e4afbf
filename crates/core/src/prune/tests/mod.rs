//! Plans of generated clusters, compared with an oracle that knows each rule in its simplest form and shares no code with
//! the planner: what is planned must be permitted, and the order of the input must not matter.
//!
//! `MODEL_CASES=100000 cargo test -p gitops-core what_is_planned` runs more than the usual number of seeds.

mod tenants;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kubernetes::object::{ObjectMetadata, OwnerReference, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::plan::grave::AllowedKinds;
use crate::prune::leaked::{self, PruneOptions};
use crate::testing::{Build, Dice, object, resource_type, snapshot};

/// Number of cases in the usual tests.
const CASES: u64 = 10_000;
const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
const PROTECTIONS: [(&str, &str); 4] = [
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
    ("helm.sh/resource-policy", "keep"),
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("kubectl-gitops/keep", "true"),
];

/// One object as the generator made it.
#[derive(Clone, Debug, Default)]
struct Model {
    group: &'static str,
    kind: &'static str,
    namespace: String,
    name: String,
    /// Owner in its labels.
    claim: Option<&'static str>,
    /// The controller wrote the labels.
    is_written: bool,
    is_protected: bool,
    is_terminating: bool,
    /// Position of the object that it refers to, and if that is its controller.
    parent: Option<(usize, bool)>,
    /// Owners whose inventory contains it.
    recorded: Vec<&'static str>,
}

/// An owner in flux-system.
#[derive(Clone, Debug)]
struct Owner {
    name: &'static str,
    is_ready: bool,
    is_suspended: bool,
}

#[derive(Debug)]
struct Case {
    objects: Vec<Model>,
    owners: Vec<Owner>,
    include_orphaned: bool,
    assume_no_hub: bool,
    allow: bool,
}

impl Case {
    fn generate(dice: &mut Dice) -> Self {
        let mut owners = vec![];
        for name in ["apps", "other"] {
            if !dice.one_in(6) {
                owners.push(Owner { name, is_ready: !dice.one_in(5), is_suspended: dice.one_in(8) });
            }
        }
        let mut objects = vec![];
        for name in ["one", "two"] {
            objects.push(Model { kind: "Namespace", name: name.to_owned(), ..Model::default() });
        }
        if dice.one_in(3) {
            objects.push(Model { kind: "Namespace", name: "kube-system".to_owned(), ..Model::default() });
        }
        let definition = "CustomResourceDefinition";
        objects.push(Model {
            group: "apiextensions.k8s.io",
            kind: definition,
            name: "widgets.example.com".to_owned(),
            ..Model::default()
        });
        for number in 0..dice.roll(8) {
            let (group, kind) = [("", "ConfigMap"), ("", "Secret"), ("example.com", "Widget")][dice.roll(3)];
            let namespace = ["one", "two", "shop"][dice.roll(3)].to_owned();
            objects.push(Model { group, kind, namespace, name: format!("x{number}"), ..Model::default() });
        }
        for at in 0..objects.len() {
            let parent = dice.roll(objects.len());
            let same_place = objects[parent].namespace == objects[at].namespace || objects[parent].namespace.is_empty();
            let model = &mut objects[at];
            if dice.one_in(4) && parent != at && same_place && !model.namespace.is_empty() {
                model.parent = Some((parent, dice.one_in(2)));
            }
            if !dice.one_in(4) {
                model.claim = Some(["apps", "apps", "other", "gone"][dice.roll(4)]);
                model.is_written = !dice.one_in(5);
            }
            model.is_protected = dice.one_in(8);
            model.is_terminating = dice.one_in(15);
            if dice.one_in(5) {
                model.recorded = owners.iter().filter(|_| dice.one_in(2)).map(|owner| owner.name).collect();
            }
        }
        Self {
            objects,
            owners,
            include_orphaned: dice.one_in(2),
            assume_no_hub: dice.one_in(2),
            allow: !dice.one_in(4),
        }
    }

    fn id(model: &Model) -> ObjectMetadata {
        object(model.group, model.kind, &model.namespace, &model.name)
    }

    fn metadata(&self, model: &Model, dice: &mut Dice) -> ObjectMetadata {
        let mut built = Self::id(model);
        if let Some(claim) = model.claim {
            let labels = [(NAME, claim), (NAMESPACE, "flux-system")];
            built = match model.is_written {
                true => built.applied_by("kustomize-controller", &labels),
                false => built.applied_by("kubectl-edit", &labels),
            };
        }
        if model.is_protected {
            let (key, value) = PROTECTIONS[dice.roll(PROTECTIONS.len())];
            built = if dice.one_in(2) { built.label(key, value) } else { built.annotation(key, value) };
        }
        if model.is_terminating {
            built = built.terminating();
        }
        if let Some((parent, controller)) = model.parent {
            let parent = Self::id(&self.objects[parent]);
            built.owner_references.push(OwnerReference {
                group: parent.id.group,
                kind: parent.id.kind,
                name: parent.id.name,
                uid: parent.uid,
                controller,
                block_owner_deletion: false,
            });
        }
        built
    }

    fn owner(&self, owner: &Owner) -> Resource {
        let recorded = self.objects.iter().filter(|model| model.recorded.contains(&owner.name));
        let id = |model: &Model| format!("{}_{}_{}_{}", model.namespace, model.name, model.group, model.kind);
        let entries: Vec<Value> = recorded.map(|model| json!({"id": id(model), "v": "v1"})).collect();
        let ready = if owner.is_ready { "True" } else { "False" };
        object("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", owner.name).with_content(json!({
            "spec": {"prune": true, "suspend": owner.is_suspended},
            "status": {"observedGeneration": 1, "inventory": {"entries": entries},
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-06-01T00:00:00Z"}]},
        }))
    }

    fn snapshot(&self, dice: &mut Dice) -> Snapshot {
        let resources: Vec<Resource> = self.owners.iter().map(|owner| self.owner(owner)).collect();
        let mut objects: Vec<ObjectMetadata> = self.objects.iter().map(|model| self.metadata(model, dice)).collect();
        objects.extend(resources.iter().map(|full| full.object.clone()));
        let mut read = snapshot(objects, resources);
        read.types = vec![
            resource_type("", "Namespace", "namespaces", false),
            resource_type("", "ConfigMap", "configmaps", true),
            resource_type("", "Secret", "secrets", true),
            resource_type("example.com", "Widget", "widgets", true),
            resource_type("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
            resource_type("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", true),
        ];
        read.normalise();
        read
    }

    fn options(&self) -> PruneOptions {
        PruneOptions {
            include_orphaned: self.include_orphaned,
            assume_no_hub: self.assume_no_hub,
            allowed: if self.allow { AllowedKinds::all() } else { AllowedKinds::default() },
            ..PruneOptions::default()
        }
    }

    /// Positions of the objects that may be deleted in their own right: the largest set in which no object takes one along
    /// that has to stay.
    fn permitted(&self) -> BTreeSet<usize> {
        let mut permitted: BTreeSet<usize> =
            (0..self.objects.len()).filter(|at| self.is_permitted_alone(*at)).collect();
        loop {
            let falls = |at: &usize| {
                self.taken_along(*at).into_iter().all(|other| {
                    let model = &self.objects[other];
                    let is_controlled = model.parent.is_some_and(|(_, controller)| controller);
                    !model.is_protected && self.recorders(model) == 0 && (is_controlled || permitted.contains(&other))
                })
            };
            let remaining: BTreeSet<usize> = permitted.iter().copied().filter(falls).collect();
            if remaining == permitted {
                return permitted;
            }
            permitted = remaining;
        }
    }

    fn recorders(&self, model: &Model) -> usize {
        model.recorded.len()
    }

    fn is_permitted_alone(&self, at: usize) -> bool {
        let model = &self.objects[at];
        let Some(claim) = model.claim else { return false };
        let is_grave = ["Namespace", "CustomResourceDefinition"].contains(&model.kind);
        let owner = self.owners.iter().find(|owner| owner.name == claim);
        let by_owner = match owner {
            Some(owner) => owner.is_ready && !owner.is_suspended,
            None => self.include_orphaned && (self.assume_no_hub || !self.owners.is_empty()),
        };
        by_owner
            && model.is_written
            && !model.is_protected
            && !model.is_terminating
            && model.parent.is_none()
            && model.recorded.is_empty()
            && model.name != "kube-system"
            && (self.allow || !is_grave)
    }

    /// Positions of everything that Kubernetes deletes with an object.
    fn taken_along(&self, root: usize) -> BTreeSet<usize> {
        let mut taken = BTreeSet::from([root]);
        loop {
            let before = taken.len();
            for (at, model) in self.objects.iter().enumerate() {
                let falls = taken.iter().any(|other| {
                    let other = &self.objects[*other];
                    (other.kind == "Namespace" && other.name == model.namespace)
                        || (other.kind == "CustomResourceDefinition" && model.kind == "Widget")
                }) || model.parent.is_some_and(|(parent, _)| taken.contains(&parent));
                if falls {
                    taken.insert(at);
                }
            }
            if taken.len() == before {
                taken.remove(&root);
                return taken;
            }
        }
    }
}

#[test]
fn what_is_planned_is_permitted_and_the_order_of_the_input_does_not_matter() {
    let (mut planned, mut cascaded) = (0, 0);
    let cases = std::env::var("MODEL_CASES").map_or(CASES, |cases| cases.parse().expect("a number"));
    for seed in 0..cases {
        let mut dice = Dice(seed);
        let case = Case::generate(&mut dice);
        let read = case.snapshot(&mut Dice(seed));
        let plan = leaked::plan(&Index::build(&read), &case.options());

        let permitted = case.permitted();
        let position = |uid: &str| case.objects.iter().position(|model| *Case::id(model).uid == *uid);
        for root in plan.roots() {
            let at = position(&root.object.uid).expect("a root is an object of the case");
            assert!(permitted.contains(&at), "seed {seed}: {} is planned\n{case:#?}", root.object.id);
            planned += 1;
        }
        let roots: Vec<usize> = plan.roots().filter_map(|root| position(&root.object.uid)).collect();
        let taken: BTreeSet<usize> = roots.iter().flat_map(|at| case.taken_along(*at)).collect();
        let rows: BTreeSet<usize> = plan.deletions().filter_map(|row| position(&row.object.uid)).collect();
        let all: BTreeSet<usize> = taken.iter().copied().chain(roots).collect();
        assert_eq!(rows, all, "seed {seed}: the rows are the roots and what they take along\n{case:#?}");
        cascaded += taken.len();

        let mut shuffled = read.clone();
        for at in (1..shuffled.objects.len()).rev() {
            shuffled.objects.swap(at, dice.roll(at + 1));
        }
        shuffled.resources.reverse();
        shuffled.types.reverse();
        shuffled.normalise();
        assert_eq!(leaked::plan(&Index::build(&shuffled), &case.options()), plan, "seed {seed}: permuted\n{case:#?}");
    }
    let reached = planned as u64 > cases / 2 && cascaded as u64 > cases / 20;
    assert!(reached, "{planned} roots and {cascaded} cascaded rows in {cases} cases");
}
