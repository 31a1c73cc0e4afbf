//! Folders and files of the core do not import each other in a circle, so each can be read with nothing but what is below
//! it.
//!
//! The graph is read from the paths in the code, without tests. A path counts for the module that defines the name: a
//! `mod.rs` that re-exports names of its children, and does not use them, makes no arrow to them. `NAME/mod.rs` whose folder
//! has no other file but tests counts as the file `NAME.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Pairs of files that import each other, as a folder and a file in it. Each pair is read as one: the folder owns the
/// value, and the file is a chapter about it.
const PAIRS: [(&str, &str); 6] = [
    // The scheme names the function of its report, and the report reads the labels as the scheme does.
    ("ownership::schemes::flux_v1", "ownership::schemes::flux_v1::label_report"),
    ("ownership::schemes::qbec", "ownership::schemes::qbec::label_report"),
    // The replay of a collector returns its warnings, and they are about its input and what it decided.
    ("prune::collectors::flux_v1", "prune::collectors::flux_v1::warnings"),
    ("prune::collectors::qbec", "prune::collectors::qbec::warnings"),
    // The newest objects of `generateName` are found while a collector is made, with the rest of it.
    ("prune::collectors::qbec", "prune::collectors::qbec::generated_names"),
    // The grammar is parsed into fragments, which only the evaluation beside it reads.
    ("flux::build::envsubst", "flux::build::envsubst::parser"),
];

/// A module of the core: its folder, its code without tests and comments, and the names that it re-exports.
struct Module {
    folder: String,
    code: String,
    reexports: BTreeMap<String, String>,
}

#[test]
fn folders_import_each_other_in_no_circle() {
    let modules = modules();
    let leaf = graph(&modules, |module| modules[module].folder.clone());
    let top = graph(&modules, |module| module.split("::").next().unwrap_or_default().to_owned());
    assert!(leaf.len() > 10 && leaf["ownership"].contains("ownership::schemes"), "the graph was not read: {leaf:#?}");
    let circles = [("top-level folders", circles(&top)), ("folders", circles(&leaf))];
    for (level, circles) in circles {
        assert!(
            circles.is_empty(),
            "{level} of crates/core/src import each other in a circle:\n{}",
            circles.join("\n")
        );
    }
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut files = graph(&modules(), str::to_owned);
    for (folder, file) in PAIRS {
        let arrows = files.get_mut(folder).expect(folder);
        assert!(arrows.remove(file), "{folder} does not import {file}: remove the pair");
        assert!(files[file].contains(folder), "{file} does not import {folder}: remove the pair");
    }
    let circles = circles(&files);
    assert!(circles.is_empty(), "files of crates/core/src import each other in a circle:\n{}", circles.join("\n"));
}

/// A value whose methods are in many files is read nowhere as a whole.
#[test]
fn the_methods_of_a_type_are_in_five_files_at_most() {
    let modules = modules();
    let mut files: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for (path, module) in &modules {
        let top = path.split("::").next().unwrap_or_default();
        for name in module.code.lines().filter_map(type_with_methods) {
            files.entry((top, name)).or_default().insert(path);
        }
    }
    assert!(files.contains_key(&("flux", "State".to_owned())), "no methods were found");
    files.retain(|_, files| files.len() > 5);
    assert!(files.is_empty(), "the methods of these types are in more than five files:\n{files:#?}");
}

/// Returns the name of the type to which a line adds methods of its own: `impl<'a> State<'a> {` is `State`.
fn type_with_methods(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let named = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
    let name: String = named.chars().take_while(|character| character.is_alphanumeric()).collect();
    (!line.contains(" for ") && !name.is_empty()).then_some(name)
}

#[test]
fn a_circle_is_named_with_its_imports() {
    let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")];
    let mut graph = Graph::new();
    for (from, to) in arrows {
        graph.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(circles(&graph), ["a -> b, b -> c, c -> a"]);
}

/// Returns every module of the core by its path, such as `ownership::index`.
fn modules() -> BTreeMap<String, Module> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    collect_files(&root, &mut files);
    let mut modules = BTreeMap::new();
    for file in &files {
        let relative = file.strip_prefix(&root).unwrap().with_extension("");
        let mut path: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if ["tests", "testing", "lib"].iter().any(|test| path.contains(test)) {
            continue;
        }
        if path.last() == Some(&"mod") {
            path.pop();
        }
        let has_siblings =
            files.iter().any(|other| other != file && other.parent() == file.parent() && !other.ends_with("tests.rs"));
        let folder = match file.ends_with("mod.rs") && has_siblings {
            true => path.join("::"),
            false => path[..path.len() - 1].join("::"),
        };
        let code = code_without_tests(&std::fs::read_to_string(file).unwrap());
        modules.insert(path.join("::"), Module { folder, code, reexports: BTreeMap::new() });
    }
    let paths: BTreeSet<String> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        for declaration in declarations(&module.code).0.iter().filter(|declaration| declaration.is_public) {
            for imported in expand(&declaration.tree) {
                let absolute = absolute(&imported, path, &paths);
                let name = imported.rsplit("::").next().unwrap_or_default().to_owned();
                module.reexports.insert(name, absolute);
            }
        }
    }
    modules
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns code up to its unit tests, without comments.
fn code_without_tests(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..tests].lines().map(|line| line.split("//").next().unwrap_or_default());
    // The reach of a visibility is no import.
    lines.collect::<Vec<_>>().join("\n").replace("pub(in crate::", "pub(in ")
}

