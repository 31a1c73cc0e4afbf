//! What is wrong with a command line or with manifests ends with a clear message, a hint where one helps, and its exit
//! code, before anything is sent.

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use gitops_core::kubernetes::object::ResourceType;
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use kubectl_gitops::tools::snapshot_file;
use support::live::{Run, folder};

/// A recorded cluster that serves ConfigMaps and Namespaces and holds nothing, and manifests to plan with.
struct Place {
    root: PathBuf,
}

const CM: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop, annotations: {qbec.io/component: web}}\n";

impl Place {
    fn new(name: &str) -> Self {
        let root = folder(name);
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let served = |kind: &str, plural: &str, namespaced| ResourceType {
            group: "".into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: "".into(),
            short_names: vec![],
            namespaced,
        };
        snapshot.types = vec![served("ConfigMap", "configmaps", true), served("Namespace", "namespaces", false)];
        snapshot_file::write(&root.join("cluster.json"), &snapshot).unwrap();
        let place = Self { root };
        place.file("one.yaml", CM);
        place
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.root.join(name), text).unwrap();
    }

    /// Runs `prune --plan` on the recording, in this place.
    fn plan(&self, args: &str) -> Run {
        self.run(&["prune", "--plan", "--snapshot", "cluster.json"], args)
    }

    fn run(&self, verb: &[&str], args: &str) -> Run {
        let words = args.split(' ').filter(|word| !word.is_empty()).map(|word| word.trim_matches('\''));
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"))
            .args(verb)
            .args(words)
            .current_dir(&self.root)
            .env("PATH", &self.root)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn every_bad_input() {
    let place = Place::new("usage");
    place.file("empty.yaml", "# nothing\n---\n");
    place.file("kindless.yaml", &format!("{CM}---\napiVersion: v1\nmetadata: {{name: b}}\n"));
    place.file("emptylist.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    let item = CM.trim_end().replace('\n', "\n  ");
    place.file("namelesslist.yaml", &format!("kind: List\nitems:\n- {item}\n- {{apiVersion: v1, kind: ConfigMap}}\n"));
    place.file("broken.yaml", "a: [\n");
    place.file("nameless.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    place.file("twice.yaml", &format!("{CM}---\n{}", CM.replace(", namespace: shop", "")));
    place.file("qbec.yaml", "apiVersion: qbec.io/v1alpha1\nkind: App\nmetadata: {name: shop}\nspec: {}\n");
    let tag = "x".repeat(70);
    let long = format!("--by qbec --app shop --env dev --app-tag {tag} -f one.yaml");
    let qbec = "--by qbec --app shop --env dev --default-namespace shop";
    let flux = "--by flux-v1 --git-url git@h:o/r";
    let set = "--by applyset --applyset shop -n shop";
    let rows: [(&str, String, i32, &str, &str); 47] = [
        (
            "an app that is no label value",
            "--by qbec --app a/b --env dev -f one.yaml".to_owned(),
            2,
            "application \"a/b\" cannot be a label value",
            "use letters",
        ),
        (
            "an environment that is none",
            "--by qbec --app a --env -b- -f one.yaml".replace("--env -b-", "--env=-b-"),
            2,
            "environment \"-b-\" cannot be a label value",
            "use letters",
        ),
        ("the baseline", "--by qbec --app a --env _ -f one.yaml".to_owned(), 2, "environment _ is qbec's baseline", ""),
        ("Q24 a tag of 70 characters", long, 2, "tag has 70 characters, and a label value at most 63", "shorten it"),
        (
            "an app of 64 characters",
            format!("--by qbec --app {} --env dev -f one.yaml", "x".repeat(64)),
            2,
            "application has 64 characters, and a label value at most 63",
            "shorten it",
        ),
        (
            "a tag that is no label value",
            format!("{qbec} --app-tag pr/1 -f one.yaml"),
            2,
            "tag \"pr/1\" cannot be a label value",
            "use letters",
        ),
        (
            "no object for an ApplySet",
            format!("{set} -f empty.yaml"),
            6,
            "the manifests hold no object",
            "--allow-empty",
        ),
        ("an empty list", format!("{qbec} -f emptylist.yaml"), 6, "the manifests hold no object", "--allow-empty"),
        (
            "no name in a list",
            format!("{qbec} -f namelesslist.yaml"),
            1,
            "namelesslist.yaml, document 1: item 2 of the List has no metadata.name (ConfigMap)",
            "",
        ),
        ("no YAML", format!("{qbec} -f broken.yaml"), 1, "broken.yaml, document 1: not YAML", ""),
        ("standard input twice", format!("{qbec} -f - -f -"), 2, "-f - is given twice", "read once"),
        (
            "twice for an ApplySet",
            format!("{set} -f twice.yaml"),
            1,
            "configmap/a -n shop stands twice in the manifests",
            "remove one",
        ),
        ("an empty branch", format!("{flux} --git-branch= -f one.yaml"), 2, "--git-branch is empty", "master"),
        (
            "an empty new branch",
            format!("{flux} --new-git-branch= -f one.yaml"),
            2,
            "--new-git-branch is empty",
            "master",
        ),
        (
            "an empty new URL",
            format!("{flux} --new-git-url= -f one.yaml"),
            2,
            "--new-git-url \"\" is no URL",
            "as fluxd",
        ),
        (
            "C14 a new path with and without one",
            format!("{flux} --git-path a --new-git-path a, -f one.yaml"),
            2,
            "--new-git-path is given with and without a path",
            "the whole repository",
        ),
        (
            "the same component in and out",
            format!("{qbec} -f one.yaml --component web --exclude-component web"),
            2,
            "cannot include as well as exclude components",
            "one or the other",
        ),
        ("no object", format!("{qbec} -f empty.yaml"), 6, "the manifests hold no object", "--allow-empty"),
        ("no object for fluxd", format!("{flux} -f empty.yaml"), 6, "the manifests hold no object", "--allow-empty"),
        ("no -f", qbec.to_owned(), 2, "the manifests are missing", "pass -f"),
        (
            "no kind",
            format!("{qbec} -f kindless.yaml"),
            1,
            "kindless.yaml, document 2: has no kind",
            "objects that are not in the files are deleted",
        ),
        (
            "no name",
            format!("{qbec} -f nameless.yaml"),
            1,
            "nameless.yaml, document 1: has no metadata.name (ConfigMap)",
            "",
        ),
        ("no file", format!("{qbec} -f nowhere.yaml"), 1, "cannot read nowhere.yaml", ""),
        (
            "twice",
            format!("{qbec} -f twice.yaml"),
            1,
            "configmap/a -n shop stands twice in the manifests: in twice.yaml, document 1 and in twice.yaml, document 2",
            "remove one",
        ),
        (
            "F19 twice by id",
            format!("{flux} --default-namespace shop -f twice.yaml"),
            1,
            "shop:configmap/a stands twice",
            "remove one",
        ),
        (
            "an empty URL",
            "--by flux-v1 --git-url= -f one.yaml".to_owned(),
            2,
            "--git-url \"\" is no URL",
            "as fluxd has it",
        ),
        (
            "a control character",
            "--by flux-v1 --git-url a\tb -f one.yaml".to_owned(),
            2,
            "--git-url \"a\\tb\" is no URL",
            "",
        ),
        (
            "C14 with and without a path",
            format!("{flux} --git-path a, -f one.yaml"),
            2,
            "--git-path is given with and without a path",
            "the whole repository",
        ),
        ("an absolute path", format!("{flux} --git-path /a -f one.yaml"), 2, "--git-path /a begins with /", "relative"),
        ("a path without URL", "--by flux-v1 --git-path a -f one.yaml".to_owned(), 2, "--git-url", ""),
        ("no fluxd to ask", "--by flux-v1 -f one.yaml".to_owned(), 2, "the cluster runs no fluxd", "--git-url"),
        (
            "Q10 a short name",
            format!("{qbec} -f one.yaml --kind cm"),
            2,
            "the filter on kind \"cm\" matches nothing",
            "ConfigMap",
        ),
        (
            "a component that nothing has",
            format!("{qbec} -f one.yaml --component wbe"),
            2,
            "the filter on component \"wbe\" matches nothing",
            "components are web",
        ),
        (
            "a namespace that nothing is in",
            format!("{qbec} -f one.yaml --include-namespace x"),
            2,
            "the filter on namespace \"x\" matches nothing",
            "namespaces are shop",
        ),
        (
            "both kinds",
            format!("{qbec} -f one.yaml --kind a --exclude-kind a"),
            2,
            "cannot include as well as exclude kinds",
            "one or the other",
        ),
        (
            "both components",
            format!("{qbec} -f one.yaml --component a --exclude-component a"),
            2,
            "cannot include as well as exclude components",
            "",
        ),
        (
            "both namespaces",
            format!("{qbec} -f one.yaml --include-namespace a --exclude-namespace a"),
            2,
            "cannot include as well as exclude namespaces",
            "",
        ),
        (
            "flags without their system",
            "--app shop --env dev".to_owned(),
            2,
            "--app needs --by qbec, --by flux-v1 or --by applyset",
            "",
        ),
        (
            "flags of another system",
            format!("{flux} -f one.yaml --app shop"),
            2,
            "--app belongs to --by qbec, not to --by flux-v1",
            "",
        ),
        ("no environment", "--by qbec --app shop -f one.yaml".to_owned(), 2, "--by qbec needs --env", ""),
        (
            "no application",
            "--by qbec --env dev -f one.yaml".to_owned(),
            2,
            "--by qbec needs --app (or --qbec-root)",
            "",
        ),
        (
            "nothing but the system",
            "--by qbec".to_owned(),
            2,
            "--by qbec needs --app, --env and -f, or --qbec-root",
            "",
        ),
        (
            "a working tree too",
            format!("{qbec} -f one.yaml --repo ."),
            2,
            "a working tree of Flux and the manifests of another system make two plans",
            "one at a time",
        ),
        (
            "an owner too",
            format!("kustomization/a {qbec} -f one.yaml"),
            2,
            "owners cannot be named together with manifests",
            "whose objects",
        ),
        (
            "no qbec",
            "--by qbec --env dev --qbec-root .".to_owned(),
            1,
            "cannot run qbec show dev -O -o json",
            "install qbec",
        ),
        (
            "no namespace for a parent",
            "--by applyset --applyset configmap/x -f one.yaml".to_owned(),
            2,
            "a namespace is needed",
            "pass -n",
        ),
        (
            "a parent of no kind",
            "--by applyset --applyset things/x -f one.yaml".to_owned(),
            2,
            "the cluster serves no kind \"things\"",
            "configmap/NAME",
        ),
    ];
    for (name, args, code, message, hint) in rows {
        let run = place.plan(&args);
        assert_eq!(run.code, code, "{name}: {run:?}");
        assert!(run.stderr.contains(message), "{name}: {}", run.stderr);
        assert!(
            hint.is_empty() || run.stderr.contains("hint: ") && run.stderr.contains(hint),
            "{name}: {}",
            run.stderr
        );
        assert_eq!(run.stdout, "", "{name}");
    }
}

#[test]
fn what_only_looks_bad_is_said_and_planned() {
    let place = Place::new("odd");
    let list = format!("kind: List\nitems:\n- {}\n", CM.trim_end().replace('\n', "\n  "));
    place.file("list.yaml", &list);
    place.file(
        "unknown.yaml",
        &format!("{CM}---\napiVersion: new.example.com/v1\nkind: Widget\nmetadata: {{name: w}}\n"),
    );
    let qbec = "--by qbec --app shop --env dev --default-namespace shop";
    let rows = [
        ("a list", format!("{qbec} -f list.yaml"), ""),
        (
            "an unknown kind",
            format!("{qbec} -f unknown.yaml"),
            "warning: the cluster does not serve widget.new.example.com: such manifests are kept by identity",
        ),
        (
            "an unknown kind for fluxd",
            "--by flux-v1 --git-url git@h:o/r -f unknown.yaml".to_owned(),
            "warning: the cluster does not serve widget.new.example.com: fluxd forgets such manifests",
        ),
        (
            "an odd URL",
            "--by flux-v1 --git-url org-1@github.com:o/r -f one.yaml".to_owned(),
            "is no URL to fluxd, which hashes it as a local path",
        ),
        ("an empty path alone", "--by flux-v1 --git-url git@h:o/r --git-path= -f one.yaml".to_owned(), ""),
        ("nothing, on purpose", format!("{qbec} --allow-empty"), ""),
    ];
    for (name, args, warning) in rows {
        let run = place.plan(&args);
        assert_eq!((run.code, run.stderr.contains("nothing to prune")), (0, true), "{name}: {run:?}");
        assert!(run.stderr.contains(warning), "{name}: {}", run.stderr);
    }
}

#[test]
fn a_preview_is_planned_and_never_executed() {
    let place = Place::new("preview");
    let args = "--by flux-v1 --git-url git@h:o/r --git-path a --new-git-path b -f one.yaml";
    let plan = place.plan(args);
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(plan.stdout.contains("in the new manifests and not in the cluster"), "{}", plan.stdout);
    let collision = place.plan("--by flux-v1 --git-url git@h:o/r --git-path a,b --new-git-path ab -f one.yaml");
    assert!(collision.stderr.contains("both sources hash to the same set"), "C7: {}", collision.stderr);
}
