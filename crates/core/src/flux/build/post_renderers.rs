//! Post-renderers of HelmReleases: runs of kustomize over what a chart renders.
//!
//! Source: helm-controller v1.6.3 `internal/postrender`; Helm v4.2.2 `pkg/action/action.go`, `renderResources`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::failure::{BuildFailure, Interrupt};
use super::generator::GeneratedFile;
use super::kustomization_file::FILE_NAMES;
use super::needs::{BuildContext, Run};
use super::run::{checked_inputs, run_key};
use crate::flux::source::artifact::Artifact;
use crate::kubernetes::object::{list_at, map_in, text_at};
use crate::ownership::schemes::helm::HOOK;

/// File with what the chart renders.
const INPUT: &str = "helm-output.yaml";
/// Message of kustomize if a patch gives two objects the same identity.
const REGISTERED: &str = "may not add resource with an already registered id";
/// Annotation that Helm adds to all manifests while post-renderers run, so that none is without annotations.
const FILE_NAME: &str = "postrenderer.helm.sh/postrender-filename";
/// Fields of a target that helm-controller passes on.
const TARGET: [&str; 7] = ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];

/// Returns manifests of a chart as the post-renderers of a HelmRelease with this spec change them. `is_private` is true if they
/// hold values of Secrets.
pub(crate) fn post_rendered(
    manifests: Vec<Value>,
    spec: &Value,
    is_private: bool,
    context: &mut BuildContext<'_>,
) -> Result<Vec<Value>, Interrupt> {
    let strategy = text_at(spec, "/postRenderStrategy");
    if ["", "combined"].contains(&strategy) {
        return rendered_at_once(manifests, spec, is_private, context);
    }
    let (hooks, others): (Vec<Value>, Vec<Value>) = manifests
        .into_iter()
        .partition(|manifest| annotations(manifest).is_some_and(|annotations| annotations.contains_key(HOOK)));
    let mut rendered = rendered_at_once(others, spec, is_private, context)?;
    rendered.extend(if passes_hooks(spec) { rendered_at_once(hooks, spec, is_private, context)? } else { hooks });
    Ok(rendered)
}

/// Returns true if the post-renderers of a HelmRelease with this spec get the hooks of its chart too.
pub(crate) fn passes_hooks(spec: &Value) -> bool {
    ["", "combined", "separate"].contains(&text_at(spec, "/postRenderStrategy"))
}

/// Returns manifests as one run of all post-renderers changes them.
fn rendered_at_once(
    mut manifests: Vec<Value>,
    spec: &Value,
    is_private: bool,
    context: &mut BuildContext<'_>,
) -> Result<Vec<Value>, Interrupt> {
    let renderers = list_at(spec, "/postRenderers").iter().filter_map(|renderer| renderer.get("kustomize"));
    for renderer in renderers.filter(|renderer| renderer.is_object()) {
        if !manifests.is_empty() {
            manifests = kustomized(manifests, renderer, is_private, context)?;
        }
    }
    manifests.iter_mut().for_each(|manifest| add_common(manifest, spec));
    Ok(manifests)
}

/// Returns manifests as kustomize changes them with the images and patches of one post-renderer.
fn kustomized(
    mut manifests: Vec<Value>,
    renderer: &Value,
    is_private: bool,
    context: &mut BuildContext<'_>,
) -> Result<Vec<Value>, Interrupt> {
    manifests.iter_mut().for_each(mark);
    let texts: Vec<String> = manifests.iter().map(Value::to_string).collect();
    let artifact = Arc::new(Artifact::of_file(INPUT, texts.join("\n---\n").as_bytes()));
    let content = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [INPUT],
        "images": list_at(renderer, "/images"),
        "patches": list_at(renderer, "/patches").iter().map(patch).collect::<Vec<_>>(),
    });
    let generated = GeneratedFile { directory: String::new(), file: FILE_NAMES[0].to_owned(), content };
    let inputs = checked_inputs(&artifact, &generated, context.features)?;
    let key = run_key(&artifact, &generated, &inputs);
    let Some(result) = context.answers.runs.get(&key) else {
        context.needs.runs.insert(key.clone(), Run { key, artifact, generated, inputs, is_private });
        return Err(Interrupt::Missing);
    };
    let output = result.as_ref().map_err(|failure| match failure.reason() {
        // kustomize panics, and helm-controller with it, which recovers and tries again.
        reason if reason.detail.contains(REGISTERED) => BuildFailure::proven(REGISTERED),
        _ => failure.clone(),
    })?;
    let mut rendered: Vec<Value> = output.documents.iter().map(|document| (*document.value).clone()).collect();
    rendered.iter_mut().for_each(unmark);
    Ok(rendered)
}

