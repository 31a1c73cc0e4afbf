//! One computation of all Kustomizations from their last state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::last_applied::LastApplied;
use super::scope::Scopes;
use super::spec_changes::spec_changes;
use super::unserved_versions::{Definition, applied_definitions};
use crate::flux::apply::question::Question;
use crate::flux::build;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::build::sops::content_without_recipients;
use crate::flux::build::sops::live_values::take_live_values;
use crate::flux::build::sops::resolve_names::resolve_names;
use crate::flux::build::{BuildContext, Interrupt};
use crate::flux::simulation::model::applications::applied_spec;
use crate::flux::simulation::model::clusters::in_cluster;
use crate::flux::simulation::model::node::{Node, Pass, PassOutcome};
use crate::flux::simulation::model::owner_names::NOT_READ;
use crate::flux::simulation::model::questions::{Answers, DryRunAnswers, Verdict};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::Members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// One computation of all Kustomizations from their last state.
pub(crate) struct Derivation<'r, 'a> {
    pub(crate) state: &'r State<'a>,
    /// Consequences of the last state.
    pub(crate) consequences: &'r Consequences<'a>,
    /// Scopes of kinds in each cluster.
    pub(crate) scopes: BTreeMap<Option<Arc<str>>, Scopes<'r>>,
    /// Definitions that passes of the last state apply.
    pub(crate) definitions: Vec<Definition<'r>>,
    pub(crate) answers: &'r build::Answers,
    /// Answers that are missing.
    pub(crate) needs: build::Needs,
    /// Answers of the API server.
    dry_runs: &'r DryRunAnswers,
    /// Changes by other owners than Kustomizations that the API server is asked about.
    pub(crate) questions: Vec<Question>,
    /// Builds of the last applied revisions, once they are needed: of each Kustomization, and placed in their clusters.
    last_builds: BTreeMap<NamespacedName, Option<Arc<[BuiltObject]>>>,
    last_applied: Option<Arc<LastApplied>>,
}

impl<'r, 'a> Derivation<'r, 'a> {
    /// Creates a computation without needs.
    pub(crate) fn new(state: &'r State<'a>, consequences: &'r Consequences<'a>, answers: &'r Answers) -> Self {
        let clusters = state.input.snapshot.clusters();
        let scopes = clusters.map(|(name, cluster)| (name.cloned(), Scopes::new(name, cluster, state))).collect();
        let definitions = applied_definitions(&state.nodes);
        let Answers { builds: answers, dry_runs } = answers;
        let needs = build::Needs::default();
        Self {
            state,
            consequences,
            scopes,
            definitions,
            answers,
            needs,
            dry_runs,
            questions: vec![],
            last_builds: BTreeMap::new(),
            last_applied: None,
        }
    }

    /// Returns the answer of the API server to a change by another owner than a Kustomization, and asks for it.
    pub(crate) fn ask(&mut self, question: Question) -> Verdict {
        self.ask_with_doubt(question).0
    }

    /// Returns the same answer, with the condition under which the API server refuses what it accepts now.
    pub(crate) fn ask_with_doubt(&mut self, question: Question) -> (Verdict, Option<Arc<str>>) {
        let question = self.state.with_privacy(question);
        let verdict = self.dry_runs.verdict(&question);
        let doubt = self.state.owner_doubts.get(question.key()).cloned();
        self.questions.push(question);
        (verdict, doubt)
    }

