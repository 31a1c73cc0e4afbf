//! SOPS as the controller reads it: which files it decrypts before a build, and what of the build follows from them.
//!
//! Source: `internal/decryptor` of kustomize-controller 1.9. Files of `secretGenerator` and of `patches` are decrypted
//! before kustomize runs, so the hash in the name of a generated object is one of plain text; whatever else is encrypted
//! is decrypted after the build. A file is known again in what is built by its MAC, which SOPS makes anew each time that
//! it encrypts.

pub mod content;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::encrypted::{Renaming, UNKNOWN, Undecrypted};
use super::generator;
use super::generator::Generated;
use super::kustomization_file;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

pub use content::{content, encrypted};

/// Annotation that keeps an object from being decrypted.
const SWITCH: &str = "kustomize.toolkit.fluxcd.io/decrypt";
/// How the text of an encrypted value begins.
const CIPHER: &str = "ENC[AES256_GCM,";
/// How long kustomize's hash of an object is, and what it is written with.
const HASH_LENGTH: usize = 10;
const HASH_ALPHABET: &str = "bcdfghkmt2456789";
/// What makes the identity of an object.
const IDENTITY: [&str; 4] = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"];

/// What the controller looks for before it decrypts a file, by the format that the file's name stands for.
fn marker(name: &str, env: bool) -> &'static str {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    match () {
        () if ends(&[".yaml", ".yml"]) => "mac: ENC[",
        () if ends(&[".ini"]) => "[sops]",
        () if ends(&[".env"]) => "sops_mac=ENC[",
        // The name that kubectl gives to a registry's credentials ends in `json` too.
        () if env && !ends(&[".json", ".dockerconfigjson"]) => "sops_mac=ENC[",
        () => "\"mac\": \"ENC[",
    }
}

/// The MACs of the files that the controller decrypts before it builds.
pub fn decrypted_first(artifact: &Artifact, generated: &Generated) -> BTreeSet<String> {
    let mut macs = BTreeSet::new();
    let mut seen = BTreeSet::from([generated.directory.clone()]);
    let mut queue = vec![(generated.directory.clone(), generated.content.clone())];
    while let Some((directory, content)) = queue.pop() {
        for (name, file, env) in sources(&content) {
            let text = path::resolve(&directory, &file).and_then(|at| artifact.file(&at).map(String::from_utf8_lossy));
            let text = text.filter(|text| text.contains(marker(&name, env)));
            macs.extend(text.and_then(|text| mac(&text).map(str::to_owned)));
        }
        for reference in texts(content.get("resources")).chain(texts(content.get("components"))) {
            let Some(at) = path::resolve(&directory, reference).filter(|at| artifact.has_directory(at)) else {
                continue;
            };
            let file = generator::NAMES.iter().find_map(|name| artifact.file(&path::join(&at, name)));
            if let Some(Ok(content)) = file.map(kustomization_file::read)
                && seen.insert(at.clone())
            {
                queue.push((at, Value::Object(content)));
            }
        }
    }
    macs
}

/// A patch of the build whose kind or name is encrypted: kustomize cannot tell what it patches without the keys.
pub fn hidden_patch(artifact: &Artifact, generated: &Generated) -> Option<String> {
    let texts = artifact.files().map(|(at, content)| (at, String::from_utf8_lossy(content)));
    let macs = decrypted_first(artifact, generated);
    let decrypted = |text: &str| mac(text).is_some_and(|mac| macs.contains(mac));
    let hidden = |text: &str| {
        let manifest: Value = super::objects::parse(text).unwrap_or_default();
        IDENTITY.iter().any(|part| is_cipher(manifest.pointer(part)))
    };
    texts.filter(|(_, text)| decrypted(text)).find(|(_, text)| hidden(text)).map(|(at, _)| at.to_owned())
}

/// Files of a kustomization file that are decrypted: the name that tells the format, the path, and whether it holds
/// variables.
fn sources(content: &Value) -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    for entry in list(content.get("secretGenerator")) {
        for file in texts(entry.get("files")) {
            let (name, path) = file.split_once('=').unwrap_or((file, file));
            found.push((name.to_owned(), path.to_owned(), false));
        }
        found.extend(texts(entry.get("envs")).map(|file| (file.to_owned(), file.to_owned(), true)));
    }
    let patches = list(content.get("patches")).filter_map(|patch| patch.get("path")?.as_str());
    found.extend(patches.map(|file| (file.to_owned(), file.to_owned(), false)));
    found
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    list(value).filter_map(Value::as_str)
}

