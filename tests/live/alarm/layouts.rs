//! Layouts of repositories that people have, each with a dozen applications or more.

use super::tree::Tree;

/// Folder of the Kustomizations that the root Kustomization applies.
pub(super) const ROOT: &str = "clusters/prod/flux";

/// Groups of applications in the layouts that have some.
const GROUPS: [&str; 3] = ["data", "media", "web"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    /// One Kustomization for all applications.
    Flat,
    /// The same, through an overlay for each cluster.
    Overlays,
    /// Groups of applications with components, in one Kustomization.
    Nested,
    /// One Kustomization for each application, and a parent that patches all of them.
    PerApplication,
}

impl Layout {
    pub(super) const ALL: [Self; 4] = [Self::Flat, Self::Overlays, Self::Nested, Self::PerApplication];

    /// Name of the layout; also the namespace of its Kustomizations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Overlays => "overlays",
            Self::Nested => "nested",
            Self::PerApplication => "per-application",
        }
    }
}

/// An application of a repository.
#[derive(Clone)]
pub(super) struct Application {
    /// Folder with everything of it.
    pub(super) whole: String,
    /// Folder with its manifests, and their kustomization.yaml.
    pub(super) folder: String,
    /// Kustomization file that names it, and the entry.
    pub(super) listed_in: String,
    pub(super) entry: String,
}

/// A repository with the applications that its Kustomizations deploy.
#[derive(Clone)]
pub(super) struct Repository {
    pub(super) layout: Layout,
    pub(super) tree: Tree,
    pub(super) applications: Vec<Application>,
}

impl Repository {
    pub(super) fn new(layout: Layout) -> Self {
        let mut own = Self { layout, tree: Tree::default(), applications: vec![] };
        own.add_frame();
        for number in 0..[12, 12, 15, 18][layout as usize] {
            own.add_application(number);
        }
        own
    }