/// Returns a patch as helm-controller passes it on, without its options.
fn patch(patch: &Value) -> Value {
    let mut passed = json!({"patch": text_at(patch, "/patch")});
    if let Some(Value::Object(target)) = patch.get("target") {
        let known = target.iter().filter(|(field, _)| TARGET.contains(&field.as_str()));
        passed["target"] = known.map(|(field, value)| (field.clone(), value.clone())).collect::<Map<_, _>>().into();
    }
    passed
}

/// Adds the labels and annotations of `commonMetadata`, which is the last post-renderer.
fn add_common(manifest: &mut Value, spec: &Value) {
    for field in ["labels", "annotations"] {
        let common = spec.get("commonMetadata").and_then(|common| common.get(field)?.as_object());
        let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut);
        let Some((common, metadata)) = common.filter(|common| !common.is_empty()).zip(metadata) else { continue };
        map_in(metadata, field).extend(common.clone());
    }
}

fn annotations(manifest: &Value) -> Option<&Map<String, Value>> {
    manifest.pointer("/metadata/annotations")?.as_object()
}

fn mark(manifest: &mut Value) {
    let metadata = manifest.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(FILE_NAME.to_owned(), INPUT.into());
    }
}

fn unmark(manifest: &mut Value) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(FILE_NAME);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::build::{Answers, Needs};
    use crate::flux::kustomize_controller::Features;

    fn manifest(name: &str, annotations: Option<Value>) -> Value {
        let mut manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        annotations.into_iter().for_each(|annotations| manifest["metadata"]["annotations"] = annotations);
        manifest
    }

    /// Returns what is rendered if each run adds nothing, and the texts of its runs.
    fn rendered(spec: &Value) -> (Vec<Value>, Vec<String>) {
        let manifests = vec![manifest("a", None), manifest("h", Some(json!({HOOK: "test"})))];
        let (mut answers, mut texts) = (Answers::default(), vec![]);
        loop {
            let mut needs = Needs::default();
            let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
            match post_rendered(manifests.clone(), spec, false, &mut context) {
                Ok(rendered) => return (rendered, texts),
                Err(Interrupt::Failed(failure)) => panic!("{failure:?}"),
                Err(Interrupt::Missing) => {}
            }
            for (key, run) in needs.runs {
                let text = String::from_utf8(run.artifact.file(INPUT).unwrap().to_vec()).unwrap();
                answers.record_run(key, Ok(text.clone()));
                texts.push(text);
            }
        }
    }

    #[test]
    fn the_strategy_decides_which_manifests_kustomize_gets() {
        let spec = |strategy: &str, count: usize| {
            let renderers = vec![json!({"kustomize": {"images": [{"name": "i"}]}}); count];
            json!({"postRenderStrategy": strategy, "postRenderers": renderers})
        };
        let runs = |spec: &Value| {
            let (rendered, texts) = rendered(spec);
            assert_eq!(rendered, [manifest("a", None), manifest("h", Some(json!({HOOK: "test"})))], "{spec}");
            texts.iter().map(|text| text.split("---").count()).collect::<Vec<_>>()
        };
        assert_eq!(runs(&json!({})), [0; 0]);
        assert_eq!(runs(&spec("", 1)), [2]);
        assert_eq!(runs(&spec("", 2)), [2], "the second run reads the same");
        assert_eq!(runs(&spec("nohooks", 1)), [1]);
        assert_eq!(runs(&spec("separate", 1)), [1, 1]);
    }

    #[test]
    fn common_metadata_are_added_last() {
        let spec = |strategy: &str| {
            let common = json!({"labels": {"a": "b"}, "annotations": {HOOK: "post-upgrade"}});
            json!({"postRenderStrategy": strategy, "commonMetadata": common})
        };
        let events = |strategy: &str| -> Vec<String> {
            let (manifests, _) = rendered(&spec(strategy));
            let events =
                manifests.iter().map(|manifest| annotations(manifest).unwrap()[HOOK].as_str().unwrap().to_owned());
            events.collect()
        };
        assert_eq!(events(""), ["post-upgrade", "post-upgrade"]);
        assert_eq!(events("nohooks"), ["post-upgrade", "test"]);
    }

    #[test]
    fn a_patch_has_no_options_and_every_manifest_has_an_annotation() {
        let target = json!({"kind": "A", "other": "b"});
        let passed = patch(&json!({"patch": "p", "options": {"allowNameChange": true}, "target": target}));
        assert_eq!(passed, json!({"patch": "p", "target": {"kind": "A"}}));
        let mut marked = manifest("a", None);
        mark(&mut marked);
        assert_eq!(annotations(&marked).map(Map::len), Some(1));
        unmark(&mut marked);
        assert_eq!(marked, manifest("a", None));
    }
}
