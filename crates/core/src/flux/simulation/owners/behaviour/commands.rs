//! Commands that show what a plan does not know of an owner. They work as they are printed, in the folder of the tree.

use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::object::{ObjectId, list_at, text_at};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::text::plain_word;

/// Branch of a GitRepository that names none.
const DEFAULT_BRANCH: &str = "master";

/// Returns the name of an object in a command. `NAME` stands for one that the API server refuses anyway, and that a shell or a
/// program would read as something else: the author of a tree wrote it.
pub(crate) fn name_in_command(name: &str) -> &str {
    plain_word(name).unwrap_or("NAME")
}

/// Returns the folder of a Kustomization in its tree, for a command; `None` if it is the root, or a shell reads it as something else.
pub(crate) fn folder(spec: &KustomizationSpec) -> Option<String> {
    plain_word(spec.path().trim_start_matches("./").trim_start_matches('/')).map(|path| format!("./{path}"))
}

/// Returns the command that shows the manifest of an owner in the cluster.
pub(crate) fn manifest_in_cluster(kind: &str, id: &ObjectId) -> String {
    let [name, namespace] = [&*id.name, &*id.namespace].map(name_in_command);
    format!("kubectl get {kind} {name} -n {namespace} -o yaml")
}

/// Files of a source, for commands.
pub(crate) struct Files {
    /// Command that fetches them; `None` if they are those of a planned tree.
    pub(crate) fetched: Option<String>,
    /// Folder with them, relative to that of the tree.
    pub(crate) folder: String,
}

impl Files {
    pub(crate) fn of_tree() -> Self {
        Self { fetched: None, folder: ".".to_owned() }
    }

    /// Returns the files that a source has after the change; `None` if no command is known that fetches them.
    pub(crate) fn of(state: &State<'_>, source: &SourceId) -> Option<Self> {
        if planned_artifact(state, source).is_some() {
            return Some(Self::of_tree());
        }
        let id = source.object();
        if &*id.kind != "GitRepository" || state.is_private(&id) {
            return None;
        }
        let spec = state.specs_after(&id).pop()?;
        let (url, name) = (repository_url(text_at(&spec, "/url"))?, plain_word(&id.name)?);
        let reference = |field: &str| Some(text_at(&spec, field)).filter(|value| !value.is_empty());
        let fetched = match (reference("/ref/commit"), reference("/ref/name").or(reference("/ref/semver"))) {
            (Some(commit), _) => format!("git clone {url} {name}; git -C {name} checkout {}", plain_word(commit)?),
            (None, Some(_)) => return None,
            (None, None) => {
                let branch = reference("/ref/tag").or(reference("/ref/branch")).unwrap_or(DEFAULT_BRANCH);
                format!("git clone --branch {} {url} {name}", plain_word(branch)?)
            }
        };
        Some(Self { fetched: Some(fetched), folder: format!("./{name}") })
    }

    /// Returns a command that needs the files, after the one that fetches them.
    pub(crate) fn before(&self, command: String) -> String {
        match &self.fetched {
            Some(fetch) => format!("{fetch}; {command}"),
            None => command,
        }
    }
}

/// Returns the address of a repository if a shell reads it as it is and it holds no password.
fn repository_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("ssh://git@").unwrap_or(url);
    plain_word(rest).map(|_| url)
}

/// Returns the command with which flux-operator shows what a live owner generates. `word` is its word for the kind. Without a live
/// owner, or if its inputs are other objects, the command shows its manifest.
pub(crate) fn generated(state: &State<'_>, id: &ObjectId, word: &str) -> String {
    let kind = id.kind.to_lowercase();
    let Some(live) = state.input.snapshot.resource(id) else { return manifest(state, id, &kind) };
    let get = manifest_in_cluster(&kind, id);
    match list_at(live.spec(), "/inputsFrom") {
        [] => format!("{get} | flux-operator build {word} --filename -"),
        _ => get,
    }
}

/// Returns the command that shows the manifest of a new owner: the build of a Kustomization that applies it, if its folder is in
/// a planned tree.
fn manifest(state: &State<'_>, id: &ObjectId, kind: &str) -> String {
    let mut specs = state.nodes.applying(id).filter_map(|node| {
        let NamespacedName { namespace, name } = &node.id.key;
        let applier = ObjectId::new(GROUP, KIND, namespace, name);
        let open = if state.is_private(&applier) { None } else { state.specs_after(&applier).pop() };
        let spec = KustomizationSpec::new(&open?);
        state.input.trees.contains_key(&spec.source(namespace)).then_some(spec)
    });
    match specs.find_map(|spec| folder(&spec)) {
        Some(folder) => format!("kubectl kustomize {folder}"),
        None => manifest_in_cluster(kind, id),
    }
}
