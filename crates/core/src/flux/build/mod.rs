//! The build of one Kustomization: what it needs from outside, and the objects that come of it.
//!
//! Running kustomize and reading ConfigMaps are I/O: a build asks for them as [`Needs`] and is run again with the
//! [`Answers`]. Source of the order of the steps: reference kustomize-controller 3.3 to 3.6.

pub mod digest;
pub mod encrypted;
pub mod envsubst;
pub mod generator;
pub mod kustomization_file;
pub mod objects;
pub mod references;
pub mod sops;
pub mod substitute;
pub mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::features::Features;
use super::source::artifact::Artifact;
use super::spec::{KustomizationSpec, NamespacedName};
use generator::Generated;
use objects::{Built, YamlDocument};
use substitute::{Lookup, Variables};
use variables::Data;

/// One run of kustomize: an artifact with one file written over it.
#[derive(Clone, Debug)]
pub struct Run {
    /// Hash of everything that goes into the run; equal keys give equal output.
    pub key: String,
    /// What the build may read.
    pub artifact: Arc<Artifact>,
    /// Where it runs, and the file that is written first.
    pub generated: Generated,
}

/// A ConfigMap or Secret that substitution reads: kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRef {
    /// `ConfigMap` or `Secret`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What must be had before the builds can go on.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Runs of kustomize by key.
    pub runs: BTreeMap<String, Run>,
    /// Data of ConfigMaps and Secrets.
    pub data: BTreeSet<DataRef>,
}

impl Needs {
    /// Whether everything is there.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.data.is_empty()
    }
}

/// What was had so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    runs: HashMap<String, Result<Arc<Vec<YamlDocument>>, String>>,
    data: HashMap<DataRef, Lookup>,
}

impl Answers {
    /// Notes the output of a run, or why it failed.
    pub fn ran(&mut self, key: String, output: Result<String, String>) {
        self.runs.insert(key, output.and_then(|text| objects::documents(&text)).map(Arc::new));
    }

    /// What a ConfigMap or Secret holds, where that was asked.
    pub fn data(&self, reference: &DataRef) -> Option<&Lookup> {
        self.data.get(reference)
    }

    /// Notes what a ConfigMap or Secret holds.
    pub fn looked_up(&mut self, reference: DataRef, found: Lookup) {
        self.data.insert(reference, found);
    }
}

/// What ConfigMaps and Secrets will hold, in place of what they hold now.
pub type Replaced = BTreeMap<DataRef, Lookup>;

/// What a build came to.
pub type BuildOutcome = Result<Vec<Built>, String>;

/// Builds a Kustomization from an artifact; `None` when something was added to `needs` first.
pub fn build(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    features: Features,
    (answers, replaced): (&Answers, &Replaced),
    needs: &mut Needs,
) -> Option<BuildOutcome> {
    let prepared = prepare(artifact, owner, spec, features, (answers, replaced), needs)?;
    let decrypted = spec.decrypts().then(|| decrypted_first(artifact, spec, features));
    Some(prepared.and_then(|(documents, variables)| read(documents, variables.as_ref(), spec, decrypted.as_ref())))
}

/// The bytes that the controller hashes: kustomize's output, or, where variables were replaced, what kustomize makes of
/// the replaced text. `None` when something was added to `needs` first.
pub fn text(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    features: Features,
    answers: &Answers,
    needs: &mut Needs,
) -> Option<Result<String, String>> {
    let join = |texts: Vec<String>| texts.join("---\n");
    let answers = (answers, &Replaced::new());
    let (documents, variables) = match prepare(artifact, owner, spec, features, answers, needs)? {
        Ok(prepared) => prepared,
        Err(failure) => return Some(Err(failure)),
    };
    let Some(variables) = variables else {
        return Some(Ok(join(documents.iter().map(|document| document.text.clone()).collect())));
    };
    let replaced = |document: &YamlDocument| {
        if opted_out(&document.value) { Ok(document.text.clone()) } else { variables.apply(&document.text) }
    };
    let replaced: Result<Vec<String>, _> = documents.iter().map(replaced).collect();
    let replaced = match replaced {
        Ok(texts) => join(texts),
        Err(failure) => return Some(Err(failure.to_string())),
    };
    let again = Arc::new(Artifact::of_file("objects.yaml", replaced.as_bytes()));
    let canonical =
        prepare(&again, owner, &KustomizationSpec::new(&serde_json::Value::Null), features, answers, needs)?;
    Some(canonical.map(|(documents, _)| join(documents.iter().map(|document| document.text.clone()).collect())))
}

type PreparedBuild<'a> = (&'a [YamlDocument], Option<Variables>);

/// Kustomize's output and the variables to replace in it.
fn prepare<'a>(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    features: Features,
    (answers, replaced): (&'a Answers, &Replaced),
    needs: &mut Needs,
) -> Option<Result<PreparedBuild<'a>, String>> {
    let generated = match generator::generate(artifact, spec.value(), features.whole_images) {
        Ok(generated) => generated,
        Err(failure) => return Some(Err(failure.to_string())),
    };
    let key = run_key(artifact, &generated);
    let documents = match answers.runs.get(&key) {
        Some(Ok(documents)) => documents,
        Some(Err(failure)) => return Some(Err(failure.clone())),
        None => {
            needs.runs.insert(key.clone(), Run { key, artifact: artifact.clone(), generated });
            return None;
        }
    };
    let missing = std::cell::RefCell::new(BTreeSet::new());
    let lookup = |kind: &str, name: &str| {
        let reference = DataRef { kind: kind.to_owned(), namespace: owner.namespace.clone(), name: name.to_owned() };
        replaced.get(&reference).or_else(|| answers.data.get(&reference)).cloned().unwrap_or_else(|| {
            missing.borrow_mut().insert(reference);
            Lookup::Found(Data::default())
        })
    };
    let variables = substitute::variables(spec.value(), lookup, features.strict_substitution);
    let missing = missing.into_inner();
    if !missing.is_empty() {
        needs.data.extend(missing);
        return None;
    }
    if documents.is_empty() {
        // Variables are read object by object, so without objects nothing can fail.
        return Some(Ok((&[], None)));
    }
    Some(variables.map(|variables| (documents.as_slice(), variables)).map_err(|failure| failure.to_string()))
}