/// The encrypted MAC of a SOPS file of any format.
fn mac(text: &str) -> Option<&str> {
    let named = |at: &usize| text[..*at].trim_end_matches([' ', '\t', '"', ':', '=']).ends_with("mac");
    let start = text.match_indices(CIPHER).map(|(at, _)| at).find(named)?;
    let length = text[start..].find(']')?;
    Some(&text[start..=start + length])
}

/// Whether an object holds text of one of these files.
fn carries(manifest: &Value, macs: &BTreeSet<String>) -> bool {
    let holds = |text: &str| macs.iter().any(|mac| text.contains(mac));
    let encoded = ["data", "binaryData"].iter().filter_map(|part| manifest.get(part)?.as_object());
    encoded.flat_map(Map::values).filter_map(decoded).any(|text| holds(&text)) || any_text(manifest, &holds)
}

/// What of a document of kustomize's output is not known without keys. `decrypted` is what [`decrypted_first`] tells of a
/// Kustomization that decrypts.
pub fn veil(document: &Value, decrypted: Option<&BTreeSet<String>>) -> Option<Undecrypted> {
    let decrypted = decrypted?;
    if is_whole(document) && IDENTITY.iter().any(|part| is_cipher(document.pointer(part))) {
        return Some(Undecrypted::Identity);
    }
    let carried = !decrypted.is_empty() && carries(document, decrypted);
    let name = document.pointer("/metadata/name").and_then(Value::as_str);
    if carried && name.and_then(base_of).is_some() {
        return Some(Undecrypted::Name(Renaming::default()));
    }
    (carried || (is_encrypted(document) && !is_spared(document))).then_some(Undecrypted::Content)
}

/// Whether an annotation keeps an object from being decrypted.
pub fn is_spared(manifest: &Value) -> bool {
    let mark = manifest.pointer("/metadata/annotations").and_then(|marks| marks.get(SWITCH)?.as_str());
    mark.is_some_and(|value| value.eq_ignore_ascii_case("disabled"))
}

/// Whether the data of a Secret is such as a Secret can hold.
pub fn is_readable_secret(manifest: &Value) -> bool {
    let all = |part: &str, is: &dyn Fn(&Value) -> bool| match manifest.get(part) {
        Some(Value::Object(pairs)) => pairs.values().all(is),
        other => other.is_none_or(Value::is_null),
    };
    all("data", &|value| value.is_null() || decoded(value).is_some())
        && all("stringData", &|value| value.is_null() || value.is_string())
}

fn is_cipher(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| text.starts_with(CIPHER))
}

/// Whether an object, or a value of a Secret, is still encrypted.
fn is_encrypted(manifest: &Value) -> bool {
    let values = manifest.get("data").filter(|_| manifest["kind"] == "Secret").and_then(Value::as_object);
    let encrypted = |text: String| mac(&text).is_some();
    manifest.get("sops").is_some() || values.into_iter().flat_map(Map::values).filter_map(decoded).any(encrypted)
}

/// Whether an object holds what it takes to decrypt it.
pub fn is_whole(manifest: &Value) -> bool {
    manifest.pointer("/sops/mac").and_then(Value::as_str).is_some_and(|mac| !mac.is_empty())
}

/// Whether any text of a value, keys left out, is so.
pub fn any_text(value: &Value, is: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, is)),
        Value::Object(fields) => fields.values().any(|value| any_text(value, is)),
        _ => false,
    }
}

fn decoded(value: &Value) -> Option<String> {
    // kustomize wraps long values.
    let text: String = value.as_str()?.split_whitespace().collect();
    Some(String::from_utf8_lossy(&STANDARD.decode(text).ok()?).into_owned())
}

/// What a name begins with that ends as kustomize's hashes do.
pub fn base_of(name: &str) -> Option<&str> {
    let (base, hash) = name.rsplit_once('-')?;
    (hash.len() == HASH_LENGTH && hash.chars().all(|c| HASH_ALPHABET.contains(c))).then_some(base)
}

/// What stands in clear of a part of an identity.
pub fn in_clear(part: &str) -> &str {
    if part.starts_with(CIPHER) { UNKNOWN } else { part }
}
