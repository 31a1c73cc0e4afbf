//! A qbec application in a folder, and the real qbec that applies it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::collector::{Collector, NativeAction};
use gitops_core::prune::collectors::qbec::filter::{NameFilter, QbecFilters};
use gitops_core::prune::collectors::qbec::scope::QbecApp as Identity;
use gitops_core::prune::collectors::qbec::{QbecCollector, QbecInput};
use kubectl_gitops::tools::manifests::{Loader, read};
use test_support::comparison;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops_as};
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

/// One application with environment `dev` in a namespace of the same name.
#[derive(Clone)]
pub(crate) struct App {
    cluster: Arc<Cluster>,
    pub(crate) name: String,
    namespace: String,
    pub(crate) dir: PathBuf,
    kubeconfig: PathBuf,
}

impl App {
    /// A folder with qbec.yaml and the component `ns`, which holds the namespace.
    pub(crate) fn new(cluster: &Arc<Cluster>, name: &str) -> Self {
        let dir = folder(name);
        std::fs::create_dir(dir.join("components")).unwrap();
        let (cluster, kubeconfig) = (cluster.clone(), cluster.kubeconfig());
        let app = Self { cluster, name: name.to_owned(), namespace: name.to_owned(), dir, kubeconfig };
        app.configure("");
        app.component("ns", &format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"));
        app
    }

    /// Writes qbec.yaml with more lines in its `spec`.
    pub(crate) fn configure(&self, spec: &str) {
        let Self { name, namespace, dir, .. } = self;
        let env = format!("{{context: test, defaultNamespace: {namespace}}}");
        let text = format!(
            "apiVersion: qbec.io/v1alpha1\nkind: App\nmetadata: {{name: {name}}}\n\
             spec:\n{spec}  environments:\n    dev: {env}\n    prod: {env}\n"
        );
        std::fs::write(dir.join("qbec.yaml"), text).unwrap();
    }

    /// Writes a component.
    pub(crate) fn component(&self, name: &str, yaml: &str) -> &Self {
        std::fs::write(self.dir.join(format!("components/{name}.yaml")), yaml).unwrap();
        self
    }

    /// Removes a component.
    pub(crate) fn remove(&self, name: &str) -> &Self {
        std::fs::remove_file(self.dir.join(format!("components/{name}.yaml"))).unwrap();
        self
    }

    /// The same application as another user.
    pub(crate) fn of_user(self, user: &str) -> Self {
        Self { kubeconfig: self.cluster.kubeconfig_for(user), ..self }
    }

    /// The same folder under another application name.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        let app = Self { name: name.to_owned(), ..self.clone() };
        app.configure("");
        app
    }

    /// Runs qbec.
    pub(crate) fn qbec(&self, args: &[&str]) -> Output {
        Command::new(bin("qbec"))
            .args(args)
            .args(["--colors=false", "--k8s:client-qps=1000", "--k8s:client-burst=2000"])
            .current_dir(&self.dir)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .expect("qbec runs")
    }

    /// Applies everything and collects nothing.
    pub(crate) fn apply(&self, args: &[&str]) -> &Self {
        self.apply_to("dev", args)
    }