/// The file without whose keys kustomize cannot build.
pub fn needs_key(artifact: &Artifact, spec: &KustomizationSpec, features: Features) -> Option<String> {
    let generated = generator::generate(artifact, spec.value(), features.whole_images).ok()?;
    sops::hidden_patch(artifact, &generated).filter(|_| spec.decrypts())
}

/// MACs of the files that are decrypted before kustomize runs.
fn decrypted_first(artifact: &Artifact, spec: &KustomizationSpec, features: Features) -> BTreeSet<String> {
    let generated = generator::generate(artifact, spec.value(), features.whole_images);
    generated.map(|generated| sops::decrypted_first(artifact, &generated)).unwrap_or_default()
}

/// What changes elsewhere in the tree is no reason to build again.
fn run_key(artifact: &Artifact, generated: &Generated) -> String {
    let digest = match references::inputs(artifact, generated) {
        Some(inputs) => artifact.digest_below(&inputs),
        None => artifact.digest().to_owned(),
    };
    let mut hash = Sha256::new();
    for part in [&digest, &generated.directory, &generated.file, &generated.content.to_string()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    crate::text::hex(&hash.finalize())
}

fn read(
    documents: &[YamlDocument],
    variables: Option<&Variables>,
    spec: &KustomizationSpec,
    decrypted: Option<&BTreeSet<String>>,
) -> BuildOutcome {
    let mut built = Vec::new();
    for document in documents {
        let mut manifest = document.value.clone();
        if let Some(variables) = variables.filter(|_| !opted_out(&document.value)) {
            let text = variables.apply(&document.text).map_err(|failure| failure.to_string())?;
            manifest = objects::parse_again(&text).map_err(|why| format!("not YAML after substitution: {why}"))?;
        }
        let (first, veil) = (built.len(), sops::veil(&document.value, decrypted));
        objects::objects(manifest, &mut built);
        built[first..].iter_mut().for_each(|object| object.veil.clone_from(&veil));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = built.iter().find(|object| !seen.insert(&object.id)) {
        return Err(format!("{} is built twice", twice.id));
    }
    match built.iter().find(|object| object.is_refused(spec.decrypts())) {
        Some(secret) => Err(format!("{} is encrypted and spec.decryption is not set", secret.id)),
        None => Ok(built),
    }
}

fn opted_out(manifest: &serde_json::Value) -> bool {
    ["labels", "annotations"].iter().any(|part| {
        let marks = manifest.get("metadata").and_then(|metadata| metadata.get(part));
        marks.and_then(|marks| marks.get(substitute::SWITCH)).and_then(serde_json::Value::as_str) == Some("disabled")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::source::artifact::SourceOptions;
    use serde_json::json;

    fn run(spec: serde_json::Value, output: &str, data: &[(&str, &str)]) -> BuildOutcome {
        let artifact = Arc::new(Artifact::pack(&[("a.yaml", "")].into_iter().collect(), &SourceOptions::default()));
        let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
        let (spec, mut answers) = (KustomizationSpec::new(&spec), Answers::default());
        for _ in 0..3 {
            let mut needs = Needs::default();
            if let Some(outcome) =
                build(&artifact, &owner, &spec, Features::default(), (&answers, &Replaced::new()), &mut needs)
            {
                return outcome;
            }
            needs.runs.into_keys().for_each(|key| answers.ran(key, Ok(output.to_owned())));
            for reference in needs.data {
                assert_eq!(reference.namespace, "n");
                let values = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
                answers.looked_up(reference, Lookup::Found(Data { values, ..Data::default() }));
            }
        }
        panic!("the build does not come to an end");
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n";

    #[test]
    fn variables_may_come_from_the_cluster_and_change_names() {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}});
        let built = run(spec.clone(), MAP, &[("name", "web")]).unwrap();
        assert_eq!(&*built[0].id.name, "web");
        // An empty ConfigMap turns substitution off: the text stays literally.
        assert_eq!(&*run(spec, MAP, &[]).unwrap()[0].id.name, "${name}");
    }

    #[test]
    fn an_object_can_opt_out_by_exact_value() {
        let with = |value: &str| {
            let text = format!("{MAP}  annotations:\n    {}: {value}\n", substitute::SWITCH);
            run(json!({"postBuild": {"substitute": {"name": "web"}}}), &text, &[]).unwrap()[0].id.name.to_string()
        };
        assert_eq!(with("disabled"), "${name}");
        assert_eq!(with("Disabled"), "web");
    }

    #[test]
    fn what_fails_the_build_after_kustomize() {
        let two = format!("{MAP}---\n{}", MAP.replace("${name}", "web"));
        assert!(run(json!({"postBuild": {"substitute": {"name": "web"}}}), &two, &[]).unwrap_err().contains("twice"));
        let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\ndata: {a: 'ENC[x]'}\nsops: {mac: x}\n";
        assert!(run(json!({}), secret, &[]).unwrap_err().contains("encrypted"));
        assert!(run(json!({"decryption": {"provider": "sops"}}), secret, &[]).is_ok());
        let dropped = secret.replace("data", "stringData");
        assert!(run(json!({}), &dropped, &[]).is_ok(), "the controller applies the encrypted text");
    }
}