struct Declaration {
    tree: String,
    is_public: bool,
}

/// Returns the `use` declarations of a module, and the code without them.
fn declarations(code: &str) -> (Vec<Declaration>, String) {
    let mut declarations = vec![];
    let mut rest = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let start = trimmed.find("use ").filter(|at| *at == 0 || trimmed.starts_with("pub"));
        let Some(start) = start else {
            rest.extend([line, "\n"]);
            continue;
        };
        let mut tree = trimmed[start + 4..].to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().unwrap_or(";"));
        }
        let tree = tree.split(';').next().unwrap_or_default().to_owned();
        declarations.push(Declaration { tree, is_public: trimmed.starts_with("pub") });
    }
    (declarations, rest)
}

/// Returns the paths in code that start with `crate::`, `super::` or a child of a module.
fn inline_paths<'c>(code: &'c str, module: &str, modules: &BTreeSet<String>) -> Vec<&'c str> {
    let is_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(|character| !is_path(character));
    let is_absolute = |word: &str| word.starts_with("crate::") || word.starts_with("super::");
    let names_child =
        |word: &str| word.split_once("::").is_some_and(|(child, _)| modules.contains(&format!("{module}::{child}")));
    words.filter(|word| is_absolute(word) || names_child(word)).collect()
}

/// Returns true if code has a word, other than in the declaration of a module.
fn has_word(code: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut lines = code.lines().filter(|line| !line.trim_end().ends_with(&format!("mod {word};")));
    lines.any(|line| line.split(|character| !is_word(character)).any(|found| found == word))
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inner = &rest[..rest.rfind('}').unwrap_or(rest.len())];
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for character in inner.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match character {
            ',' if depth == 0 => parts.push(String::new()),
            other => parts.last_mut().unwrap().push(other),
        }
    }
    let paths = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| expand(part));
    paths.map(|path| format!("{}{path}", prefix.trim())).collect()
}

/// Returns a path from the root of the core; empty for paths into other crates.
fn absolute(path: &str, module: &str, modules: &BTreeSet<String>) -> String {
    let path = path.trim_end_matches("::self").trim_end_matches("::*");
    if let Some(path) = path.strip_prefix("crate::") {
        return path.to_owned();
    }
    let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest = path.trim_start_matches("self::");
    while let Some(after) = rest.strip_prefix("super::") {
        base.pop();
        rest = after;
    }
    base.push(rest.split("::").next().unwrap_or_default());
    let is_relative = rest.len() < path.len() || modules.contains(&base.join("::"));
    base.pop();
    match is_relative {
        true if base.is_empty() => rest.to_owned(),
        true => format!("{}::{rest}", base.join("::")),
        false => String::new(),
    }
}

/// Returns the module that defines a name, following re-exports.
fn module_of<'m>(path: &str, modules: &'m BTreeMap<String, Module>) -> Option<&'m str> {
    let mut parts: Vec<&str> = path.split("::").collect();
    while !parts.is_empty() {
        if let Some((found, module)) = modules.get_key_value(&parts.join("::")) {
            let name = path.split("::").nth(parts.len());
            return match name.and_then(|name| module.reexports.get(name)) {
                Some(original) if original != path => module_of(original, modules),
                _ => Some(found),
            };
        }
        parts.pop();
    }
    None
}

/// Returns the nodes that each node imports. `fold` maps a module to its node.
fn graph(modules: &BTreeMap<String, Module>, fold: impl Fn(&str) -> String) -> Graph {
    let paths: BTreeSet<String> = modules.keys().cloned().collect();
    let mut graph = Graph::new();
    for (path, module) in modules {
        let mut imported = vec![];
        let (declarations, rest) = declarations(&module.code);
        for declaration in declarations {
            let names = expand(&declaration.tree).into_iter().map(|name| absolute(&name, path, &paths));
            let is_only_exported = |name: &str| {
                let word = name.rsplit("::").next().unwrap_or_default();
                declaration.is_public && name.starts_with(&format!("{path}::")) && !has_word(&rest, word)
            };
            imported.extend(names.filter(|name| !is_only_exported(name)));
        }
        imported.extend(inline_paths(&rest, path, &paths).into_iter().map(|found| absolute(found, path, &paths)));
        let from = fold(path);
        for name in imported {
            let Some(to) = module_of(&name, modules).map(&fold) else { continue };
            if to != from && !to.is_empty() && !from.is_empty() {
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
        graph.entry(from).or_default();
    }
    graph
}

/// Returns the circles of a graph, each as the arrows between nodes that reach each other.
fn circles(graph: &Graph) -> Vec<String> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let is_mutual = |a: &String, b: &String| {
        let reaches = |from: &String, to: &String| reach.get(from).is_some_and(|all| all.contains(to));
        reaches(a, b) && reaches(b, a)
    };
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut circles = vec![];
    for folder in graph.keys() {
        let members: Vec<&String> = graph.keys().filter(|other| is_mutual(folder, other)).collect();
        if members.is_empty() || !seen.insert(members[0]) {
            continue;
        }
        let mut arrows = vec![];
        for from in &members {
            arrows.extend(graph[*from].iter().filter(|to| members.contains(to)).map(|to| format!("{from} -> {to}")));
        }
        circles.push(arrows.join(", "));
    }
    circles
}

fn reachable<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = graph[from].iter().collect();
    while let Some(folder) = next.pop() {
        if found.insert(folder) {
            next.extend(graph.get(folder).into_iter().flatten());
        }
    }
    found
}
