//! The parts of a build that kustomize-controller decrypts, and that are unknown here.
//!
//! The controller decrypts files of `secretGenerator` and of `patches` before kustomize runs, so the hash in the name of a
//! generated object depends on plain text. It decrypts everything else after the build.
//! Source: `internal/decryptor` of kustomize-controller v1.9.5.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::flux::build::generator::GeneratedFile;
use crate::flux::build::kustomization_file::{items, texts};
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::undecrypted::{Undecrypted, UnknownName, is_ciphertext};
use crate::flux::build::objects::yaml;
use crate::flux::build::{kustomization_file, sops};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::text::is_same_folded;

/// Annotation that opts an object out of decryption with the value `disabled`.
const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";
/// Fields that make up the identity of an object.
const IDENTITY: [&str; 4] = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"];

/// Ends of the domains of labels and annotations that Flux controllers obey.
const FLUX_DOMAINS: [&str; 2] = ["fluxcd.io", "fluxcd.controlplane.io"];

/// A file that a kustomization file refers to and that is decrypted before the build.
struct EncryptedFile<'a> {
    /// Path relative to the kustomization file.
    path: &'a str,
    /// Text by which the controller recognises an encrypted file of its format.
    marker: &'static str,
}

/// Returns the MACs of the files that the controller decrypts before the build.
pub(in crate::flux::build) fn macs_decrypted_before_build(
    artifact: &Artifact,
    generated: &GeneratedFile,
) -> BTreeSet<String> {
    let mut macs = BTreeSet::new();
    let mut seen = BTreeSet::from([generated.directory.clone()]);
    let mut queue = vec![(generated.directory.clone(), generated.content.clone())];
    while let Some((directory, content)) = queue.pop() {
        for file in encrypted_files(&content) {
            let Some(bytes) = path::resolve(&directory, file.path).and_then(|at| artifact.file(&at)) else { continue };
            let text = String::from_utf8_lossy(bytes);
            macs.extend(sops::mac(&text).filter(|_| text.contains(file.marker)).map(str::to_owned));
        }
        for reference in texts(&content, "resources").chain(texts(&content, "components")) {
            let nested = path::resolve(&directory, reference).filter(|at| artifact.has_directory(at));
            if let Some(at) = nested
                && let Some(content) = kustomization_file::read_in(artifact, &at)
                && seen.insert(at.clone())
            {
                queue.push((at, Value::Object(content)));
            }
        }
    }
    macs
}

/// Returns the file of a patch whose kind or name is encrypted; `macs` are those of [`macs_decrypted_before_build`].
pub(in crate::flux::build) fn encrypted_patch(artifact: &Artifact, macs: &BTreeSet<String>) -> Option<String> {
    let mut files = artifact.files().map(|(at, content)| (at, String::from_utf8_lossy(content)));
    let patch = files.find(|(_, text)| {
        sops::mac(text).is_some_and(|mac| macs.contains(mac))
            && has_encrypted_identity(&yaml::parse(text).unwrap_or_default())
    });
    patch.map(|(at, _)| at.to_owned())
}

/// Returns the part of a document of kustomize's output that is unknown without keys; `macs` comes from
/// [`macs_decrypted_before_build`] for the same build.
pub(in crate::flux::build) fn undecrypted_part(document: &Value, macs: &BTreeSet<String>) -> Option<Undecrypted> {
    if sops::has_mac(document) && has_encrypted_identity(document) {
        return Some(Undecrypted::Identity);
    }
    let is_generated = !macs.is_empty() && contains_any(document, macs);
    let name = document.pointer("/metadata/name").and_then(Value::as_str);
    if is_generated && name.and_then(sops::name_without_hash).is_some() {
        return Some(Undecrypted::Name(UnknownName::default()));
    }
    (is_generated || (is_encrypted(document) && !opts_out(document))).then_some(Undecrypted::Content)
}

