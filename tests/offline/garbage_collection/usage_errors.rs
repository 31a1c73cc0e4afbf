//! Wrong command lines and manifests end with a clear message, a hint where one helps, and its exit
//! code, before anything is sent.

use std::path::PathBuf;

use insta::assert_snapshot;
use kubectl_gitops::tools::snapshot_file;
use test_support::folder::folder;
use test_support::gitops::{Run, Transcript, command};
use test_support::objects::snapshot;

/// A recorded cluster that serves ConfigMaps and Namespaces and holds nothing, and manifests to plan with.
struct Place {
    root: PathBuf,
}

const CM: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop, annotations: {qbec.io/component: web}}\n";

impl Place {
    fn new(name: &str) -> Self {
        let root = folder(name);
        let types = [("v1", "ConfigMap", "configmaps", true), ("v1", "Namespace", "namespaces", false)];
        let snapshot = snapshot(&types, vec![]);
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
        self.run(args, &["--plan", "--snapshot", "cluster.json"])
    }

    fn run(&self, args: &str, more: &[&str]) -> Run {
        let words = args.split(' ').filter(|word| !word.is_empty()).map(|word| word.trim_matches('\''));
        let mut command = command(&["prune"]);
        command.args(words).args(more).current_dir(&self.root).env("PATH", &self.root);
        Run::of(&mut command).without_age()
    }
}