    /// Returns the content of a live object, and nothing if it cannot be read; `None` if the answer is missing.
    pub(crate) fn content(&mut self, id: &ObjectId, api_version: &str) -> Option<Option<&'r Value>> {
        let ObjectId { kind, namespace, name, .. } = id;
        let (kind, namespace, name) = (kind.to_string(), namespace.to_string(), name.to_string());
        let query = ObjectQuery { api_version: api_version.to_owned(), kind, namespace, name };
        let query = ClusterQuery { cluster: id.cluster.clone(), query };
        match self.answers.queries.get(&query) {
            Some(QueryAnswer::Found(content)) => Some(Some(content)),
            Some(QueryAnswer::Missing | QueryAnswer::Unreadable(_)) => Some(None),
            None => {
                self.needs.queries.insert(query);
                None
            }
        }
    }

    /// Returns the outcome of applying a build in a cluster, for a Kustomization with a spec or for another owner.
    pub(crate) fn place(
        &self,
        cluster: Option<&Arc<str>>,
        built: Vec<BuiltObject>,
        spec: Option<&KustomizationSpec>,
    ) -> PassOutcome {
        match self.scopes.get(&cluster.cloned()) {
            Some(scopes) => scopes.apply(built, spec),
            None => PassOutcome::Unknown(Reason::new(ReasonCode::OtherCluster, NOT_READ)),
        }
    }

    /// Replaces what is encrypted in a build where the last applied revision and the live objects tell it: names, and values of
    /// specs. Values can contain variables, so nothing tells them if variables change.
    ///
    /// Fails if that revision is not built yet.
    pub(crate) fn resolve_encrypted(
        &mut self,
        key: &NamespacedName,
        mut built: Vec<BuiltObject>,
        variables_change: bool,
    ) -> Result<Vec<BuiltObject>, Interrupt> {
        let has_names = built.iter().any(BuiltObject::has_unknown_identity);
        if !has_names && !built.iter().any(BuiltObject::has_encrypted_spec) {
            return Ok(built);
        }
        let state = self.state;
        let last_build = self.last_build(key)?;
        if has_names {
            let inventory = match state.live.get(key).map(|live| state.members(live)) {
                Some(Members::Listed(ids)) => ids.into_iter().collect(),
                _ => Default::default(),
            };
            built = resolve_names(built, last_build.as_deref(), &inventory);
        }
        for object in built.iter_mut().filter(|object| object.has_encrypted_spec()) {
            let mut last =
                last_build.iter().flat_map(|last| last.iter()).filter(|last| last.id == object.id && !variables_change);
            let live = state.input.snapshot.resource(&object.id).map(applied_spec).unwrap_or_default();
            take_live_values(object, last.find_map(|last| last.manifest.get("spec")), &live);
        }
        Ok(built)
    }

    /// Returns true if an encrypted ConfigMap or Secret has the text that a live Kustomization applied last.
    pub(crate) fn is_applied_text(&mut self, key: &NamespacedName, built: &BuiltObject) -> bool {
        let Ok(Some(last)) = self.last_build(key) else { return false };
        let last = self.resolve_encrypted(key, last.to_vec(), false).unwrap_or_default();
        let content = content_without_recipients(&built.manifest);
        last.iter().any(|last| last.id == built.id && content_without_recipients(&last.manifest) == content)
    }

    /// Returns the objects that the Kustomizations applied last. Builds without answers add to the needs.
    pub(crate) fn last_applied(&mut self) -> Arc<LastApplied> {
        if let Some(known) = &self.last_applied {
            return Arc::clone(known);
        }
        let (state, mut found) = (self.state, LastApplied::default());
        for key in state.input.last_applied.keys() {
            let Some(live) = state.live.get(key) else { continue };
            let Ok(cluster) = state.target_of_live(live) else { continue };
            let Ok(Some(built)) = self.last_build(key) else { continue };
            let Ok(built) = self.resolve_encrypted(key, built.to_vec(), false) else { continue };
            let spec = KustomizationSpec::of(live);
            if let PassOutcome::Applied(objects) = self.place(cluster.as_ref(), built, Some(&spec)) {
                found.add(key, &objects);
            }
        }
        Arc::clone(self.last_applied.insert(Arc::new(found)))
    }

    /// Returns the objects of the revision that a live Kustomization applied last, as the tree has them; `None` if that revision
    /// is not in the checkout, or cannot be built.
    ///
    /// Fails if that revision is not built yet.
    fn last_build(&mut self, key: &NamespacedName) -> Result<Option<Arc<[BuiltObject]>>, Interrupt> {
        if let Some(known) = self.last_builds.get(key) {
            return Ok(known.clone());
        }
        let state = self.state;
        let Some((live, artifact)) = state.live.get(key).zip(state.input.last_applied.get(key)) else {
            return Ok(None);
        };
        let mut context = BuildContext::new(state.input.features, self.answers, &mut self.needs);
        let cluster = state.target_of_live(live).unwrap_or_default();
        let built = match build::build(artifact, key, &KustomizationSpec::of(live), &mut context) {
            Ok(built) => Some(in_cluster(&built, cluster.as_ref()).into()),
            Err(Interrupt::Failed(_)) => None,
            Err(Interrupt::Missing) => return Err(Interrupt::Missing),
        };
        self.last_builds.insert(key.clone(), built.clone());
        Ok(built)
    }
}

/// Returns the Kustomizations as they follow from the last state, and the answers that are missing.
pub(crate) fn derive_nodes(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    answers: &Answers,
) -> (Vec<Node>, build::Needs) {
    let mut derivation = Derivation::new(state, consequences, answers);
    let mut keys: BTreeSet<NamespacedName> = state.live.keys().cloned().collect();
    let passes = state.nodes.iter().flat_map(|node| &node.passes);
    let applied = passes.filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
    keys.extend(applied.chain(state.generated_ids()).filter(|id| id.is_here(GROUP, KIND)).map(NamespacedName::of));
    let all_changes = spec_changes(state);
    let mut nodes = Vec::new();
    for key in keys {
        let changes = all_changes.get(&key).map_or(&[][..], Vec::as_slice);
        if let Some(live) = state.live.get(&key) {
            nodes.push(derivation.live_node(&key, live, changes));
        }
        nodes.extend(derivation.new_node(&key, changes));
    }
    (nodes, derivation.needs)
}
