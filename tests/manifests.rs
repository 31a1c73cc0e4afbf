//! Manifests from files, directories and standard input; each bad one with its message and exit code.

use std::fs;
use std::path::PathBuf;

use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::tools::manifests::{Loader, Manifests, read};

/// A directory of this test's own.
fn directory(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = std::env::temp_dir().join(format!("kubectl-gitops-manifests-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn load(root: &std::path::Path, loader: Loader) -> kubectl_gitops::error::Result<Manifests> {
    read(&[root.display().to_string()], loader, &mut std::io::empty())
}

fn names(manifests: &Manifests) -> Vec<String> {
    manifests.locals.iter().map(|local| local.id.to_string()).collect()
}

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: shop}\n";

fn cm(name: &str) -> String {
    CM.replace("NAME", name)
}

#[test]
fn a_directory_is_read_to_its_bottom_in_order() {
    let many = format!("---\n{}---\n# nothing\n---\n{}", cm("b"), cm("c"));
    let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}]}
        {"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"}}"#;
    let root = directory(
        "order",
        &[("a.yaml", &cm("a")), ("deep/er/b.yml", &many), ("z.json", json), ("notes.txt", "no"), (".git/x.yaml", "no")],
    );
    let read = load(&root, Loader::Strict).unwrap();
    let expected = ["configmap/a -n shop", "configmap/b -n shop", "configmap/c -n shop", "secret/s", "secret/t"];
    assert_eq!(names(&read), expected);
    assert_eq!(read.locals[2].origin.document, 3);
}

#[test]
fn fluxd_leaves_out_charts_json_and_what_has_no_kind() {
    let root = directory(
        "fluxd",
        &[
            ("a.yaml", &cm("a")),
            ("chart/Chart.yaml", "name: x"),
            ("chart/values.yaml", "x: 1"),
            ("chart/templates/b.yaml", "{{ no }}"),
            ("values.yaml", "just: values"),
            ("z.json", "{}"),
        ],
    );
    let read = load(&root, Loader::Fluxd).unwrap();
    assert_eq!(names(&read), ["configmap/a -n shop"]);
    assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
}

#[test]
fn what_is_no_manifest_is_an_error_with_its_place() {
    let rows = [
        ("no kind", "apiVersion: v1\nmetadata: {name: a}\n".to_owned(), "document 1: has no kind"),
        ("the third", format!("{}---\n{}---\nkind: Pod\n", cm("a"), cm("b")), "document 3: has no apiVersion (Pod)"),
        ("no name", "apiVersion: v1\nkind: Pod\n".to_owned(), "document 1: has no metadata.name (Pod)"),
        ("a text", "hello".to_owned(), "document 1: is not an object"),
        ("broken", format!("{}---\na: [", cm("a")), "document 2: not YAML"),
        ("broken JSON", "{\"kind\": ".to_owned(), "document 1: not YAML"),
    ];
    for (name, text, expected) in rows {
        let root = directory(&name.replace(' ', "-"), &[("x.yaml", &text)]);
        let error = load(&root, Loader::Strict).unwrap_err();
        assert_eq!(error.exit, ExitCode::Error, "{name}");
        assert!(error.message.contains(&format!("x.yaml, {expected}")), "{name}: {}", error.message);
    }
}

#[test]
fn a_path_that_does_not_exist_and_standard_input_twice_are_errors() {
    let missing = read(&["/does/not/exist".to_owned()], Loader::Strict, &mut std::io::empty()).unwrap_err();
    assert_eq!(missing.exit, ExitCode::Error);
    assert!(missing.message.starts_with("cannot read /does/not/exist: "), "{}", missing.message);
    let twice = read(&["-".to_owned(), "-".to_owned()], Loader::Strict, &mut std::io::empty()).unwrap_err();
    assert_eq!((twice.exit, &*twice.message), (ExitCode::Usage, "-f - is given twice"));
}

#[test]
fn standard_input_holds_documents_too() {
    let text = cm("a");
    let read = read(&["-".to_owned()], Loader::Strict, &mut text.as_bytes()).unwrap();
    assert_eq!(read.locals[0].origin.to_string(), "standard input, document 1");
}