#[test]
fn bad_flags_and_manifests_are_refused_with_a_hint() {
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
    let long = format!("qbec --app shop --env dev --app-tag {tag} -f one.yaml");
    let qbec = "qbec --app shop --env dev --default-namespace shop";
    let flux = "flux-v1 --git-url git@h:o/r";
    let set = "applyset --applyset shop -n shop";
    let rows: [(&str, i32, String); 53] = [
        ("an app that is no label value", 2, "qbec --app a/b --env dev -f one.yaml".to_owned()),
        ("an environment that is none", 2, "qbec --app a --env -b- -f one.yaml".replace("--env -b-", "--env=-b-")),
        ("the baseline", 2, "qbec --app a --env _ -f one.yaml".to_owned()),
        ("Q24 a tag of 70 characters", 2, long),
        ("an app of 64 characters", 2, format!("qbec --app {} --env dev -f one.yaml", "x".repeat(64))),
        ("a tag that is no label value", 2, format!("{qbec} --app-tag pr/1 -f one.yaml")),
        ("no object for an ApplySet", 6, format!("{set} -f empty.yaml")),
        ("an empty list", 6, format!("{qbec} -f emptylist.yaml")),
        ("no name in a list", 1, format!("{qbec} -f namelesslist.yaml")),
        ("no YAML", 1, format!("{qbec} -f broken.yaml")),
        ("standard input twice", 2, format!("{qbec} -f - -f -")),
        ("twice for an ApplySet", 1, format!("{set} -f twice.yaml")),
        ("an empty branch", 2, format!("{flux} --git-branch= -f one.yaml")),
        ("an empty new branch", 2, format!("{flux} --new-git-branch= -f one.yaml")),
        ("an empty new URL", 2, format!("{flux} --new-git-url= -f one.yaml")),
        ("C14 a new path with and without one", 2, format!("{flux} --git-path a --new-git-path a, -f one.yaml")),
        ("the same component in and out", 2, format!("{qbec} -f one.yaml --component web --exclude-component web")),
        ("no object", 6, format!("{qbec} -f empty.yaml")),
        ("no object for fluxd", 6, format!("{flux} -f empty.yaml")),
        ("no -f", 2, qbec.to_owned()),
        ("no kind", 1, format!("{qbec} -f kindless.yaml")),
        ("no name", 1, format!("{qbec} -f nameless.yaml")),
        ("no file", 1, format!("{qbec} -f nowhere.yaml")),
        ("twice", 1, format!("{qbec} -f twice.yaml")),
        ("F19 twice by id", 1, format!("{flux} --default-namespace shop -f twice.yaml")),
        ("an empty URL", 2, "flux-v1 --git-url= -f one.yaml".to_owned()),
        ("a control character", 2, "flux-v1 --git-url a\tb -f one.yaml".to_owned()),
        ("C14 with and without a path", 2, format!("{flux} --git-path a, -f one.yaml")),
        ("an absolute path", 2, format!("{flux} --git-path /a -f one.yaml")),
        ("a path without URL", 2, "flux-v1 --git-path a -f one.yaml".to_owned()),
        ("no fluxd to ask", 2, "flux-v1 -f one.yaml".to_owned()),
        ("Q10 a short name", 2, format!("{qbec} -f one.yaml --kind cm")),
        ("a component that nothing has", 2, format!("{qbec} -f one.yaml --component wbe")),
        ("a namespace that nothing is in", 2, format!("{qbec} -f one.yaml --include-namespace x")),
        ("both kinds", 2, format!("{qbec} -f one.yaml --kind a --exclude-kind a")),
        ("both components", 2, format!("{qbec} -f one.yaml --component a --exclude-component a")),
        ("both namespaces", 2, format!("{qbec} -f one.yaml --include-namespace a --exclude-namespace a")),
        ("flags without their system", 2, "--app shop --env dev".to_owned()),
        ("flags of another system", 2, format!("{flux} -f one.yaml --app shop")),
        ("no environment", 2, "qbec --app shop -f one.yaml".to_owned()),
        ("no application", 2, "qbec --env dev -f one.yaml".to_owned()),
        ("nothing but the system", 2, "qbec".to_owned()),
        ("a working tree too", 2, format!("{qbec} -f one.yaml --repo .")),
        ("an owner too", 2, format!("{qbec} kustomization/a -f one.yaml")),
        ("an owner before", 2, format!("kustomization/a {qbec} -f one.yaml")),
        ("a flag of prune before", 2, format!("--assume-no-hub {qbec} -f one.yaml")),
        ("a mistyped system", 2, "qbce --app shop -f one.yaml".to_owned()),
        ("a mistyped system alone", 2, "flux-v2".to_owned()),
        ("the system as a filter", 2, "--by qbec".to_owned()),
        ("an unknown format", 2, format!("{qbec} -f one.yaml -o xml")),
        ("no qbec", 1, "qbec --env dev --qbec-root .".to_owned()),
        ("no namespace for a parent", 2, "applyset --applyset configmap/x -f one.yaml".to_owned()),
        ("a parent of no kind", 2, "applyset --applyset things/x -f one.yaml".to_owned()),
    ];
    let mut transcript = Transcript::default();
    for (name, code, args) in rows {
        let run = place.plan(&args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{name}: {run}");
        transcript.add(&format!("{name}: {args}"), &run);
    }
    assert_snapshot!(transcript);
}

#[test]
fn unusual_input_is_planned_with_a_warning() {
    let place = Place::new("odd");
    let list = format!("kind: List\nitems:\n- {}\n", CM.trim_end().replace('\n', "\n  "));
    place.file("list.yaml", &list);
    place.file(
        "unknown.yaml",
        &format!("{CM}---\napiVersion: new.example.com/v1\nkind: Widget\nmetadata: {{name: w}}\n"),
    );
    let qbec = "qbec --app shop --env dev --default-namespace shop";
    let rows = [
        ("a list", format!("{qbec} -f list.yaml")),
        ("an unknown kind", format!("{qbec} -f unknown.yaml")),
        ("an unknown kind for fluxd", "flux-v1 --git-url git@h:o/r -f unknown.yaml".to_owned()),
        ("an odd URL", "flux-v1 --git-url org-1@github.com:o/r -f one.yaml".to_owned()),
        ("an empty path alone", "flux-v1 --git-url git@h:o/r --git-path= -f one.yaml".to_owned()),
        ("nothing, on purpose", format!("{qbec} --allow-empty")),
    ];
    let mut transcript = Transcript::default();
    for (name, args) in rows {
        let run = place.plan(&args);
        assert_eq!((run.code, run.stderr.contains("nothing to prune")), (0, true), "{name}: {run}");
        transcript.add(&format!("{name}: {args}"), &run);
    }
    assert_snapshot!(transcript);
}

#[test]
fn a_preview_is_planned_and_never_executed() {
    let place = Place::new("preview");
    let args = "flux-v1 --git-url git@h:o/r --git-path a --new-git-path b -f one.yaml";
    let plan = place.plan(args);
    assert_snapshot!(plan, @"
    exit code 0
    --- stdout
    EFFECT    NAMESPACE   KIND        NAME   REASON
    created   shop        ConfigMap   a      it is in the new manifests and not in the cluster
    --- stderr
    fluxd's source changes: paths a -> b
    1 created
    ");
    let collision = place.plan("flux-v1 --git-url git@h:o/r --git-path a,b --new-git-path ab -f one.yaml");
    assert_snapshot!(collision, @"
    exit code 0
    --- stdout
    EFFECT    NAMESPACE   KIND        NAME   REASON
    created   shop        ConfigMap   a      it is in the new manifests and not in the cluster
    --- stderr
    warning: both sources have the same hash (fluxd hashes URLs without passwords, and joins the parts without separators): nothing is relabelled, and what the new manifests lack is deleted
    fluxd's source changes: paths a, b -> ab
    1 created
    ");
}
