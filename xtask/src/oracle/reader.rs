//! The objects of a cluster, kept up to date by watches. Many scenarios ask for them every few seconds, and lists of a whole
//! cluster would be most of the load.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cluster::{self, Cluster};
use crate::{child, items, text};

/// Paths of the types of the objects of scenarios, except custom resources.
const TYPES: [&str; 41] = [
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/api/v1/pods",
    "/api/v1/resourcequotas",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/api/v1/limitranges",
    "/apis/apps/v1/controllerrevisions",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/batch/v1/jobs",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/volumeattributesclasses",
    "/apis/networking.k8s.io/v1/ingressclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/batch/v1/cronjobs",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations",
    "/apis/source.toolkit.fluxcd.io/v1/gitrepositories",
];

/// Paths of the types of the objects of releases and of those of flux-operator.
const TYPES_OF_RELEASES: [&str; 4] = [
    "/apis/helm.toolkit.fluxcd.io/v2/helmreleases",
    "/apis/source.toolkit.fluxcd.io/v1/helmcharts",
    "/apis/fluxcd.controlplane.io/v1/resourcesets",
    "/apis/fluxcd.controlplane.io/v1/resourcesetinputproviders",
];

/// The objects of one type, by namespace and name.
type Objects = BTreeMap<(String, String), Value>;

/// Reads one cluster by one watch for each type. Dropping the value ends the watches.
#[derive(Debug)]
pub(super) struct Reader(Vec<Arc<Watch>>);

/// The objects of one type and the request that keeps them up to date.
#[derive(Debug)]
struct Watch {
    /// Folder of the cluster.
    dir: PathBuf,
    path: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: Objects,
    /// The running request.
    request: Option<Child>,
    /// No request follows the running one.
    is_stopped: bool,
    /// Reason why the watch ended before the reader.
    failure: Option<String>,
}

impl Reader {
    /// Lists each type, and watches it from then on.
    pub(super) fn start(cluster: &Cluster) -> Result<Self> {
        let mut watches = vec![];
        let has_releases = cluster.is_running("helm-controller");
        for path in TYPES.into_iter().chain(TYPES_OF_RELEASES.into_iter().filter(|_| has_releases)) {
            let watch = Arc::new(Watch { dir: cluster.dir().to_owned(), path, state: Mutex::default() });
            let version = watch.list()?;
            let own = Arc::clone(&watch);
            thread::spawn(move || own.run(version));
            watches.push(watch);
        }
        Ok(Self(watches))
    }

    /// Returns what `of` returns for each object. The objects are at most as old as the way of an event from the API server.
    ///
    /// # Errors
    /// A watch failed, such as after the end of the API server.
    pub(super) fn each<T>(&self, mut of: impl FnMut(&Value) -> Option<T>) -> Result<Vec<T>> {
        let mut found = vec![];
        for watch in &self.0 {
            let state = watch.lock();
            if let Some(failure) = &state.failure {
                bail!("cannot watch {}: {failure}", watch.path);
            }
            found.extend(state.objects.values().filter_map(&mut of));
        }
        Ok(found)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for watch in &self.0 {
            let mut state = watch.lock();
            state.is_stopped = true;
            if let Some(request) = &mut state.request {
                let _ = request.kill();
                let _ = request.wait();
            }
        }
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, version: String) {
        if let Err(error) = self.follow(version) {
            self.lock().failure = Some(format!("{error:#}"));
        }
    }

    /// Replaces the objects by those of a list. Returns its version.
    fn list(&self) -> Result<String> {
        let list = child::output(cluster::kubectl(&self.dir).args(["get", "--raw", self.path]))?;
        let list: Value = serde_json::from_slice(&list)?;
        // The items of a list have neither a kind nor a version.
        let kind = text(&list, "/kind").trim_end_matches("List");
        let objects = items(&list, "/items").cloned().map(|mut item| {
            item["apiVersion"] = list["apiVersion"].clone();
            item["kind"] = kind.into();
            (key(&item), item)
        });
        self.lock().objects = objects.collect();
        Ok(version_of(&list))
    }

    /// Watches from a version until the reader ends. The server ends a request after some time, and another one follows.
    fn follow(&self, mut version: String) -> Result<()> {
        loop {
            let path = format!(
                "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={version}",
                self.path
            );
            let events = {
                let mut state = self.lock();
                if state.is_stopped {
                    return Ok(());
                }
                let mut command = cluster::kubectl(&self.dir);
                let mut request =
                    command.args(["get", "--raw", &path]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
                let events = request.stdout.take().context("kubectl has no output")?;
                state.request = Some(request);
                events
            };
            let mut count = 0;
            for event in serde_json::Deserializer::from_reader(BufReader::new(events)).into_iter::<Value>() {
                // A request that is killed can end within an event.
                let Ok(event) = event else { break };
                if event["type"] == "ERROR" {
                    version = self.list()?;
                    break;
                }
                version = self.add(&event);
                count += 1;
            }
            let mut state = self.lock();
            if let Some(mut request) = state.request.take() {
                let _ = request.kill();
                let status = request.wait()?;
                if count == 0 && !status.success() && !state.is_stopped {
                    bail!("kubectl ended with {status}");
                }
            }
        }
    }

    /// Adds an event to the objects. Returns its version.
    fn add(&self, event: &Value) -> String {
        let object = &event["object"];
        match text(event, "/type") {
            "DELETED" => drop(self.lock().objects.remove(&key(object))),
            "ADDED" | "MODIFIED" => drop(self.lock().objects.insert(key(object), object.clone())),
            _ => {}
        }
        version_of(object)
    }
}

/// Returns the namespace and the name of an object.
fn key(object: &Value) -> (String, String) {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

fn version_of(value: &Value) -> String {
    text(value, "/metadata/resourceVersion").to_owned()
}
