//! Files and network of the real qbec when this tool lets it render an application that nobody has reviewed.

use std::path::PathBuf;
use std::process::{Command, Output};

use test_support::folder::Folder;
use test_support::gitops::binary;
use test_support::objects::snapshot;
use xtask::controlplane::bin;

/// An application in a checkout, with a library outside of its directory and a data source that runs a program.
struct Application {
    folder: Folder,
    /// A file that only the user of this machine may read and write.
    marker: PathBuf,
    _outside: Folder,
}

impl Application {
    /// `{marker}` in the texts is the path of the marker.
    fn new(component: &str, program: &str) -> Self {
        let (folder, outside) = (Folder::outside_checkouts("qbec-sandbox"), Folder::outside_checkouts("qbec-marker"));
        let marker = outside.write("marker", "secret");
        let with_marker = |text: &str| text.replace("{marker}", marker.to_str().unwrap());
        folder.git(&["init", "-q"]);
        folder.write(
            "app/qbec.yaml",
            "apiVersion: qbec.io/v1alpha1\nkind: App\nmetadata: {name: shop}\nspec:\n  libPaths: [../lib]\n  \
             dataSources: ['exec://program?configVar=program']\n  \
             vars: {external: [{name: program, default: {command: ./program, inheritEnv: true}}]}\n  \
             environments:\n    dev: {context: test, defaultNamespace: shop}\n",
        );
        folder.write("lib/text.libsonnet", "'from the library'");
        folder.script("app/program", &with_marker(program));
        let component = with_marker(component);
        let object =
            format!("{{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: 'a'}}, data: {{x: {component}}}}}");
        folder.write("app/components/c.jsonnet", object);
        folder.write(
            "kubeconfig",
            "contexts: [{name: test, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://h'}}]\n",
        );
        let cluster = snapshot(&[("v1", "ConfigMap", "configmaps", true)], vec![]);
        kubectl_gitops::tools::snapshot_file::write(&folder.path().join("cluster.json"), &cluster).unwrap();
        Self { folder, marker, _outside: outside }
    }

    fn run(&self, program: PathBuf, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin("qbec").parent().unwrap().display());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path().join("app"));
        command.env("PATH", path).env("KUBECONFIG", self.folder.path().join("kubeconfig")).output().unwrap()
    }

    fn plan(&self) -> Output {
        xtask::controlplane::ensure(&["qbec"]).expect("qbec is built");
        let flags = ["prune", "qbec", "--plan", "--env=dev", "--qbec-root=.", "--snapshot=../cluster.json"];
        self.run(binary(), &flags)
    }

    /// Runs qbec without the sandbox.
    fn show(&self) -> Output {
        self.run(bin("qbec"), &["show", "dev", "-O", "-o", "json"])
    }

    fn marker(&self) -> String {
        std::fs::read_to_string(&self.marker).unwrap()
    }
}

#[test]
fn libraries_of_the_checkout_and_data_sources_are_used() {
    let application =
        Application::new("(import 'text.libsonnet') + (importstr 'data://program/x')", "echo text; ls /bin/sh");
    let plan = application.plan();
    assert!(plan.status.success(), "{plan:?}");
    assert!(application.show().status.success());
}

#[test]
fn a_component_reads_no_other_file() {
    let application = Application::new("importstr '{marker}'", "");
    let plan = application.plan();
    let stderr = String::from_utf8_lossy(&plan.stderr);
    assert_eq!(plan.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: qbec show dev -O -o json failed: ") && !stderr.contains("secret"), "{stderr}");
    assert!(application.show().status.success(), "without the sandbox the file is read");
}

#[test]
fn a_data_source_changes_no_file_and_sees_no_variable() {
    let program =
        "echo text; (echo changed > {marker}) 2>/dev/null; test -z \"$KUBERNETES_TOKEN$CARGO_HOME$CARGO_MANIFEST_DIR\"";
    let application = Application::new("importstr 'data://program/x'", program);
    let plan = application.plan();
    assert!(plan.status.success(), "{plan:?}");
    assert_eq!(application.marker(), "secret");
    application.show();
    assert_eq!(application.marker(), "changed\n", "without the sandbox the file is changed");
}
