//! Starts the processes of a cluster in order, each with a time limit.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::Spec;
use super::specs::{self, FLUX_NAMESPACE, free_port};
use super::{Cluster, Flux, Options, access, audit, keys, wait};
use crate::controlplane::{self, crds};

/// Program of the controller of flux-operator.
const FLUX_OPERATOR: &str = "flux-operator-controller";

const CORE: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "resident-kubectl"];

/// Time limit of the API server. It creates roles and priority classes first, which is slow on a busy machine.
const SERVER_LIMIT: Duration = Duration::from_secs(60);
const STEP_LIMIT: Duration = Duration::from_secs(30);

impl Flux {
    /// Returns the Flux controllers that run.
    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Flux::None | Flux::Crds => &[],
            Flux::Kustomize => &["kustomize-controller"],
            Flux::All => &["source-controller", "kustomize-controller", "helm-controller"],
        }
    }

    fn crds(self) -> Vec<&'static str> {
        match self {
            Flux::None => Vec::new(),
            Flux::Kustomize => vec!["kustomize-controller", "source-controller"],
            Flux::Crds | Flux::All => crds::names(),
        }
    }
}

/// Builds everything that `options` need. The first time it takes minutes.
pub(crate) fn prepare(options: &Options) -> Result<()> {
    controlplane::ensure(&[CORE, options.flux.controllers()].concat())?;
    crds::ensure(&options.flux.crds())
}

/// Starts all processes in the folder of `cluster`, and returns when they are ready.
pub(crate) fn start(cluster: &Cluster, options: &Options) -> Result<()> {
    for folder in ["logs", "artifacts", "tmp"] {
        fs::create_dir_all(cluster.dir.join(folder))?;
    }
    let ports = [free_port()?, free_port()?, free_port()?, free_port()?];
    let [server, store, peer, artifacts] = ports;
    let url = format!("https://127.0.0.1:{server}");
    let keys = keys::write(&cluster.dir.join("keys"))?;
    let tokens = access::write_tokens(&cluster.dir.join("tokens.csv"))?;
    access::write_kubeconfigs(&cluster.dir, &url, &keys, &tokens)?;
    let storage = options.source_service.then(specs::service_address).transpose()?;
    cluster.update(|state| {
        state.storage_address = storage;
        state.server_url = url;
        state.artifacts_url = specs::artifacts_url(artifacts);
        state.tokens = tokens;
    })?;

    // The API server retries until etcd answers, so both start at the same time.
    cluster.launch(specs::etcd(store, peer))?;
    let mut flags = if options.audit { audit::flags(&cluster.dir)? } else { vec![] };
    if options.whole {
        flags.extend(specs::publishing_flags());
    }
    cluster.launch(specs::apiserver(server, store, flags))?;
    cluster.launch(specs::artifact_server(artifacts))?;
    await_log(cluster, "etcd")?;
    await_probe(cluster, "kube-apiserver", SERVER_LIMIT, || {
        cluster.kubectl(&["get", "--raw=/readyz", "--request-timeout=2s"]).map(|_| true)
    })?;
    await_log(cluster, "artifact-server")?;

    // Install CRDs first: the garbage collector and the controllers read the API types when they start.
    install_crds(cluster, options.flux)?;
    if let Some(address) = storage {
        cluster.kubectl_stdin(&["create", "-f", "-"], &specs::source_service(address))?;
        let status = specs::source_pod_status(address);
        let pod = ["patch", "pod", "source-controller", "-n", FLUX_NAMESPACE, "--subresource=status", "-p", &status];
        cluster.kubectl(&pod)?;
    }
    cluster.launch(specs::controller_manager(options.whole, options.workloads))?;
    for name in options.flux.controllers() {
        cluster.launch(flux_controller(cluster, options, name)?)?;
    }
    await_log(cluster, "kube-controller-manager")?;
    options.flux.controllers().iter().try_for_each(|name| await_log(cluster, name))
}

