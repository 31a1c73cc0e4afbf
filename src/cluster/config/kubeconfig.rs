//! The kubeconfig: merges its files and selects context, cluster and user as client-go does
//! (docs/reference/kubectl-plugin.md 2.2).

use gitops_core::text::join_limited;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};
use secrecy::ExposeSecret;

use super::args::ConnectionArgs;
use super::environment::Environment;
use crate::cluster::http::limits;
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// The selected API server, user and default namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectedContext {
    pub(crate) cluster: Cluster,
    /// Name of the context; empty without one.
    pub(crate) context_name: String,
    /// Name of the cluster entry, used in messages.
    pub(crate) cluster_name: String,
    pub(crate) user: AuthInfo,
    /// Name of the user entry, used in messages.
    pub(crate) user_name: String,
    pub(crate) namespace: Option<String>,
}

/// Names of the entries of the kubeconfig.
pub(crate) struct Names {
    pub(crate) contexts: Vec<String>,
    pub(crate) clusters: Vec<String>,
    pub(crate) users: Vec<String>,
}

/// Returns the names of all entries. Fails if a file cannot be read.
pub(crate) fn names(args: &ConnectionArgs, environment: &Environment) -> Result<Names> {
    let config = read(args, environment)?;
    Ok(Names {
        contexts: config.contexts.into_iter().map(|named| named.name).collect(),
        clusters: config.clusters.into_iter().map(|named| named.name).collect(),
        users: config.auth_infos.into_iter().map(|named| named.name).collect(),
    })
}

/// Selects context, cluster and user. Returns `None` if the kubeconfig files are missing or empty.
pub(crate) fn select(args: &ConnectionArgs, environment: &Environment) -> Result<Option<SelectedContext>> {
    let config = read(args, environment)?;
    let asked = [&args.context, &args.cluster, &args.user].into_iter().flatten().any(|name| !name.is_empty());
    if config.clusters.is_empty() && config.contexts.is_empty() && config.auth_infos.is_empty() && !asked {
        return Ok(None);
    }
    let contexts = config.contexts.iter().map(|named| named.name.as_str());
    let context_name = non_empty(args.context.as_deref()).or(config.current_context.as_deref());
    let context = match context_name {
        Some(name) => match config.contexts.iter().find(|named| named.name == name) {
            Some(named) => named.context.clone().unwrap_or_default(),
            None => {
                let message = format!("context was not found for specified context: {name}");
                return Err(Error::failed(message).hint(suggestion("context", name, contexts)));
            }
        },
        None => Context::default(),
    };

    let cluster_name = non_empty(args.cluster.as_deref()).or(non_empty(Some(&context.cluster))).unwrap_or_default();
    let cluster = match config.clusters.iter().find(|named| named.name == cluster_name) {
        Some(named) => named.cluster.clone().unwrap_or_default(),
        None if !cluster_name.is_empty() => {
            let message = format!("no server found for cluster \"{cluster_name}\"");
            let known = config.clusters.iter().map(|named| named.name.as_str());
            return Err(Error::failed(message).hint(suggestion("cluster", cluster_name, known)));
        }
        None if non_empty(args.server.as_deref()).is_some() => Cluster::default(),
        None => {
            let hint =
                format!("choose one with --context, or `kubectl config use-context`; {}", list("context", contexts));
            return Err(Error::failed("the kubeconfig has no current context").hint(hint));
        }
    };

    let user_name = non_empty(args.user.as_deref()).or(context.user.as_deref()).unwrap_or_default();
    let user = match config.auth_infos.iter().find(|named| named.name == user_name) {
        Some(named) => named.auth_info.clone().unwrap_or_default(),
        None if non_empty(args.user.as_deref()).is_some() => {
            let known = config.auth_infos.iter().map(|named| named.name.as_str());
            let error = Error::failed(format!("auth info \"{user_name}\" does not exist"));
            return Err(error.hint(suggestion("user", user_name, known)));
        }
        // As in kubectl, a context whose user does not exist is anonymous.
        None => AuthInfo::default(),
    };
    Ok(Some(SelectedContext {
        cluster,
        context_name: context_name.unwrap_or_default().to_owned(),
        cluster_name: cluster_name.to_owned(),
        user,
        user_name: user_name.to_owned(),
        namespace: context.namespace,
    }))
}

/// Returns a value that is not empty: to kubectl, empty flags and fields are absent.
pub(crate) fn non_empty(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

/// Returns the hint for a name that does not exist.
pub(crate) fn suggestion<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {what} \"{near}\"?"),
        None => list(what, known),
    }
}

/// Lists the names that exist, at most ten.
fn list<'a>(what: &str, known: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<&str> = known.collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => format!("the kubeconfig has no {what}s"),
        names => format!("the kubeconfig has the {what}s: {}", join_limited(names, SHOWN)),
    }
}