    /// Returns a Kustomization of this repository as a manifest.
    fn owner(&self, name: &str, path: &str, more: &str) -> String {
        let namespace = self.layout.name();
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
             spec:\n  interval: 1h\n  retryInterval: 2s\n  path: {path}\n  prune: true\n  \
             sourceRef: {{kind: GitRepository, name: fleet}}\n{more}"
        )
    }

    /// Returns the Kustomization of [`ROOT`].
    pub(super) fn root(&self) -> String {
        self.owner("cluster", &format!("./{ROOT}"), "")
    }

    /// Namespace of the objects of an application.
    fn namespace_of(&self, number: usize) -> String {
        match self.layout {
            Layout::Flat | Layout::Overlays => format!("{}-apps", self.layout.name()),
            Layout::Nested | Layout::PerApplication => {
                format!("{}-{}", self.layout.name(), GROUPS[number % GROUPS.len()])
            }
        }
    }

    /// Writes everything but the applications.
    fn add_frame(&mut self) {
        let infra = self.owner("infra", "./infra", "");
        self.tree.write(&format!("{ROOT}/infra.yaml"), infra);
        self.tree.write("README.md", "A fleet.\n");
        for number in 0..6 {
            let name = format!("{}-settings-{number}", self.layout.name());
            self.tree.write(&format!("infra/settings-{number}.yaml"), config_map(&name, "default"));
        }
        let (path, more) = match self.layout {
            Layout::Flat | Layout::Nested => ("./apps", "  dependsOn: [{name: infra}]\n"),
            Layout::Overlays => ("./clusters/prod/apps", ""),
            Layout::PerApplication => (
                "./apps",
                "  patches:\n  - patch: |\n      - op: add\n        path: /spec/timeout\n        value: 4m\n    target: {kind: Kustomization}\n",
            ),
        };
        let apps = self.owner("apps", path, more);
        self.tree.write(&format!("{ROOT}/apps.yaml"), apps);
        match self.layout {
            Layout::Flat => self.tree.list("apps/kustomization.yaml", "", &[]),
            Layout::Overlays => {
                for cluster in ["prod", "staging"] {
                    let labels = format!("commonAnnotations: {{cluster: {cluster}}}\n");
                    self.tree.list(&format!("clusters/{cluster}/apps/kustomization.yaml"), &labels, &[]);
                }
            }
            Layout::Nested => self.tree.list("apps/kustomization.yaml", "", &GROUPS),
            Layout::PerApplication => {}
        }
        let own = self.layout.name();
        if matches!(self.layout, Layout::Flat | Layout::Overlays) {
            return self.tree.write("infra/namespaces.yaml", namespace(&format!("{own}-apps"), ""));
        }
        for group in GROUPS {
            let text =
                namespace(&format!("{own}-{group}"), "  annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}\n");
            self.tree.write(&format!("apps/{group}/namespace.yaml"), text);
            let components = "components: [../../components/alerts]\n";
            let head = if self.layout == Layout::Nested {
                format!("namespace: {own}-{group}\n{components}")
            } else {
                String::new()
            };
            self.tree.list(&format!("apps/{group}/kustomization.yaml"), &head, &["namespace.yaml"]);
        }
        if self.layout == Layout::Nested {
            let component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [alerts.yaml]\n";
            self.tree.write("components/alerts/kustomization.yaml", component);
            self.tree.write("components/alerts/alerts.yaml", config_map("alerts", "default"));
        }
    }

    /// Adds the application of a number. Some have a volume, some a StatefulSet, some a namespace of their own.
    pub(super) fn add_application(&mut self, number: usize) {
        let name = format!("app-{number:02}");
        let group = GROUPS[number % GROUPS.len()];
        let (whole, folder, listed_in, entry) = match self.layout {
            Layout::Flat => {
                (format!("apps/{name}"), format!("apps/{name}"), "apps/kustomization.yaml".to_owned(), name.clone())
            }
            Layout::Overlays => (
                format!("base/{name}"),
                format!("base/{name}"),
                "clusters/prod/apps/kustomization.yaml".to_owned(),
                format!("../../../base/{name}"),
            ),
            Layout::Nested => {
                let path = format!("apps/{group}/{name}");
                (path.clone(), path, format!("apps/{group}/kustomization.yaml"), name.clone())
            }
            Layout::PerApplication => {
                let path = format!("apps/{group}/{name}");
                (
                    path.clone(),
                    format!("{path}/app"),
                    format!("apps/{group}/kustomization.yaml"),
                    format!("{name}/ks.yaml"),
                )
            }
        };
        let own_namespace = number % 12 == 3 && matches!(self.layout, Layout::Flat | Layout::Overlays);
        let at = if own_namespace { format!("{}-{name}", self.layout.name()) } else { self.namespace_of(number) };
        let mut files = vec![
            ("configmap.yaml", config_map(&name, &at)),
            (if number % 12 == 7 { "statefulset.yaml" } else { "deployment.yaml" }, workload(&name, &at, number)),
            ("service.yaml", service(&name, &at)),
        ];
        if own_namespace {
            files.push(("namespace.yaml", namespace(&at, "")));
        }
        if has_claim(number) {
            files.push(("pvc.yaml", claim(&name, &at)));
        }
        if has_account(number) {
            files.push(("serviceaccount.yaml", service_account(&name, &at)));
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        self.tree.list(&format!("{folder}/kustomization.yaml"), "", &names);
        for (file, text) in files {
            self.tree.write(&format!("{folder}/{file}"), text);
        }
        self.tree.add_entry(&listed_in, &entry);
        if self.layout == Layout::Overlays && number.is_multiple_of(4) {
            self.tree.add_entry("clusters/staging/apps/kustomization.yaml", &entry);
        }
        if self.layout == Layout::PerApplication {
            let mut text = self.owner(&name, &format!("./{folder}"), "");
            // One of four has a second Kustomization for its configuration.
            if number % 4 == 1 {
                let after = format!("  dependsOn: [{{name: {name}}}]\n");
                text += "---\n";
                text += &self.owner(&format!("{name}-config"), &format!("./{whole}/config"), &after);
                self.tree.write(&format!("{whole}/config/more.yaml"), config_map(&format!("{name}-more"), &at));
            }
            self.tree.write(&format!("{whole}/ks.yaml"), text);
        }
        self.applications.push(Application { whole, folder, listed_in, entry });
    }
}

fn namespace(name: &str, more: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n{more}")
}

fn config_map(name: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\ndata: {{value: one}}\n"
    )
}

fn service(name: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
         spec: {{selector: {{app: {name}}}, ports: [{{port: 80}}]}}\n"
    )
}

fn service_account(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: {namespace}\n")
}

fn claim(name: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
         spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}\n"
    )
}

fn workload(name: &str, namespace: &str, number: usize) -> String {
    let (kind, more) = if number % 12 == 7 {
        ("StatefulSet", format!("  serviceName: {name}\n"))
    } else {
        ("Deployment", String::new())
    };
    let account = if has_account(number) { format!("      serviceAccountName: {name}\n") } else { String::new() };
    let claim = if has_claim(number) { mounted_claim(name) } else { String::new() };
    let settings = mounted_settings(name);
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  replicas: 0\n{more}  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec:\n{account}      volumes:\n      - {{name: scratch, emptyDir: {{}}}}\n{settings}{claim}      \
         containers: [{{name: main, image: 'example.com/{name}:1.0'}}]\n"
    )
}

fn has_claim(number: usize) -> bool {
    number % 8 == 5
}

fn has_account(number: usize) -> bool {
    number.is_multiple_of(3)
}

/// Returns the line of a workload that mounts the ConfigMap of its application.
pub(super) fn mounted_settings(name: &str) -> String {
    format!("      - {{name: settings, configMap: {{name: {name}}}}}\n")
}

/// Returns the line of a workload that mounts the claim of its application.
pub(super) fn mounted_claim(name: &str) -> String {
    format!("      - {{name: data, persistentVolumeClaim: {{claimName: {name}}}}}\n")
}
