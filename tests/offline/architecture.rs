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

/// Returns true for a file or folder of this repository, and not for a pattern such as `tests/*.rs` or `NAME/mod.rs`.
fn is_path(text: &str) -> bool {
    const ROOTS: [&str; 9] = ["src/", "crates/", "tests/", "docs/", "xtask/", "fuzz/", "examples/", "action/", "ci/"];
    let is_name = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c));
    is_name && (text.ends_with(".rs") || ROOTS.iter().any(|root| text.starts_with(root)))
}

/// Returns the cells in backticks of each row of a table, under the heading.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<Vec<&'a str>>> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(code).collect()).collect()
}

/// Returns all Rust files below a folder, as paths from the root of the repository.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    files_with(folder, "rs")
}

fn files_with(folder: &Path, wanted: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files_with(&path, wanted));
        } else if path.extension().is_some_and(|extension| extension == wanted) {
            found.push(path);
        }
    }
    found
}

/// Returns the documents, and the comments of all Rust files, each with its file.
fn prose() -> Vec<(PathBuf, String)> {
    let code = ["src", "crates", "tests", "xtask", "fuzz", "examples"].map(|root| files(Path::new(root)));
    let comments = code.into_iter().flatten().map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| line.trim_start().starts_with("//"));
        (file, lines.collect::<Vec<_>>().join("\n"))
    });
    let pages = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"].map(PathBuf::from);
    let documents = pages.into_iter().chain(files_with(Path::new("docs"), "md"));
    comments.chain(documents.map(|file| (file.clone(), fs::read_to_string(file).unwrap()))).collect()
}

/// Returns the paths that a text cites.
fn cited(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "`()[],;:\"'|<>".contains(c));
    words.map(|word| word.trim_end_matches(['.', '/'])).filter(|word| is_path(word)).collect()
}

/// Returns true if a path exists from the root, beside its citation, or, without folders, anywhere in the code.
fn is_there(path: &str, citation: &Path, code: &[PathBuf]) -> bool {
    let is_name = !path.contains('/');
    Path::new(path).exists()
        || citation.parent().is_some_and(|folder| folder.join(path).exists())
        || is_name && code.iter().any(|file| file.ends_with(path))
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
        || path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "testing")
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
    let prose = prose();
    let code: Vec<PathBuf> = prose.iter().map(|(file, _)| file.clone()).collect();
    let (mut count, mut missing) = (0, vec![]);
    for (file, text) in &prose {
        let paths = cited(text);
        count += paths.len();
        let lost = paths.into_iter().filter(|path| !is_there(path, file, &code));
        missing.extend(lost.map(|path| format!("{} cites {path}", file.display())));
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
    assert!(count > 200, "only {count} paths were found");
}

#[test]
fn a_cited_path_that_does_not_exist_is_found() {
    let text =
        "see tests/gone.rs, (docs/reference/flux.md), `gone.rs`; `tests/*.rs`, NAME/mod.rs and git-lfs/docs/spec.md";
    let lost: Vec<_> = cited(text).into_iter().filter(|path| !is_there(path, Path::new("README.md"), &[])).collect();
    assert_eq!(lost, ["gone.rs", "tests/gone.rs"]);
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

/// Files that read private values: computations of the core, whose results are private again, and the two programs in the
/// sandbox that get them.
const REVEALING: [&str; 12] = [
    "crates/core/src/flux/build/charts/mod.rs",
    "crates/core/src/flux/build/charts/values.rs",
    "crates/core/src/flux/build/substitute.rs",
    "crates/core/src/flux/simulation/model/facts/live_secrets.rs",
    "crates/core/src/flux/simulation/model/secret_values.rs",
    "crates/core/src/flux/simulation/owners/behaviour/comparison.rs",
    "crates/core/src/flux/simulation/owners/resource_set/copies.rs",
    "crates/core/src/flux/simulation/rows/secret_names.rs",
    "crates/core/src/plan/mask.rs",
    "crates/core/src/private.rs",
    "src/tools/programs/flux_operator.rs",
    "src/tools/programs/helm.rs",
];

#[test]
fn private_values_are_revealed_in_these_files_alone() {
    let mut found = vec![];
    for file in ROOTS.iter().flat_map(|root| files(Path::new(root))).filter(|file| !is_test(file)) {
        let text = without_tests(&file);
        if text.contains(".reveal()") || text.contains("Private::reveal") || text.contains("fn reveal") {
            found.push(file.display().to_string());
        }
    }
    found.sort_unstable();
    assert_eq!(found, REVEALING);
}