/// Reads the kubeconfig files: `--kubeconfig`, else the files of KUBECONFIG, else `~/.kube/config`. Skips missing files,
/// except that of `--kubeconfig`.
fn read(args: &ConnectionArgs, environment: &Environment) -> Result<Kubeconfig> {
    let explicit = args.kubeconfig.as_ref().filter(|path| !path.as_os_str().is_empty());
    let paths: Vec<PathBuf> = match (explicit, environment.paths("KUBECONFIG")) {
        (Some(path), _) => vec![path.clone()],
        (None, Some(list)) => std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect(),
        (None, None) => environment.home.iter().map(|home| home.join(".kube").join("config")).collect(),
    };
    let mut merged = Kubeconfig::default();
    for path in &paths {
        check_size(path).map_err(|error| unreadable(path, &error))?;
        let next = match Kubeconfig::read_from(path) {
            Ok(config) => config,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => {
                if explicit.is_some() {
                    let error = Error::failed(format!("stat {}: {}", path.display(), io_message(&error)));
                    return Err(
                        error.hint("--kubeconfig names one file; leave it out to use KUBECONFIG or ~/.kube/config")
                    );
                }
                continue;
            }
            Err(error) => return Err(unreadable(path, &error)),
        };
        merged = merged.merge(normalize(next)).map_err(|error| unreadable(path, &error))?;
    }
    Ok(merged)
}

/// Fails if a kubeconfig is a regular file that is too large. A pipe can only be read once, and is the user's own.
fn check_size(path: &Path) -> std::result::Result<(), KubeconfigError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > limits::MAX_CREDENTIALS => {
            Err(KubeconfigError::ReadConfig(too_large(), path.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Reads a file of a user's credentials. Fails if it is too large.
pub(crate) fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = vec![];
    File::open(path)?.take(limits::MAX_CREDENTIALS + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limits::MAX_CREDENTIALS { Err(too_large()) } else { Ok(content) }
}

fn too_large() -> io::Error {
    io::Error::other(format!("it has more than {} MiB, the limit", limits::MAX_CREDENTIALS >> 20))
}

/// Returns an error for an invalid file. It names the line only, because the parser's message may quote a secret.
fn unreadable(path: &Path, error: &KubeconfigError) -> Error {
    let file = path.display();
    Error::failed(match error {
        KubeconfigError::ReadConfig(error, _) => format!("error loading config file \"{file}\": {}", io_message(error)),
        KubeconfigError::Parse(error) => match error.location() {
            Some(place) => format!("error loading config file \"{file}\": not a kubeconfig in line {}", place.line()),
            None => format!("error loading config file \"{file}\": not a kubeconfig"),
        },
        _ => format!("error loading config file \"{file}\": kind or apiVersion differs from the other files"),
    })
    .hint("mend that file, or name another one with --kubeconfig or KUBECONFIG")
}

/// Removes empty fields and line breaks in base64, as client-go does. For kube, `token: ""` is a token, and
/// base64 with line breaks is invalid.
fn normalize(mut config: Kubeconfig) -> Kubeconfig {
    // Otherwise kube refuses to merge files with `kind: Config` and files without.
    (config.kind, config.api_version) = (None, None);
    clear_empty([&mut config.current_context]);
    for context in config.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
        clear_empty([&mut context.user, &mut context.namespace]);
    }
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        let Cluster { server, certificate_authority, certificate_authority_data, proxy_url, tls_server_name, .. } =
            cluster;
        join_lines(certificate_authority_data);
        clear_empty([server, certificate_authority, certificate_authority_data, proxy_url, tls_server_name]);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        let AuthInfo { username, token_file, client_certificate, client_certificate_data, client_key, .. } = user;
        join_lines(client_certificate_data);
        clear_empty([username, token_file, client_certificate, client_certificate_data, client_key]);
        clear_empty([&mut user.impersonate, &mut user.impersonate_uid]);
        if let Some(key) = &mut user.client_key_data {
            *key = key.expose_secret().split_ascii_whitespace().collect::<String>().into();
        }
        for secret in [&mut user.token, &mut user.password, &mut user.client_key_data] {
            secret.take_if(|secret| secret.expose_secret().is_empty());
        }
    }
    config
}

fn join_lines(data: &mut Option<String>) {
    if let Some(data) = data {
        data.retain(|c| !c.is_ascii_whitespace());
    }
}

fn clear_empty<const N: usize>(fields: [&mut Option<String>; N]) {
    for field in fields {
        field.take_if(|value| value.is_empty());
    }
}

/// Returns the message of an I/O error, for common errors as in kubectl.
pub(crate) fn io_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
