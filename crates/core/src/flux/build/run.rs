//! The steps of a build: kustomization file, kustomize, variables, objects.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::failure::{BuildFailure, Interrupt};
use super::finished::{BuildInput, PreparedResult, PreparedRun};
use super::generator::GeneratedFile;
use super::needs::{BuildContext, Run, RunOutput};
use super::objects::data::DataOverrides;
use super::objects::yaml::{YamlDocument, parse_substituted};
use super::objects::{BuiltObject, manifest_has, mask_objects};
use super::references::{Inputs, ReferenceError};
use super::sops::decryption;
use super::substitute::{BuildVariables, SUBSTITUTE, resolve_variables, variable_sources};
use super::{generator, objects, references};
use crate::bounds::DATA_SOURCES;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::text_at;
use crate::kubernetes::recording::missing_value;
use crate::kubernetes::redact::redact_urls;
use crate::plan::ReasonCode;
use crate::text::{hash_of_parts, sha256};

/// Separator of documents in kustomize's output.
const SEPARATOR: &str = "---\n";

/// Builds the objects of a Kustomization, each build once.
pub fn build(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
) -> Result<Arc<[BuiltObject]>, Interrupt> {
    let finished = &context.answers.finished;
    let input = build_input(artifact, spec, context);
    if let Some(result) = finished.find(owner, &input) {
        return Ok(result?);
    }
    let (shared, whole) = (&context.answers.shared.objects, input_with_variables(&input, owner, context));
    if let Some(objects) = whole.as_ref().and_then(|whole| shared.find(owner, whole)) {
        finished.record(owner, input, Ok(objects.clone()));
        return Ok(objects);
    }
    let result = match build_objects(artifact, owner, spec, context) {
        Ok(objects) => Ok(objects),
        Err(Interrupt::Failed(failure)) => Err(failure),
        Err(Interrupt::Missing) => return Err(Interrupt::Missing),
    };
    if let (Some(whole), Ok(objects)) = (whole, &result) {
        shared.record(owner, whole, objects.clone());
    }
    finished.record(owner, input, result.clone());
    Ok(result?)
}

fn build_input(artifact: &Arc<Artifact>, spec: &KustomizationSpec, context: &BuildContext<'_>) -> BuildInput {
    let (features, overrides) = (context.features, context.overrides.clone());
    BuildInput { artifact: artifact.clone(), spec: spec.clone(), features, overrides }
}

/// Returns the input of a build with all variables that it may read, so that it is that of the build in any cluster; `None` if
/// one is not known yet.
fn input_with_variables(input: &BuildInput, owner: &NamespacedName, context: &BuildContext<'_>) -> Option<BuildInput> {
    let references = variable_sources(input.spec.value()).map(|source| source.reference(&owner.namespace));
    let read = references.map(|reference| Some((reference.clone(), context.data(&reference)?.clone())));
    Some(BuildInput { overrides: read.collect::<Option<_>>()?, ..input.clone() })
}

fn build_objects(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
) -> Result<Arc<[BuiltObject]>, Interrupt> {
    let prepared = prepared_run(artifact, owner, spec, context)?;
    let output = match kustomize_output(artifact, owner, spec, &prepared, context, false) {
        Ok(output) => Ok(output),
        Err(Interrupt::Failed(failure)) => Err(failure),
        Err(Interrupt::Missing) => return Err(Interrupt::Missing),
    };
    let decrypted = spec.decrypts().then(|| decryption::macs_decrypted_before_build(artifact, &prepared.generated));
    let built = output.and_then(|output| match &decrypted {
        None if output.variables.is_none() => {
            let objects = output.run.objects.get_or_init(|| read_objects(&output, spec, None).map(Arc::from));
            objects.clone()
        }
        decrypted => read_objects(&output, spec, decrypted.as_ref()).map(Arc::from),
    });
    Ok(built.map_err(|failure| {
        let encrypted_patch = decrypted.and_then(|macs| decryption::encrypted_patch(artifact, &macs));
        encrypted_patch.map_or(failure, |patch| {
            let detail = format!("it cannot be built without the keys: the target of the patch {patch} is encrypted");
            BuildFailure::unknown(ReasonCode::Encrypted, detail)
        })
    })?)
}