/// Starts a recorded process or a Flux controller, and returns when it is ready.
pub(crate) fn start_one(cluster: &Cluster, name: &str) -> Result<()> {
    let known = cluster.lock().find(name).map(|entry| (entry.spec.clone(), entry.alive()));
    let spec = match known {
        Some((_, Some(_))) => return Ok(()),
        Some((spec, None)) => spec,
        None if name == FLUX_OPERATOR => {
            controlplane::ensure(&[name])?;
            specs::flux_operator(&cluster.dir, name)?
        }
        None if Flux::All.controllers().contains(&name) || name == "source-watcher" => {
            controlplane::ensure(&[name])?;
            flux_controller(cluster, &Options::default(), name)?
        }
        None => bail!("no process of the cluster is called {name}"),
    };
    cluster.launch(spec)?;
    match name {
        "kube-apiserver" => await_probe(cluster, name, SERVER_LIMIT, || {
            cluster.kubectl(&["get", "--raw=/readyz", "--request-timeout=2s"]).map(|_| true)
        }),
        _ => await_log(cluster, name),
    }
}

fn flux_controller(cluster: &Cluster, options: &Options, name: &str) -> Result<Spec> {
    let storage = cluster.lock().storage_address;
    if name != "kustomize-controller" {
        return specs::flux_controller(&cluster.dir, name, storage, &[]);
    }
    let mut spec = specs::flux_controller(&cluster.dir, name, storage, &options.kustomize_controller_flags)?;
    if let Some(program) = &options.kustomize_controller {
        spec.program.clone_from(program);
    }
    Ok(spec)
}

fn install_crds(cluster: &Cluster, flux: Flux) -> Result<()> {
    let sets = flux.crds();
    if sets.is_empty() {
        return Ok(());
    }
    let mut args = vec!["create".to_owned(), "--validate=false".to_owned(), "--output=name".to_owned()];
    for set in &sets {
        // The folder also has a file with the version.
        for entry in fs::read_dir(crds::folder(set)).with_context(|| format!("cannot list the CRDs of {set}"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                args.push(format!("--filename={}", path.display()));
            }
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let created = cluster.kubectl(&args).context("cannot install the CRDs")?;
    cluster.kubectl(&["create", "namespace", FLUX_NAMESPACE])?;
    let limit = format!("--timeout={}s", STEP_LIMIT.as_secs());
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", &limit])?;
    // A type is Established before the group list of the API server contains it.
    wait::until("the API groups of the CRDs to be served", STEP_LIMIT, || {
        let served = cluster.kubectl(&["get", "--raw=/apis"])?;
        // Each line is customresourcedefinition.apiextensions.k8s.io/PLURAL.GROUP.
        let mut groups =
            created.lines().filter_map(|line| line.split_once('/')?.1.split_once('.')).map(|(_, group)| group);
        Ok(groups.all(|group| served.contains(&format!("\"name\":\"{group}\""))))
    })
}

fn await_log(cluster: &Cluster, name: &str) -> Result<()> {
    await_probe(cluster, name, STEP_LIMIT, || {
        let state = cluster.lock();
        let entry = state.find(name).context("the process is not recorded")?;
        Ok(entry.running.is_some_and(|running| entry.spec.is_ready(&cluster.dir, running)))
    })
}

/// Waits until `probe` returns true for the process `name`. Stops waiting if the process ends.
fn await_probe(cluster: &Cluster, name: &str, limit: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let spec = cluster.lock().find(name).with_context(|| format!("{name} was not started"))?.spec.clone();
    let is_alive = || cluster.lock().find(name).is_some_and(|entry| entry.alive().is_some());
    let waited = wait::until(&format!("{name} to be ready"), limit, || Ok(!is_alive() || probe()?));
    let waited = waited.with_context(|| spec.tail(&cluster.dir));
    if is_alive() { waited } else { bail!("{name} ended while starting; {}", spec.tail(&cluster.dir)) }
}
