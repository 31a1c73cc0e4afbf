//! The hostile and odd trees in `trees/*.txt`.
//!
//! `== NAME` begins a tree. The lines up to its first file are `app/kustomization.yaml`; `spec JSON` among them is the spec
//! of the Kustomization, `{"path": "app"}` by default. `-- PATH --` begins a file, and `-- PATH -> TARGET --` is a symbolic
//! link. More words before the last dashes change a content, without its last line end: `(escaped)` for `\n` and `\xNN`,
//! `(times N)` to repeat it, `(head 'X')` and `(tail 'X')` to put text around it.
//!
//! Every tree also has the files of [`COMMON`] that it does not name. `@PORT@` is a port of this machine on which nothing
//! may connect, and `@OUTSIDE@` a file that nothing may read.

use std::collections::BTreeMap;

use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::source::tree::{File, Tree};
use serde_json::{Value, json};

const TEXTS: [(&str, &str); 5] = [
    ("references", include_str!("trees/references.txt")),
    ("urls", include_str!("trees/urls.txt")),
    ("plugins", include_str!("trees/plugins.txt")),
    ("yaml", include_str!("trees/yaml.txt")),
    ("shapes", include_str!("trees/shapes.txt")),
];

const COMMON: [(&str, &str); 5] = [
    ("app/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ("base/kustomization.yaml", "resources: [cm.yaml]\n"),
    ("base/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
    ("patch.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {patched: 'yes'}\n"),
    ("values.txt", "values\n"),
];

pub(crate) struct Case {
    /// Name of the text, and of the tree in it.
    pub(crate) name: String,
    pub(crate) artifact: Artifact,
    pub(crate) spec: Value,
}

/// Reads all trees. A placeholder stands for its value.
pub(crate) fn cases(port: u16, outside: &str) -> Vec<Case> {
    let read = |(group, text): &(&str, &str)| {
        let text = text.replace("@PORT@", &port.to_string()).replace("@OUTSIDE@", outside);
        let trees = text.split("\n== ").skip(1).map(|tree| case(group, tree)).collect::<Vec<_>>();
        assert!(!trees.is_empty(), "{group}");
        trees
    };
    TEXTS.iter().flat_map(read).collect()
}

fn case(group: &str, text: &str) -> Case {
    let (name, body) = text.split_once('\n').unwrap_or((text, ""));
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    for (path, content) in COMMON {
        files.insert(path.to_owned(), File::Regular(content.as_bytes().into()));
    }
    let mut spec = json!({"path": "app"});
    let mut root = String::new();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next_if(|line| !is_header(line)) {
        match line.strip_prefix("spec {") {
            Some(rest) => spec = serde_json::from_str(&format!("{{{rest}")).expect("a spec is JSON"),
            None => root += &format!("{line}\n"),
        }
    }
    if !root.is_empty() {
        files.insert("app/kustomization.yaml".to_owned(), File::Regular(root.as_bytes().into()));
    }
    while let Some(header) = lines.next() {
        let mut content = String::new();
        while let Some(line) = lines.next_if(|line| !is_header(line)) {
            content += &format!("{line}\n");
        }
        let (path, file) = file(header, &content);
        files.insert(path, file);
    }
    let mut tree = Tree::default();
    for (path, file) in files {
        tree.insert(&path, file).expect("a path of its own");
    }
    let artifact = Artifact::pack(&tree, &SourceOptions::default());
    Case { name: format!("{group}: {name}"), artifact, spec }
}

fn is_header(line: &str) -> bool {
    line.len() > 6 && line.starts_with("-- ") && line.ends_with(" --")
}

fn file(header: &str, content: &str) -> (String, File) {
    let header = header.trim_start_matches("-- ").trim_end_matches(" --");
    if let Some((path, target)) = header.split_once(" -> ") {
        return (path.to_owned(), File::Symlink(target.to_owned()));
    }
    let (path, words) = header.split_once(" (").unwrap_or((header, ""));
    if words.is_empty() {
        return (path.to_owned(), File::Regular(content.as_bytes().into()));
    }
    let is_escaped = words.contains("escaped)");
    let mut bytes = Vec::new();
    let piece = |text: &str| if is_escaped { unescape(text) } else { text.as_bytes().to_vec() };
    let quoted = |word: &str| {
        let (_, rest) = words.split_once(&format!("{word} '"))?;
        rest.split_once("')").map(|(text, _)| unescape(text))
    };
    let times = words
        .split_once("times ")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map_or(1, |(count, _)| count.parse().unwrap());
    bytes.extend(quoted("head").unwrap_or_default());
    for _ in 0..times {
        bytes.extend(piece(content.trim_end_matches('\n')));
    }
    bytes.extend(quoted("tail").unwrap_or_default());
    (path.to_owned(), File::Regular(bytes.into()))
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, used) = match (first, after) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'x', high, low, ..]) => {
                let hex = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap(), 4)
            }
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}
