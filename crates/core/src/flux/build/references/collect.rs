//! A walk through the kustomization files of a build.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::plugins::{self, PluginEntry};
use super::{Inputs, ReferenceError, urls};
use crate::flux::build::go_yaml::{ReadError, to_text};
use crate::flux::build::kustomization_file::fields::KUSTOMIZATION;
use crate::flux::build::kustomization_file::generator::GeneratedFile;
use crate::flux::build::kustomization_file::{self, FILE_NAMES, field_of, items, texts};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

/// Fields with configurations of plugins.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];

/// Reads every file that decides what kustomize opens. Fails with the first reference with which kustomize must not run.
pub fn check(artifact: &Artifact, generated: &GeneratedFile) -> Result<Inputs, ReferenceError> {
    let root = generated.directory.clone();
    let mut walk = ReferenceWalk {
        artifact,
        inputs: Inputs::default(),
        read: BTreeSet::new(),
        seen: BTreeSet::new(),
        queue: Vec::new(),
    };
    walk.inputs.paths.insert(root.clone());
    let mut content = generated.content.clone();
    if let Value::Object(fields) = &mut content {
        let written = walk.kustomization(&root, fields)?;
        fields.extend(written);
    }
    walk.inputs.written.insert(generated.file.clone(), to_text(&content));
    walk.seen.insert(root);
    while let Some(directory) = walk.queue.pop() {
        walk.nested(&directory)?;
    }
    walk.finish()
}

struct ReferenceWalk<'a> {
    artifact: &'a Artifact,
    inputs: Inputs,
    /// Files that kustomize reads as manifests, patches or data.
    read: BTreeSet<String>,
    seen: BTreeSet<String>,
    /// Directories whose kustomization files are not read yet.
    queue: Vec<String>,
}

