//! Connections in an environment of the test's own.

use std::path::PathBuf;

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kubectl_gitops::cluster::config::args::ConnectionArgs;
use kubectl_gitops::cluster::{Cluster, Environment};

use crate::fake_api::FakeApi;
use crate::folder::{Folder, folder};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The connection flags of a command line.
pub fn args(flags: &[&str]) -> ConnectionArgs {
    CommandLine::try_parse_from([&["gitops"], flags].concat()).expect("flags").connection
}

/// An environment with nothing in it but these variables, and its files in a folder.
pub fn environment(folder: &Folder, variables: &[(&str, &str)]) -> Environment {
    Environment {
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        home: Some(folder.path().join("home")),
        service_account: folder.path().join("serviceaccount"),
        interactive: false,
        silent: false,
    }
}

/// Connects to a fake server with its kubeconfig.
pub async fn connect(api: &FakeApi, folder: &Folder, flags: &[&str]) -> Cluster {
    let config = api.kubeconfig(folder);
    let environment = environment(folder, &[("KUBECONFIG", config.to_str().expect("a path"))]);
    Cluster::connect_in(&args(flags), &environment).await.expect("a connection")
}

/// Writes a kubeconfig with a context for each cluster, of which the first is the current one.
pub fn kubeconfig_of(clusters: &[(&str, &xtask::cluster::Cluster)]) -> PathBuf {
    let mut all = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": clusters[0].0});
    for list in ["clusters", "contexts", "users"] {
        all[list] = serde_json::json!([]);
    }
    for (name, cluster) in clusters {
        let text = std::fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
        let mut config = gitops_core::yaml::document(&text).expect("a kubeconfig");
        config["contexts"][0]["context"]["cluster"] = (*name).into();
        config["contexts"][0]["context"]["user"] = (*name).into();
        for list in ["clusters", "contexts", "users"] {
            config[list][0]["name"] = (*name).into();
            let entry = config[list][0].take();
            all[list].as_array_mut().expect("a list").push(entry);
        }
    }
    let file = folder("kubeconfig-of-clusters").join("config");
    std::fs::write(&file, all.to_string()).expect("write a kubeconfig");
    file
}

/// Returns a client of a test cluster as its admin, for the current runtime.
pub async fn client(cluster: &xtask::cluster::Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.expect("a configuration")).expect("a client")
}
