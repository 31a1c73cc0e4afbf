//! Backup of objects before they are deleted, as files that `kubectl create -f DIR` restores.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use gitops_core::kubernetes::object::text_at;

/// Directory below that of the backup, for objects that Kubernetes or a controller creates again: `kubectl create -f DIR`
/// skips it.
const GENERATED: &str = "generated";

/// Directory with one file per object.
#[derive(Debug)]
pub struct Backup {
    directory: PathBuf,
}

impl Backup {
    /// Creates the directory, readable by this user only.
    ///
    /// Fails when it cannot be created, or has files: the backups of two runs would be mixed.
    pub fn create(directory: &Path, continues: bool) -> Result<Self> {
        let entries = super::create_private_directory(&directory.join(GENERATED))
            .and_then(|()| std::fs::read_dir(directory))
            .map_err(|error| super::cannot_write("backup", directory, &error))?;
        let generated = directory.join(GENERATED);
        if generated.is_symlink() {
            return Err(Error::failed(format!("cannot write backup {}: it is a link", generated.display()))
                .hint("name a new directory with --backup"));
        }
        let is_used = entries.flatten().any(|entry| entry.file_name() != GENERATED);
        if is_used && !continues {
            return Err(Error::failed(format!("the directory of the backup {} has files", directory.display()))
                .hint("name a new directory with --backup"));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Writes one object. `position` orders the files as the objects must be created. `is_generated` is set for an object
    /// that Kubernetes itself creates.
    ///
    /// Fails when the file is not on the disk.
    pub fn write(&self, position: usize, object: &Value, is_generated: bool) -> Result<()> {
        let parts = ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text_at(object, pointer));
        let name: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| file_name(part)).collect();
        let below = if is_generated || is_controlled(object) { GENERATED } else { "" };
        let path = self.directory.join(below).join(format!("{position:05}-{}.json", name.join("-")));
        super::write_private(&path, |file| Ok(serde_json::to_writer_pretty(file, &restorable(object.clone()))?))
            .map(drop)
            .map_err(|error| super::cannot_write("backup", &path, &error))
    }
}

/// Returns true if another object controls this one, and so creates it again.
fn is_controlled(object: &Value) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.is_some_and(|references| references.iter().any(|reference| reference["controller"] == true))
}

/// Keeps letters, digits, `.`, `-` and `_`.
fn file_name(text: &str) -> String {
    let safe = text.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric() && !".-_".contains(c), "_");
    safe.chars().take(100).collect()
}

/// Removes what belongs to the deleted object alone, or what the API server refuses when an object is created.
fn restorable(mut object: Value) -> Value {
    remove(&mut object, "", &["status"]);
    let own = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];
    remove(&mut object, "/metadata", &own);
    remove(&mut object, "/metadata", &["ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"]);
    match object["kind"].as_str().unwrap_or_default() {
        // A claim with these annotations counts as bound, and without its old volume as lost.
        "PersistentVolumeClaim" => {
            let bound = ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];
            remove(&mut object, "/metadata/annotations", &bound);
        }
        // The volume is reserved for the claim of this name, not for the deleted one.
        "PersistentVolume" => remove(&mut object, "/spec/claimRef", &["uid", "resourceVersion"]),
        // The API server generates the selector of a Job and its labels.
        "Job" if object.pointer("/spec/manualSelector") != Some(&json!(true)) => {
            remove(&mut object, "/spec", &["selector"]);
            let generated =
                ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];
            remove(&mut object, "/metadata/labels", &generated);
            remove(&mut object, "/spec/template/metadata/labels", &generated);
        }
        _ => {}
    }
    remove_empty(&mut object);
    object
}

/// Removes members of the object at a pointer.
fn remove(object: &mut Value, pointer: &str, keys: &[&str]) {
    if let Some(members) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        keys.iter().for_each(|key| drop(members.remove(*key)));
    }
}

/// Removes labels and annotations that became empty.
fn remove_empty(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    for key in ["labels", "annotations"] {
        if metadata.get(key).and_then(Value::as_object).is_some_and(Map::is_empty) {
            metadata.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_deleted_object_alone_is_removed() {
        let object = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "creationTimestamp": "t",
                "labels": {"job-name": "a"}, "annotations": {"keep": "this"}, "finalizers": ["example.com/x"],
            },
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"controller-uid": "u", "app": "a"}}}},
            "status": {"active": 1},
        });
        let expected = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "namespace": "n", "annotations": {"keep": "this"}, "finalizers": ["example.com/x"]},
            "spec": {"template": {"metadata": {"labels": {"app": "a"}}}},
        });
        assert_eq!(restorable(object), expected);
    }

    #[test]
    fn names_of_objects_cannot_leave_the_directory() {
        assert_eq!(file_name("../System:Node/x"), ".._system_node_x");
    }

    #[cfg(unix)]
    #[test]
    fn a_planted_link_is_refused() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let backup = place.path().join("backup");
        std::fs::create_dir(&backup).unwrap();
        std::os::unix::fs::symlink(other.path(), backup.join(GENERATED)).unwrap();
        let error = Backup::create(&backup, false).unwrap_err();
        assert!(error.message.ends_with("generated: it is a link"), "{error:?}");
        assert!(std::fs::read_dir(other.path()).unwrap().next().is_none());
    }
}
