//! The structure of the code. The core does no input and output. ARCHITECTURE.md describes the code as it is: every path and
//! function in it exists, every folder has a line, and folders import each other only as its table allows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gitops_core::plan::ReasonCode;

const ROOTS: [&str; 2] = ["crates/core/src", "src"];

/// Crates and functions that the core must not use.
const FORBIDDEN: [&str; 13] = [
    "kube::",
    "k8s_openapi",
    "tokio",
    "hyper",
    "http::",
    "dialoguer",
    "comfy_table",
    "std::fs",
    "std::process",
    // Reading memory through `std::io::Read` is no I/O; the process' streams are.
    "stdin()",
    "stdout()",
    "stderr()",
    "Utc::now",
];

fn page() -> String {
    fs::read_to_string("ARCHITECTURE.md").unwrap()
}

/// Returns the text in backticks of one line.
fn code(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn is_path(text: &str) -> bool {
    ["src/", "crates/", "tests/", "docs/"].iter().any(|root| text.starts_with(root))
}

/// Returns the cells in backticks of each row of a table, under the heading.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<Vec<&'a str>>> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(code).collect()).collect()
}

/// Returns all Rust files below a folder, as paths from the root of the repository.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns a file up to its unit tests.
fn without_tests(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()
}

/// Returns true for unit tests, which may import everything.
fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs")
        || path.ends_with("testing.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn the_core_does_no_input_and_output() {
    let mut found = vec![];
    for file in files(Path::new("crates/core/src")) {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let names = FORBIDDEN.iter().find(|name| code.contains(**name));
            found.extend(names.map(|name| format!("{}:{}: {name}", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_reason_code_is_used() {
    let mut code = String::new();
    for file in ROOTS.iter().flat_map(|root| files(Path::new(root))) {
        if !is_test(&file) && !file.ends_with("plan/reason.rs") {
            code += &without_tests(&file);
        }
    }
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != ':').collect();
    let codes = ReasonCode::ALL.iter().map(|(code, _)| format!("ReasonCode::{code:?}"));
    let unused: Vec<_> = codes.filter(|code| !words.iter().any(|word| word.ends_with(code.as_str()))).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn only_the_cluster_adapter_names_the_kube_client() {
    let mut found = vec![];
    for file in files(Path::new("src")) {
        let text = fs::read_to_string(&file).unwrap();
        if !file.starts_with("src/cluster") && text.lines().any(|line| line.contains("kube::Client")) {
            found.push(file);
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn every_path_exists() {
    let text = page() + &fs::read_to_string("CONTRIBUTING.md").unwrap();
    let paths: BTreeSet<&str> = text.lines().flat_map(code).filter(|text| is_path(text)).collect();
    let missing: Vec<_> = paths.iter().filter(|path| !Path::new(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(paths.len() > 40, "only {} paths were found", paths.len());
}

/// A step of a journey is a numbered line with a function and its file.
#[test]
fn every_function_of_a_journey_is_in_its_file() {
    let page = page();
    let mut steps = 0;
    for line in
        page.lines().filter(|line| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok()))
    {
        let words = code(line);
        let [function, path, ..] = words[..] else { panic!("no function and file: {line}") };
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (owner, name) = function.rsplit_once("::").unwrap_or(("", function));
        assert!(text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")), "{function} in {path}");
        assert!(text.contains(owner), "{owner} in {path}");
        steps += 1;
    }
    assert!(steps > 20, "only {steps} steps were found");
}

/// Folders with only `mod.rs` and unit tests are one subject and need no line of their own.
#[test]
fn every_folder_has_a_line() {
    let page = page();
    let lines: BTreeSet<&str> = table(&page, "Folders").iter().map(|row| row[0][0]).collect();
    let mut folders = BTreeSet::new();
    for file in ROOTS.iter().flat_map(|root| files(Path::new(root))) {
        if !is_test(&file) && file.file_name().is_some_and(|name| name != "mod.rs") {
            folders.insert(file.parent().unwrap().to_str().unwrap().to_owned());
        }
    }
    let missing: Vec<_> = folders.iter().filter(|folder| !lines.contains(folder.as_str())).collect();
    assert!(missing.is_empty(), "without a line: {missing:?}");
}

#[test]
fn folders_import_only_what_the_table_allows() {
    let page = page();
    let mut violations = vec![];
    for row in table(&page, "Dependencies") {
        let (folder, allowed) = (row[0][0], &row[1]);
        let own = folder.rsplit_once('/').unwrap().1;
        for file in files(Path::new(folder)).into_iter().filter(|file| !is_test(file)) {
            let text = without_tests(&file);
            let imports = imports(&text);
            let others = imports.iter().filter(|import| **import != own && !allowed.contains(import));
            violations.extend(others.map(|import| format!("{} imports {import}", file.display())));
        }
    }
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// Returns the names after `crate::`.
fn imports(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default()) {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            let names = rest.strip_prefix('{').map_or(vec![rest], |list| list.split(',').collect());
            let end = |name: &str| name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            found.extend(names.into_iter().map(str::trim).map(|name| &name[..end(name)]));
        }
    }
    found.remove("");
    found
}

/// Below each folder, sub-folders import each other in one direction only.
#[test]
fn folders_have_no_import_circles() {
    for root in ROOTS {
        let mut siblings: BTreeSet<(PathBuf, PathBuf)> = BTreeSet::new();
        for file in files(Path::new(root)).into_iter().filter(|file| !is_test(file)) {
            for line in without_tests(&file).lines() {
                for import in line.split(['{', ' ', '(', '<', '&']).filter(|word| word.contains("::")) {
                    siblings.extend(sibling_import(Path::new(root), &file, import));
                }
            }
        }
        while let Some(leaf) = siblings.iter().map(|(_, to)| to).find(|to| siblings.iter().all(|(from, _)| from != *to))
        {
            let leaf = leaf.clone();
            siblings.retain(|(_, to)| *to != leaf);
        }
        // Importers that nothing imports are no part of a circle either.
        while let Some(top) =
            siblings.iter().map(|(from, _)| from).find(|from| siblings.iter().all(|(_, to)| to != *from))
        {
            let top = top.clone();
            siblings.retain(|(from, _)| *from != top);
        }
        assert!(siblings.is_empty(), "{siblings:#?}");
    }
}

/// Returns two folders with the same parent if a file in the first one imports a module in the second one.
fn sibling_import(root: &Path, file: &Path, import: &str) -> Option<(PathBuf, PathBuf)> {
    let mut words = import.split("::").peekable();
    let mut module = match words.next()? {
        "crate" => root.to_owned(),
        "super" if file.ends_with("mod.rs") => file.parent()?.parent()?.to_owned(),
        "super" => file.parent()?.to_owned(),
        _ => return None,
    };
    while words.next_if_eq(&"super").is_some() {
        module.pop();
    }
    while let Some(word) = words.next_if(|word| module.join(word).is_dir()) {
        module.push(word);
    }
    let from: Vec<_> = file.parent()?.iter().collect();
    let to: Vec<_> = module.iter().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let folder = |path: &[_]| path.get(..=common).map(|path| path.iter().collect::<PathBuf>());
    Some((folder(&from)?, folder(&to)?))
}