/// Returns the label or annotation of an object that a Flux controller obeys, if its value is encrypted: what the controllers do with
/// the object is not known.
pub(in crate::flux::build) fn encrypted_instruction(object: &BuiltObject) -> Option<&str> {
    object.undecrypted.as_ref()?;
    let pairs =
        ["labels", "annotations"].iter().filter_map(|field| object.manifest.get("metadata")?.get(field)?.as_object());
    let mut encrypted = pairs.flatten().filter(|(_, value)| is_ciphertext(Some(value)));
    let is_of_flux =
        |key: &str| key.split_once('/').is_some_and(|(domain, _)| FLUX_DOMAINS.iter().any(|of| domain.ends_with(of)));
    encrypted.find_map(|(key, _)| is_of_flux(key).then_some(key.as_str()))
}

/// Returns true if the controller refuses to apply an object: a Secret with metadata of SOPS that it did not decrypt.
/// Before this check it drops the metadata with all fields that a Secret does not have (observed). Therefore only a Secret
/// with invalid data is rejected; encrypted `stringData` is applied.
pub(in crate::flux::build) fn is_rejected(object: &BuiltObject, decrypts: bool) -> bool {
    let manifest = &object.manifest;
    object.id.is("", "Secret")
        && manifest.get("sops").is_some()
        && !(decrypts && sops::has_mac(manifest))
        && !opts_out(manifest)
        && !is_valid_secret(manifest)
}

fn encrypted_files(content: &Value) -> Vec<EncryptedFile<'_>> {
    let mut found = Vec::new();
    for entry in items(content, "secretGenerator") {
        for file in texts(entry, "files") {
            let (name, path) = file.split_once('=').unwrap_or((file, file));
            found.push(EncryptedFile { path, marker: marker(name, false) });
        }
        found.extend(texts(entry, "envs").map(|path| EncryptedFile { path, marker: marker(path, true) }));
    }
    let patches = items(content, "patches").iter().filter_map(|patch| patch.get("path")?.as_str());
    found.extend(patches.map(|path| EncryptedFile { path, marker: marker(path, false) }));
    found
}

/// Returns the marker of the format that the name of a file stands for.
fn marker(name: &str, holds_variables: bool) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("yaml" | "yml") => "mac: ENC[",
        Some("ini") => "[sops]",
        Some("env") => "sops_mac=ENC[",
        // Registry credentials of kubectl, `.dockerconfigjson`, are JSON too.
        Some("json" | "dockerconfigjson") => "\"mac\": \"ENC[",
        _ if holds_variables => "sops_mac=ENC[",
        _ => "\"mac\": \"ENC[",
    }
}

fn has_encrypted_identity(manifest: &Value) -> bool {
    IDENTITY.iter().any(|pointer| is_ciphertext(manifest.pointer(pointer)))
}

/// Returns true if an object contains the text of one of these files.
fn contains_any(manifest: &Value, macs: &BTreeSet<String>) -> bool {
    let encoded = ["data", "binaryData"].iter().filter_map(|field| manifest.get(field)?.as_object());
    let decoded: Vec<String> = encoded.flat_map(Map::values).filter_map(sops::decoded).collect();
    let mut texts = sops::strings(manifest).into_iter().chain(decoded.iter().map(String::as_str));
    texts.any(|text| macs.iter().any(|mac| text.contains(mac)))
}

/// Returns true if an object, or a value of a Secret, is still encrypted.
fn is_encrypted(manifest: &Value) -> bool {
    let data = manifest.get("data").filter(|_| manifest["kind"] == "Secret").and_then(Value::as_object);
    let mut values = data.into_iter().flat_map(Map::values).filter_map(sops::decoded);
    manifest.get("sops").is_some() || values.any(|text| sops::mac(&text).is_some())
}

fn opts_out(manifest: &Value) -> bool {
    let value = manifest.pointer("/metadata/annotations").and_then(|annotations| annotations.get(DECRYPT)?.as_str());
    value.is_some_and(|value| is_same_folded(value, "disabled"))
}

/// Returns true if `data` holds only base64 text, and `stringData` only text.
fn is_valid_secret(manifest: &Value) -> bool {
    is_map_of(manifest.get("data"), |value| sops::decoded(value).is_some())
        && is_map_of(manifest.get("stringData"), Value::is_string)
}