/// Returns the run of kustomize for a Kustomization, each prepared once.
fn prepared_run(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &BuildContext<'_>,
) -> PreparedResult {
    let (known, features) = (&context.answers.shared.prepared, context.features);
    let input =
        BuildInput { artifact: artifact.clone(), spec: spec.clone(), features, overrides: DataOverrides::new() };
    if let Some(result) = known.find(owner, &input) {
        return result;
    }
    let result = prepare(artifact, spec, features).map(Arc::new);
    known.record(owner, input, result.clone());
    result
}

fn prepare(artifact: &Artifact, spec: &KustomizationSpec, features: Features) -> Result<PreparedRun, BuildFailure> {
    ensure_read(artifact, &path::secure_join(text_at(spec.value(), "/path")))?;
    let generated = generated_file(artifact, spec, features)?;
    let inputs = checked_inputs(artifact, &generated, features)?;
    let key = run_key(artifact, &generated, &inputs);
    Ok(PreparedRun { generated, inputs, key })
}

/// Returns the kustomization file that the controller generates.
fn generated_file(
    artifact: &Artifact,
    spec: &KustomizationSpec,
    features: Features,
) -> Result<GeneratedFile, BuildFailure> {
    match missing_value(spec.value()) {
        Some(field) => Err(BuildFailure::not_recorded(&field)),
        None => Ok(generator::generate(artifact, spec.value(), features.whole_images)?),
    }
}

/// Builds the bytes that the controller hashes: kustomize's output or, if variables are substituted, kustomize's output
/// for the substituted text.
pub fn build_text(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
) -> Result<String, Interrupt> {
    text_of_build(artifact, owner, spec, context, false)
}

/// Returns the digest of the text of a build.
pub(super) fn build_digest(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
) -> Result<String, Interrupt> {
    let input = build_input(artifact, spec, context);
    let (shared, whole) = (&context.answers.shared.digests, input_with_variables(&input, owner, context));
    if let Some(digest) = whole.as_ref().and_then(|whole| shared.find(owner, whole)) {
        return Ok(digest);
    }
    let digest = digest_of_build(artifact, owner, spec, context)?;
    if let Some(whole) = whole {
        shared.record(owner, whole, digest.clone());
    }
    Ok(digest)
}

fn digest_of_build(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
) -> Result<String, Interrupt> {
    let prepared = prepared_run(artifact, owner, spec, context)?;
    let output = kustomize_output(artifact, owner, spec, &prepared, context, false)?;
    if output.variables.is_some() {
        return Ok(sha256(build_text(artifact, owner, spec, context)?.as_bytes()));
    }
    if let Some(digest) = output.run.digest.get() {
        return Ok(digest.clone());
    }
    let digest = sha256(output.text()?.as_bytes());
    Ok(output.run.digest.get_or_init(|| digest).clone())
}

/// Builds the bytes that the controller hashes. `is_private` is true if the artifact holds values of Secrets.
fn text_of_build(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    context: &mut BuildContext<'_>,
    is_private: bool,
) -> Result<String, Interrupt> {
    let prepared = prepare(artifact, spec, context.features)?;
    let output = kustomize_output(artifact, owner, spec, &prepared, context, is_private)?;
    let text = output.text()?;
    let Some(variables) = &output.variables else { return Ok(text) };
    let substituted = Arc::new(Artifact::of_file("objects.yaml", text.as_bytes()));
    text_of_build(&substituted, owner, &KustomizationSpec::new(&Value::Null), context, variables.hold_secrets())
}

/// Output of kustomize, and the variables to substitute in it.
struct KustomizeOutput<'a> {
    run: &'a RunOutput,
    variables: Option<BuildVariables>,
}

impl KustomizeOutput<'_> {
    fn variables_of(&self, document: &YamlDocument) -> Option<&BuildVariables> {
        self.variables.as_ref().filter(|_| !opts_out(&document.value))
    }

    /// Returns the documents as one text, with the values of variables.
    fn text(&self) -> Result<String, BuildFailure> {
        let texts: Result<Vec<_>, BuildFailure> =
            self.run.documents.iter().map(|document| self.substituted(document)).collect();
        Ok(texts?.join(SEPARATOR))
    }

    /// Returns the text of a document with placeholders for the values of Secrets; `None` if it holds none.
    fn masked(&self, document: &YamlDocument) -> Option<String> {
        self.variables_of(document)?.substitute_masked(&document.text)
    }

    fn substituted<'d>(&self, document: &'d YamlDocument) -> Result<Cow<'d, str>, BuildFailure> {
        match self.variables_of(document) {
            Some(variables) => Ok(Cow::Owned(variables.substitute(&document.text)?)),
            None => Ok(Cow::Borrowed(&document.text)),
        }
    }
}