impl ReferenceWalk<'_> {
    /// A file that is written again must not be read as data, because its bytes differ.
    fn finish(self) -> Result<Inputs, ReferenceError> {
        match self.inputs.written.keys().find(|file| self.read.contains(*file)) {
            Some(file) => {
                Err(ReferenceError::Unreadable(format!("{file} configures kustomize and is read as a file too")))
            }
            None => Ok(self.inputs),
        }
    }

    fn nested(&mut self, directory: &str) -> Result<(), ReferenceError> {
        let Some((file, text)) = self.only_file_in(directory) else { return Ok(()) };
        let mut nested = kustomization_file::read_nested(text).map_err(|error| unreadable(&file, error))?;
        let written = self.kustomization(directory, &nested.fields)?;
        if let Value::Object(value) = &mut nested.value {
            // The file may have the field in other letters.
            value.retain(|key, _| field_of(key, KUSTOMIZATION).is_none_or(|(name, _)| !written.contains_key(*name)));
            value.extend(written);
        }
        self.inputs.written.insert(file, to_text(&nested.value));
        Ok(())
    }

    /// Returns the kustomization file of a directory. kustomize refuses a directory with none or with several.
    fn only_file_in(&self, directory: &str) -> Option<(String, &[u8])> {
        let mut found = FILE_NAMES.iter().filter_map(|name| {
            let file = path::join(directory, name);
            Some((file.clone(), self.artifact.file(&file)?))
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// Checks the references of a kustomization file. Returns the fields to replace.
    fn kustomization(
        &mut self,
        directory: &str,
        fields: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ReferenceError> {
        let content = Value::Object(fields.clone());
        for reference in texts(&content, "resources").chain(texts(&content, "bases")) {
            match self.file_or_directory(directory, reference)? {
                Some(Target::Directory(at)) => self.enter(at),
                Some(Target::File(at)) => {
                    self.read.insert(at);
                }
                None => {}
            }
        }
        for reference in texts(&content, "components") {
            self.component(directory, reference)?;
        }
        for field in ["crds", "configurations"] {
            texts(&content, field).try_for_each(|reference| self.file(directory, reference))?;
        }
        for field in ["patches", "patchesJson6902", "replacements"] {
            let paths = items(&content, field).iter().filter_map(|entry| entry.get("path")?.as_str());
            paths.into_iter().try_for_each(|reference| self.file(directory, reference))?;
        }
        if let Some(reference) = content.pointer("/openapi/path").and_then(Value::as_str) {
            self.file(directory, reference)?;
        }
        texts(&content, "patchesStrategicMerge").try_for_each(|patch| self.patch(directory, patch))?;
        for field in ["configMapGenerator", "secretGenerator"] {
            for generator in items(&content, field) {
                let files = texts(generator, "files").filter_map(plugins::file_of_source);
                let envs = texts(generator, "envs").chain(generator.get("env").and_then(Value::as_str));
                files.chain(envs).try_for_each(|reference| self.file(directory, reference))?;
            }
        }
        let mut written = Map::new();
        for field in PLUGINS {
            let Some(entries) = fields.get(field).and_then(Value::as_array) else { continue };
            let checked = entries.iter().map(|entry| match entry.as_str() {
                Some(text) => self.plugin(directory, text).map(Value::from),
                None => Ok(entry.clone()),
            });
            written.insert(field.to_owned(), checked.collect::<Result<_, _>>().map(Value::Array)?);
        }
        Ok(written)
    }

    fn enter(&mut self, directory: String) {
        if self.seen.insert(directory.clone()) {
            self.queue.push(directory);
        }
    }

    /// Checks a reference that kustomize loads as a file only.
    fn file(&mut self, directory: &str, reference: &str) -> Result<(), ReferenceError> {
        if reference.is_empty() {
            return Ok(());
        }
        if urls::is_http(reference) {
            return self.fetch(reference);
        }
        let at = inside(directory, reference)?;
        self.read.insert(at.clone());
        self.inputs.paths.insert(at);
        Ok(())
    }

    /// Checks a reference that kustomize loads as a file, then as a repository or directory. Returns None for a URL, and
    /// for what does not exist.
    fn file_or_directory(&mut self, directory: &str, reference: &str) -> Result<Option<Target>, ReferenceError> {
        if reference.is_empty() {
            return Ok(None);
        }
        if urls::is_http(reference) {
            self.fetch(reference)?;
            return Ok(None);
        }
        if urls::is_repository(reference) {
            // kustomize tries to read it as a file first.
            if path::resolve(directory, reference).is_none() {
                return Err(ReferenceError::Unsafe(format!("{reference} is a URL and a path out of the artifact")));
            }
            self.fetch(reference)?;
            return Ok(None);
        }
        let at = inside(directory, reference)?;
        self.inputs.paths.insert(at.clone());
        if self.artifact.file(&at).is_some() {
            return Ok(Some(Target::File(at)));
        }
        Ok(self.artifact.has_directory(&at).then_some(Target::Directory(at)))
    }

    /// Checks a reference that kustomize takes for a repository or directory only.
    fn component(&mut self, directory: &str, reference: &str) -> Result<(), ReferenceError> {
        if reference.is_empty() {
            return Ok(());
        }
        if urls::is_repository(reference) {
            return self.fetch(reference);
        }
        let at = inside(directory, reference)?;
        self.inputs.paths.insert(at.clone());
        if self.artifact.has_directory(&at) {
            self.enter(at);
        }
        Ok(())
    }

    fn fetch(&mut self, reference: &str) -> Result<(), ReferenceError> {
        if let Some(reason) = urls::refusal(reference) {
            return Err(ReferenceError::Unsafe(format!("{reference} {reason}")));
        }
        self.inputs.remote.push(reference.to_owned());
        Ok(())
    }

    /// Checks a patch that is a text or, if it is no object, a file.
    fn patch(&mut self, directory: &str, patch: &str) -> Result<(), ReferenceError> {
        match plugins::holds_objects(patch) {
            Some(true) => Ok(()),
            Some(false) => self.file(directory, patch),
            // A text that is not read as a path may do whatever it says.
            None if path::resolve(directory, patch).is_some() => self.file(directory, patch),
            None => Err(ReferenceError::Unreadable(format!("{patch:?} is a patch or a path out of the artifact"))),
        }
    }

    /// Checks an entry of a list of plugins. Returns it as it is to be written.
    fn plugin(&mut self, directory: &str, entry: &str) -> Result<String, ReferenceError> {
        match plugins::entry(entry)? {
            PluginEntry::Objects(objects) => {
                self.plugin_objects(directory, &objects)?;
                Ok(plugins::text_of(&objects))
            }
            PluginEntry::Reference => {
                self.plugin_reference(directory, directory, entry)?;
                Ok(entry.to_owned())
            }
        }
    }

    /// Checks a file or directory with configurations. `loader` is the directory that their paths start from.
    fn plugin_reference(&mut self, loader: &str, directory: &str, reference: &str) -> Result<(), ReferenceError> {
        match self.file_or_directory(directory, reference)? {
            Some(Target::File(at)) => {
                let text = self.artifact.file(&at).unwrap_or_default();
                let objects = plugins::read(text).map_err(|error| unreadable(&at, error))?;
                self.plugin_objects(loader, &objects)?;
                self.inputs.written.insert(at, plugins::text_of(&objects));
                Ok(())
            }
            Some(Target::Directory(at)) => self.plugin_directory(loader, &at),
            None => Ok(()),
        }
    }

    /// Checks a directory with configurations. Its kustomization file may list files and nothing else, because every other
    /// field could change the configurations.
    fn plugin_directory(&mut self, loader: &str, directory: &str) -> Result<(), ReferenceError> {
        let Some((file, text)) = self.only_file_in(directory) else { return Ok(()) };
        if self.inputs.written.contains_key(&file) {
            return Err(ReferenceError::Unreadable(format!("{file} is used twice, once for plugins")));
        }
        let nested = kustomization_file::read_nested(text).map_err(|error| unreadable(&file, error))?;
        if !nested.fields.keys().all(|field| ["apiVersion", "kind", "metadata", "resources"].contains(&field.as_str()))
        {
            return Err(ReferenceError::Unreadable(format!("{file} builds the configuration of a plugin")));
        }
        self.inputs.written.insert(file, to_text(&nested.value));
        self.seen.insert(directory.to_owned());
        let content = Value::Object(nested.fields);
        texts(&content, "resources").try_for_each(|reference| self.plugin_reference(loader, directory, reference))
    }

    fn plugin_objects(&mut self, directory: &str, objects: &[Value]) -> Result<(), ReferenceError> {
        for object in objects {
            let paths = plugins::paths(object)?;
            paths.files.iter().try_for_each(|reference| self.file(directory, reference))?;
            paths.patches.iter().try_for_each(|patch| self.patch(directory, patch))?;
        }
        Ok(())
    }
}

/// File or directory that a reference names.
enum Target {
    File(String),
    Directory(String),
}

fn inside(directory: &str, reference: &str) -> Result<String, ReferenceError> {
    path::resolve(directory, reference)
        .ok_or_else(|| ReferenceError::Refused(format!("{reference} is outside of the artifact")))
}

fn unreadable(file: &str, error: ReadError) -> ReferenceError {
    match error {
        ReadError::Invalid(error) => ReferenceError::Refused(format!("{file}: {error}")),
        ReadError::Unsupported(error) => ReferenceError::Unreadable(format!("{file} cannot be read here: {error}")),
    }
}