/// Returns true if a field is missing or null, or if it is a map whose values are null or accepted by the predicate.
fn is_map_of(field: Option<&Value>, accepts: fn(&Value) -> bool) -> bool {
    match field {
        Some(Value::Object(pairs)) => pairs.values().all(|value| value.is_null() || accepts(value)),
        other => other.is_none_or(Value::is_null),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::flux::build::generator;
    use crate::flux::source::options::SourceOptions;

    const MAC: &str = "ENC[AES256_GCM,data:m,iv:i,tag:t,type:str]";

    fn secret(name: &str, data: &[(&str, &str)]) -> Value {
        let data: Map<String, Value> =
            data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
        json!({"kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": data})
    }

    fn encrypted_file(format: &str) -> String {
        match format {
            "env" => format!("sops_mac={MAC}"),
            "ini" => format!("[sops]\nmac = {MAC}"),
            "json" => format!("\"mac\": \"{MAC}\""),
            _ => format!("mac: {MAC}"),
        }
    }

    #[test]
    fn only_generator_and_patch_files_are_decrypted_before_the_build() {
        let rows = [
            ("secretGenerator: [{name: a, envs: [f]}]", "env", true),
            ("secretGenerator: [{name: a, envs: [f]}]", "yaml", false),
            ("secretGenerator: [{name: a, files: [f]}]", "json", true),
            ("secretGenerator: [{name: a, files: [f]}]", "yaml", false),
            ("secretGenerator: [{name: a, files: [k.yaml=f]}]", "yaml", true),
            ("secretGenerator: [{name: a, files: [k.ini=f]}]", "ini", true),
            ("configMapGenerator: [{name: a, files: [f]}]", "json", false),
            ("patches: [{path: f}]", "json", true),
            ("patchesStrategicMerge: [f]", "json", false),
            ("resources: [nested]", "nested", true),
            ("components: [nested]", "nested", true),
            ("bases: [nested]", "nested", false),
        ];
        for (file, format, expected) in rows {
            let nested = "secretGenerator: [{name: a, files: [n.yaml]}]";
            let text = encrypted_file(if format == "nested" { "none" } else { format });
            let mut files = vec![("kustomization.yaml", file), ("nested/kustomization.yaml", nested)];
            files.push((if format == "nested" { "nested/n.yaml" } else { "f" }, &text));
            let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
            let generated = generator::generate(&artifact, &json!({}), false).unwrap();
            assert_eq!(!macs_decrypted_before_build(&artifact, &generated).is_empty(), expected, "{file} {format}");
        }
    }

    fn secret_with_variables(name: &str) -> Value {
        secret(name, &[("a", "x"), ("sops_mac", MAC)])
    }

    #[test]
    fn a_name_is_unknown_only_if_its_hash_depends_on_decrypted_files() {
        let macs = BTreeSet::from([MAC.to_owned()]);
        assert!(matches!(
            undecrypted_part(&secret_with_variables("env-bcdfghkmt2"), &macs),
            Some(Undecrypted::Name(_))
        ));
        let content = Some(Undecrypted::Content);
        assert_eq!(undecrypted_part(&secret_with_variables("env"), &macs), content, "the name has no hash");
        assert_eq!(
            undecrypted_part(&secret_with_variables("env-production"), &macs),
            content,
            "a hash has other characters"
        );
        let none = BTreeSet::new();
        let after = secret("a-bcdfghkmt2", &[("f", &format!("a: 1\nsops:\n    mac: {MAC}\n"))]);
        assert_eq!(undecrypted_part(&after, &none), content, "it is decrypted after the build");
        assert_eq!(
            undecrypted_part(&secret_with_variables("env-bcdfghkmt2"), &none),
            None,
            "only the file shows encrypted variables"
        );
    }

    fn secret_named(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "sops": {"mac": MAC}})
    }

    #[test]
    fn an_encrypted_name_is_an_unknown_identity() {
        let cipher = "ENC[AES256_GCM,data:x,iv:i,tag:t,type:str]";
        let none = BTreeSet::new();
        assert_eq!(undecrypted_part(&secret_named("a"), &none), Some(Undecrypted::Content));
        assert_eq!(undecrypted_part(&secret_named(cipher), &none), Some(Undecrypted::Identity));
        assert_eq!(sops::plain_or_unknown(cipher), crate::flux::build::objects::undecrypted::UNKNOWN);
    }
}