/// Returns true if no variable is substituted in a manifest.
fn opts_out(manifest: &Value) -> bool {
    manifest_has(manifest, SUBSTITUTE, |value| value == "disabled")
}

fn kustomize_output<'a>(
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    prepared: &PreparedRun,
    context: &mut BuildContext<'a>,
    is_private: bool,
) -> Result<KustomizeOutput<'a>, Interrupt> {
    let PreparedRun { generated, inputs, key } = prepared;
    let Some(result) = context.answers.runs.get(key) else {
        let (generated, inputs) = (generated.clone(), inputs.clone());
        let run = Run { key: key.clone(), artifact: artifact.clone(), generated, inputs, is_private };
        context.needs.runs.insert(key.clone(), run);
        return Err(Interrupt::Missing);
    };
    let run = &**result.as_ref().map_err(BuildFailure::clone)?;
    // The controller reads variables for each object that does not opt out: without one they cannot fail.
    if run.documents.iter().all(|document| opts_out(&document.value)) {
        return Ok(KustomizeOutput { run, variables: None });
    }
    let mut found = Vec::new();
    let mut is_complete = true;
    let number = variable_sources(spec.value()).count();
    DATA_SOURCES.check(number).map_err(|exceeded| {
        BuildFailure::unknown(ReasonCode::LimitExceeded, format!("its substituteFrom has {exceeded}"))
    })?;
    for source in variable_sources(spec.value()) {
        let reference = source.reference(&owner.namespace);
        match context.data(&reference) {
            Some(data) => found.push((source, data)),
            None => {
                context.needs.data.insert(reference);
                is_complete = false;
            }
        }
    }
    if !is_complete {
        return Err(Interrupt::Missing);
    }
    let variables = resolve_variables(spec.value(), &found, context.features.strict_substitution);
    Ok(KustomizeOutput { run, variables: variables.map_err(BuildFailure::from)? })
}

/// Fails if a manifest at, above or below a path could not be read here: a build without it would be another one.
fn ensure_read(artifact: &Artifact, at: &str) -> Result<(), BuildFailure> {
    artifact.unread_manifest(at).map_or(Ok(()), |unread| Err(unreadable(unread)))
}

fn unreadable(unread: String) -> BuildFailure {
    BuildFailure::unknown(ReasonCode::ManifestUnreadable, unread)
}

/// Returns what kustomize reads. Fails if kustomize must not run, or if the controller refuses to fetch it.
pub(super) fn checked_inputs(
    artifact: &Artifact,
    generated: &GeneratedFile,
    features: Features,
) -> Result<Inputs, BuildFailure> {
    let inputs = references::check(artifact, generated).map_err(|error| {
        // What a file refers to may be among what could not be read.
        let unread = artifact.unread_at("").filter(|_| matches!(error, ReferenceError::Refused(_)));
        unread.map_or_else(|| error.into(), unreadable)
    })?;
    inputs.paths().try_for_each(|at| ensure_read(artifact, at))?;
    match inputs.repository().filter(|_| features.no_remote_bases) {
        Some(url) => {
            let url = redact_urls(url);
            Err(BuildFailure::proven(format!("{url} is a remote base, and the controller runs with --no-remote-bases")))
        }
        None => Ok(inputs),
    }
}

/// Returns a hash of the files that a run reads, so that a change elsewhere in the tree does not repeat the run.
pub(super) fn run_key(artifact: &Artifact, generated: &GeneratedFile, inputs: &Inputs) -> String {
    let digest = inputs.digest(artifact);
    let written = inputs.written.iter().flat_map(|(file, text)| [file, text]);
    hash_of_parts([&digest, &generated.directory].into_iter().chain(written).map(String::as_bytes))
}