    /// The same in another environment.
    pub(crate) fn apply_to(&self, environment: &str, args: &[&str]) -> &Self {
        let fixed = ["apply", environment, "--yes", "--wait=false", "--wait-all=false", "--gc=false"];
        let output = self.qbec(&[&fixed, args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self
    }

    /// Objects that qbec prints as `deleted:` in its statistics: `configmaps old -n shop-dev`.
    pub(crate) fn deleted(&self, args: &[&str]) -> Vec<String> {
        let output = self.qbec(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{err}");
        let stats = out.split("stats:").nth(1).unwrap_or_else(|| panic!("no statistics: {out} {err}"));
        let list = stats.split("  deleted:\n").nth(1).unwrap_or_default();
        list.lines().map_while(|line| line.strip_prefix("  - ")).map(str::to_owned).collect()
    }

    /// The uids that a dry run of `qbec apply` deletes.
    pub(crate) fn dry_run(&self, snapshot: &Snapshot, args: &[&str]) -> BTreeSet<String> {
        let fixed = ["apply", "-n", "dev", "--show-details=false"];
        uids(snapshot, &self.deleted(&[&fixed, args].concat()))
    }

    /// The file to which qbec renders the environment.
    pub(crate) fn rendered(&self) -> String {
        self.rendered_of("dev")
    }

    /// The same of another environment.
    pub(crate) fn rendered_of(&self, environment: &str) -> String {
        let output = self.qbec(&["show", environment]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = self.dir.join("rendered.yml");
        std::fs::write(&file, output.stdout).unwrap();
        file.display().to_string()
    }

    /// The binary's plan for what qbec renders.
    pub(crate) fn plan(&self, args: &[&str]) -> Run {
        let file = self.rendered();
        let fixed =
            ["prune", "qbec", "--plan", "-o", "json", "-f", &file, "--allow=namespaces,crds,volumes,statefulsets"];
        self.gitops(&[&fixed, args].concat())
    }

    /// Runs the binary for this application.
    pub(crate) fn gitops(&self, args: &[&str]) -> Run {
        let app = ["--app", &self.name, "--env", "dev", "--default-namespace", &self.namespace];
        gitops_as(&self.kubeconfig, &[args, &app].concat())
    }

    /// qbec's dry run against the plan, where both get the same arguments under their own names.
    pub(crate) fn compare(&self, theirs: &[&str], ours: &[&str]) -> comparison::Difference {
        let snapshot = comparison::snapshot(&self.cluster, &self.name);
        comparison::compare(&snapshot, &self.dry_run(&snapshot, theirs), &self.plan(ours))
    }

    /// The uids that the replay of qbec deletes, from the same recording.
    pub(crate) fn replay(
        &self,
        snapshot: &Snapshot,
        filters: QbecFilters,
        cluster_scoped_lists: bool,
    ) -> BTreeSet<String> {
        let manifests = read(&[self.rendered()], Loader::Strict, &mut std::io::empty()).unwrap();
        let index = Index::build(snapshot);
        let input = QbecInput {
            app: Identity::new(&self.name, "dev", None).unwrap(),
            default_namespace: self.namespace.as_str().into(),
            cluster_scoped_lists,
            filters,
            locals: &manifests.locals,
        };
        let collector = QbecCollector::new(input, snapshot, &index, Allow::default());
        let verdicts = collector.collect().decisions;
        let theirs = verdicts.iter().filter(|verdict| verdict.native == NativeAction::Deletes);
        theirs.map(|verdict| verdict.object.uid.to_string()).collect()
    }
}

/// Filters of components and kinds.
pub(crate) fn filters(
    components: (&[String], &[String]),
    kinds: (&[String], &[String]),
    namespaces: &[String],
) -> QbecFilters {
    QbecFilters::new(
        NameFilter::new("components", components.0, components.1).unwrap(),
        NameFilter::new("kinds", kinds.0, kinds.1).unwrap(),
        NameFilter::new("namespaces", namespaces, &[]).unwrap(),
        None,
    )
}

/// The uids of objects that qbec names `PLURAL NAME [-n NAMESPACE]`. Events are left out: this tool never reads them.
pub(crate) fn uids(snapshot: &Snapshot, names: &[String]) -> BTreeSet<String> {
    let uid = |name: &String| {
        let words: Vec<&str> = name.split(' ').collect();
        let (plural, name, namespace) = (words[0], words[1], words.get(3).copied().unwrap_or_default());
        let kinds: Vec<_> = snapshot.types.iter().filter(|served| *served.plural == *plural).collect();
        let same = |id: &gitops_core::kubernetes::object::ObjectId| {
            *id.name == *name && *id.namespace == *namespace && kinds.iter().any(|kind| id.is(&kind.group, &kind.kind))
        };
        let found = snapshot.objects.iter().find(|object| same(&object.id));
        found.unwrap_or_else(|| panic!("{name} is not in the snapshot")).uid.to_string()
    };
    names.iter().filter(|name| !name.starts_with("events ")).map(uid).collect()
}
