//! Files of a generated repository, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Texts of files, by path relative to the root of the repository.
#[derive(Clone, Default)]
pub(super) struct Tree(pub(super) BTreeMap<String, String>);

impl Tree {
    pub(super) fn write(&mut self, path: &str, text: impl Into<String>) {
        self.0.insert(path.to_owned(), text.into());
    }

    pub(super) fn text(&self, path: &str) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }

    /// Replaces a text in a file. Panics if the file does not have it.
    pub(super) fn replace(&mut self, path: &str, from: &str, to: &str) {
        let text = self.0.get_mut(path).unwrap_or_else(|| panic!("no file {path}"));
        assert!(text.contains(from), "{path} has no {from:?}: {text}");
        *text = text.replace(from, to);
    }

    /// Names of the files in a folder, without its subfolders.
    pub(super) fn files_of(&self, folder: &str) -> Vec<String> {
        let names = self.0.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// Moves a file or a folder.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let folder = format!("{from}/");
        let moved = std::mem::take(&mut self.0).into_iter().map(|(path, text)| match path.strip_prefix(&folder) {
            Some(rest) => (format!("{to}/{rest}"), text),
            None if path == from => (to.to_owned(), text),
            None => (path, text),
        });
        self.0 = moved.collect();
    }

    pub(super) fn remove(&mut self, path: &str) {
        let folder = format!("{path}/");
        self.0.retain(|own, _| own != path && !own.starts_with(&folder));
    }

    /// Writes a kustomization file that lists these resources.
    pub(super) fn list(&mut self, path: &str, head: &str, entries: &[&str]) {
        let entries: String = entries.iter().map(|entry| format!("- {entry}\n")).collect();
        let text =
            format!("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{head}resources:\n{entries}");
        self.write(path, text);
    }

    /// Adds an entry to the end of the `resources` of a kustomization file.
    pub(super) fn add_entry(&mut self, path: &str, entry: &str) {
        let text = self.0.get_mut(path).unwrap_or_else(|| panic!("no file {path}"));
        text.push_str(&format!("- {entry}\n"));
    }

    /// Removes an entry from a kustomization file.
    pub(super) fn remove_entry(&mut self, path: &str, entry: &str) {
        self.replace(path, &format!("- {entry}\n"), "");
    }

    /// Returns the entries of a kustomization file.
    pub(super) fn entries(&self, path: &str) -> Vec<String> {
        self.text(path).lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
    }

    /// Makes the files of a directory equal to the tree, except `.git`.
    pub(super) fn store(&self, directory: &Path) {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            match entry.file_name() {
                name if name == ".git" => {}
                _ if entry.path().is_dir() => fs::remove_dir_all(entry.path()).expect("removed"),
                _ => fs::remove_file(entry.path()).expect("removed"),
            }
        }
        for (path, text) in &self.0 {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory is created");
            fs::write(path, text).expect("a file is written");
        }
    }
}