/// Fails as the controller does for an output of kustomize without version, kind or name, before variables are substituted.
///
/// Source: kustomize-controller v1.9.5 `internal/controller/kustomization_controller.go`, `build`.
fn ensure_typed(manifest: &Value) -> Result<(), BuildFailure> {
    let missing = ["/apiVersion", "/kind", "/metadata/name"]
        .into_iter()
        .find(|field| manifest.pointer(field).is_none_or(|value| value.is_null() || value == ""));
    match missing.filter(|_| !manifest.is_null()) {
        Some(field) => Err(BuildFailure::proven(format!("a manifest has no {}", field[1..].replace('/', ".")))),
        None => Ok(()),
    }
}

fn read_objects(
    output: &KustomizeOutput<'_>,
    spec: &KustomizationSpec,
    decrypted: Option<&BTreeSet<String>>,
) -> Result<Vec<BuiltObject>, BuildFailure> {
    let mut built = Vec::new();
    for document in &output.run.documents {
        ensure_typed(&document.value)?;
        let masked = output.masked(document);
        let manifest = match output.variables_of(document) {
            Some(_) => parse_substituted(&output.substituted(document)?)
                .map_err(|error| {
                    // The controller reads YAML with another library, which may accept it. The message can quote a value.
                    let error =
                        if masked.is_some() { "it holds values of Secrets, which are not shown" } else { &error };
                    let detail = format!("not YAML after substitution: {error}");
                    BuildFailure::unknown(ReasonCode::ManifestUnreadable, detail)
                })?
                .into(),
            None => document.value.clone(),
        };
        let undecrypted = decrypted.and_then(|macs| decryption::undecrypted_part(&document.value, macs));
        let mut of_document = objects::objects(manifest, undecrypted.as_ref());
        if let Some(text) = masked {
            mask_objects(&mut of_document, &text);
        }
        if let Some((object, key)) =
            of_document.iter().find_map(|it| Some((it, decryption::encrypted_instruction(it)?)))
        {
            let detail = format!("it cannot be built without the keys: {key} of {} is encrypted", object.shown_id());
            return Err(BuildFailure::unknown(ReasonCode::Encrypted, detail));
        }
        built.extend(of_document);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) =
        built.iter().find(|object| !seen.insert((&object.id, text_at(&object.manifest, "/apiVersion"))))
    {
        return Err(BuildFailure::proven(format!("{} is built twice", twice.shown_id())));
    }
    // Two API versions are one object of the cluster, and the last one is applied last.
    let mut later = BTreeSet::new();
    built.reverse();
    built.retain(|object| later.insert(object.id.clone()));
    built.reverse();
    match built.iter().find(|object| decryption::is_rejected(object, spec.decrypts())) {
        Some(secret) => {
            Err(BuildFailure::proven(format!("{} is encrypted and spec.decryption is not set", secret.shown_id())))
        }
        None => Ok(built),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::build::needs::{Answers, Needs};
    use crate::flux::build::objects::data::{Data, DataOverrides, DataRef, Lookup};
    use crate::flux::build::objects::undecrypted::Undecrypted;
    use crate::flux::source::options::SourceOptions;
    use crate::private::Private;
    use serde_json::json;

    #[test]
    fn a_manifest_without_version_fails_as_in_the_controller() {
        let output =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: {name: b}\n";
        assert_eq!(run(json!({}), output, &[]).unwrap_err(), "a manifest has no apiVersion");
        assert!(ensure_typed(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ""}})).is_err());
    }

    fn run(spec: Value, output: &str, data: &[(&str, &str)]) -> Result<Arc<[BuiltObject]>, String> {
        let values = data.iter().map(|(key, value)| ((*key).to_owned(), Private::new((*value).to_owned()))).collect();
        let found = Lookup::Found(Data { values, ..Data::default() });
        builds(&spec, output, &found).map_err(|failure| failure.reason().detail.clone())
    }

    /// Builds with one output of kustomize and one answer for every ConfigMap and Secret.
    fn builds(spec: &Value, output: &str, data: &Lookup) -> Result<Arc<[BuiltObject]>, BuildFailure> {
        let artifact = Arc::new(Artifact::pack(&[("a.yaml", "")].into_iter().collect(), &SourceOptions::default()));
        builds_in_cluster(&artifact, spec, output, data, &mut Answers::default())
    }

    fn builds_in_cluster(
        artifact: &Arc<Artifact>,
        spec: &Value,
        output: &str,
        data: &Lookup,
        answers: &mut Answers,
    ) -> Result<Arc<[BuiltObject]>, BuildFailure> {
        let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
        let spec = KustomizationSpec::new(spec);
        for _ in 0..3 {
            let mut needs = Needs::default();
            let mut context = BuildContext::new(Features::default(), answers, &mut needs);
            match build(artifact, &owner, &spec, &mut context) {
                Ok(built) => return Ok(built),
                Err(Interrupt::Failed(failure)) => return Err(failure),
                Err(Interrupt::Missing) => {}
            }
            needs.runs.into_keys().for_each(|key| answers.record_run(key, Ok(output.to_owned())));
            for reference in needs.data {
                assert_eq!(reference.namespace, "n");
                answers.data.insert(reference, data.clone());
            }
        }
        panic!("the build still needs answers after 3 steps");
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n";

    #[test]
    fn variables_from_the_cluster_are_substituted_in_names() {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}});
        let built = run(spec.clone(), MAP, &[("name", "web")]).unwrap();
        assert_eq!(&*built[0].id.name, "web");
        // Without any variable the text is not substituted.
        assert_eq!(&*run(spec, MAP, &[]).unwrap()[0].id.name, "${name}");
    }

    #[test]
    fn a_build_is_repeated_only_with_other_variables() {
        let artifact = Arc::new(Artifact::pack(&[("a.yaml", "")].into_iter().collect(), &SourceOptions::default()));
        let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
        let (vars, mut answers) = (json!({"kind": "ConfigMap", "name": "vars"}), Answers::default());
        let spec = KustomizationSpec::new(&json!({"postBuild": {"substituteFrom": [vars]}}));
        let named = |name: &str| {
            let values = [("name".to_owned(), Private::new(name.to_owned()))].into();
            Lookup::Found(Data { values, ..Data::default() })
        };
        let mut needs = Needs::default();
        assert_eq!(
            build(&artifact, &owner, &spec, &mut BuildContext::new(Features::default(), &answers, &mut needs)),
            Err(Interrupt::Missing)
        );
        needs.runs.into_keys().for_each(|key| answers.record_run(key, Ok(MAP.to_owned())));
        let reference = DataRef { kind: "ConfigMap".to_owned(), namespace: "n".to_owned(), name: "vars".to_owned() };
        answers.data.insert(reference.clone(), named("old"));
        let none = DataOverrides::new();
        let overrides = [(reference, named("new"))].into();
        let build = |overrides: &DataOverrides| {
            let mut needs = Needs::default();
            let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
            context.overrides = overrides;
            build(&artifact, &owner, &spec, &mut context).unwrap()
        };
        let (old, new) = (build(&none), build(&overrides));
        assert_eq!((&*old[0].id.name, &*new[0].id.name), ("old", "new"));
        assert!(Arc::ptr_eq(&old, &build(&none)) && Arc::ptr_eq(&new, &build(&overrides)));
    }

    #[test]
    fn clusters_share_builds_with_equal_variables() {
        let artifact = Arc::new(Artifact::pack(&[("a.yaml", "")].into_iter().collect(), &SourceOptions::default()));
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}});
        let named = |name: &str, is_secret| {
            let values = [("name".to_owned(), Private::new(name.to_owned()))].into();
            Lookup::Found(Data { values, is_secret, ..Data::default() })
        };
        let trees = Answers::default();
        let mut clusters: Vec<Answers> = (0..5).map(|_| trees.of_same_trees()).collect();
        let found = [named("eu", false), named("eu", false), named("us", false), named("eu", true), Lookup::Missing];
        let built: Vec<_> = clusters
            .iter_mut()
            .zip(&found)
            .map(|(cluster, found)| {
                builds_in_cluster(&artifact, &spec, MAP, found, cluster).map_err(|failure| failure.reason().code)
            })
            .collect();
        let [first, second, other, secret, failed] = &built[..] else { panic!("five clusters") };
        assert!(Arc::ptr_eq(first.as_ref().unwrap(), second.as_ref().unwrap()), "the variables are equal");
        assert_eq!(&*other.as_ref().unwrap()[0].id.name, "us");
        assert!(secret.as_ref().unwrap()[0].masked.is_some(), "a value of a Secret is hidden in its cluster");
        assert_eq!(failed, &Err(ReasonCode::BuildFailed));
    }

    fn name_with_substitute(value: &str) -> String {
        let text = format!("{MAP}  annotations:\n    {SUBSTITUTE}: {value}\n");
        run(json!({"postBuild": {"substitute": {"name": "web"}}}), &text, &[]).unwrap()[0].id.name.to_string()
    }

    #[test]
    fn an_object_can_opt_out_of_substitution_by_exact_value() {
        assert_eq!(name_with_substitute("disabled"), "${name}");
        assert_eq!(name_with_substitute("Disabled"), "web");
    }

    #[test]
    fn two_api_versions_of_one_object_are_no_error() {
        let scaler = |version: &str| {
            format!("apiVersion: autoscaling/{version}\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: h\n")
        };
        let text = format!("{}---\n{}", scaler("v1"), scaler("v2"));
        let built = builds(&json!({}), &text, &Lookup::Missing).unwrap();
        let versions: Vec<_> = built.iter().map(|object| &object.manifest["apiVersion"]).collect();
        assert_eq!(versions, ["autoscaling/v2"]);
    }

    #[test]
    fn variables_are_read_only_for_objects_that_do_not_opt_out() {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "none"}]}});
        let missing = |text: &str| builds(&spec, text, &Lookup::Missing).map_err(|failure| failure.reason().code);
        assert_eq!(missing(MAP), Err(ReasonCode::BuildFailed));
        let opted_out = format!("{MAP}  annotations:\n    {SUBSTITUTE}: disabled\n");
        assert_eq!(missing(&opted_out).unwrap().len(), 1);
        assert_eq!(missing(&format!("{opted_out}---\n{MAP}")), Err(ReasonCode::BuildFailed));
        assert!(missing("").unwrap().is_empty());
    }

    #[test]
    fn what_is_shown_of_an_object_holds_no_value_of_a_secret() {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
        let text = format!("{}data:\n  a: x${{p^^}}\n  b: ${{open:-c}}\n", MAP.replace("${name}", "db-${p:0:3}"));
        let secret = Lookup::Found(Data {
            values: [("p", "hunter2"), ("q", "hunter2: [")]
                .map(|(key, value)| (key.to_owned(), Private::new(value.to_owned())))
                .into(),
            is_secret: true,
            ..Data::default()
        });
        let built = builds(&spec, &text, &secret).unwrap();
        assert_eq!((&*built[0].id.name, &*built[0].shown_id().name), ("db-hun", "db-??????????"));
        let masked = built[0].masked.as_ref().unwrap();
        assert_eq!(masked.manifest["data"], json!({"a": "x??????????", "b": "c"}));
        let twice = builds(&spec, &format!("{text}---\n{text}"), &secret).unwrap_err();
        assert_eq!(twice.reason().detail, "configmap/db-?????????? is built twice");
        let no_yaml = builds(&spec, &text.replace("x${p^^}", "${q}"), &secret).unwrap_err();
        assert!(no_yaml.reason().detail.ends_with("which are not shown"), "{no_yaml:?}");
    }

    #[test]
    fn a_secret_that_was_not_read_fails_no_build_of_the_controller() {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
        for (lookup, code) in [
            (Lookup::NotRead, ReasonCode::SecretNotRead),
            (Lookup::Unreadable("forbidden".to_owned()), ReasonCode::VariablesUnreadable),
        ] {
            match builds(&spec, MAP, &lookup) {
                Err(BuildFailure::Unknown(reason)) => assert_eq!(reason.code, code),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn duplicates_and_unreadable_encrypted_secrets_fail_the_build() {
        let two = format!("{MAP}---\n{}", MAP.replace("${name}", "web"));
        assert!(run(json!({"postBuild": {"substitute": {"name": "web"}}}), &two, &[]).unwrap_err().contains("twice"));
        let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\ndata: {a: 'ENC[x]'}\nsops: {mac: x}\n";
        assert!(run(json!({}), secret, &[]).unwrap_err().contains("encrypted"));
        let decrypted = run(json!({"decryption": {"provider": "sops"}}), secret, &[]).unwrap();
        assert_eq!(decrypted[0].undecrypted, Some(Undecrypted::Content));
        let dropped = secret.replace("\ndata", "\nstringData");
        let applied = run(json!({}), &dropped, &[]).expect("the controller applies the encrypted text");
        assert_eq!(applied[0].undecrypted, None, "it is not decrypted at all");
    }
}
