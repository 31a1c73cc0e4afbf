//! Manifests from files, directories and standard input; each bad one with its message and exit code.

use insta::assert_snapshot;
use kubectl_gitops::error::Result;
use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::tools::manifests::{Loader, Manifests, read};
use test_support::folder::Folder;

/// A folder with these files.
fn directory(files: &[(&str, &str)]) -> Folder {
    let root = Folder::new("manifests");
    for (path, text) in files {
        root.write(path, text);
    }
    root
}

fn load(root: &Folder, loader: Loader) -> Result<Manifests> {
    read(&[root.path().display().to_string()], loader, &mut std::io::empty())
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
    let root = directory(&[
        ("a.yaml", &cm("a")),
        ("deep/er/b.yml", &many),
        ("z.json", json),
        ("notes.txt", "no"),
        (".git/x.yaml", "no"),
    ]);
    let read = load(&root, Loader::Strict).unwrap();
    let expected = ["configmap/a -n shop", "configmap/b -n shop", "configmap/c -n shop", "secret/s", "secret/t"];
    assert_eq!(names(&read), expected);
    assert_eq!(read.locals[2].origin.document, 3);
}

#[test]
fn fluxd_leaves_out_charts_json_and_what_has_no_kind() {
    let root = directory(&[
        ("a.yaml", &cm("a")),
        ("chart/Chart.yaml", "name: x"),
        ("chart/values.yaml", "x: 1"),
        ("chart/templates/b.yaml", "{{ no }}"),
        ("values.yaml", "just: values"),
        ("z.json", "{}"),
    ]);
    let read = load(&root, Loader::Fluxd).unwrap();
    assert_eq!(names(&read), ["configmap/a -n shop"]);
    let warnings = read.warnings.join("\n").replace(&root.path().display().to_string(), "FOLDER");
    assert_snapshot!(warnings, @"
    FOLDER/chart is a Helm chart: skipped, as fluxd does
    FOLDER/values.yaml, document 1 has no kind: skipped, as fluxd does
    ");
}

#[test]
fn invalid_manifests_are_errors_with_file_and_document() {
    let rows = [
        ("no kind", "apiVersion: v1\nmetadata: {name: a}\n".to_owned()),
        ("the third", format!("{}---\n{}---\nkind: Pod\n", cm("a"), cm("b"))),
        ("no name", "apiVersion: v1\nkind: Pod\n".to_owned()),
        ("a text", "hello".to_owned()),
        ("broken", format!("{}---\na: [", cm("a"))),
        ("broken JSON", "{\"kind\": ".to_owned()),
    ];
    let mut messages = String::new();
    for (name, text) in rows {
        let root = directory(&[("x.yaml", &text)]);
        let error = load(&root, Loader::Strict).unwrap_err();
        assert_eq!(error.exit, ExitCode::Error, "{name}");
        let message = error.message.replace(&root.path().display().to_string(), "FOLDER");
        messages += &format!("{name}: {message}\n");
    }
    assert_snapshot!(messages, @"
    no kind: FOLDER/x.yaml, document 1: has no kind
    the third: FOLDER/x.yaml, document 3: has no apiVersion (Pod)
    no name: FOLDER/x.yaml, document 1: has no metadata.name (Pod)
    a text: FOLDER/x.yaml, document 1: is not an object
    broken: FOLDER/x.yaml, document 2: not YAML: did not find expected node content at line 6 column 1, while parsing a flow node
    broken JSON: FOLDER/x.yaml, document 1: not YAML: did not find expected node content at line 2 column 1, while parsing a flow node
    ");
}

#[test]
fn a_path_that_does_not_exist_and_standard_input_twice_are_errors() {
    let missing = read(&["/does/not/exist".to_owned()], Loader::Strict, &mut std::io::empty()).unwrap_err();
    assert_eq!(missing.exit, ExitCode::Error);
    assert_snapshot!(missing.message, @"cannot read /does/not/exist: No such file or directory (os error 2)");
    let twice = read(&["-".to_owned(), "-".to_owned()], Loader::Strict, &mut std::io::empty()).unwrap_err();
    assert_eq!((twice.exit, &*twice.message), (ExitCode::Usage, "-f - is given twice"));
}

#[test]
fn standard_input_holds_documents_too() {
    let text = cm("a");
    let read = read(&["-".to_owned()], Loader::Strict, &mut text.as_bytes()).unwrap();
    assert_eq!(read.locals[0].origin.to_string(), "standard input, document 1");
}
