//! Users of the cluster: the token file, and a kubeconfig for each user.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::keys::Keys;
use crate::hex;

/// User with all rights, in the main kubeconfig of the cluster.
pub(crate) const ADMIN: &str = "admin";

/// Users and their group. Users other than the admin have no rights until a test grants some.
const USERS: &[(&str, &str)] = &[(ADMIN, "system:masters"), ("alice", ""), ("bob", ""), ("carol", "")];

/// Creates a token for every user and writes the token file of the API server.
pub(crate) fn write_tokens(file: &Path) -> Result<BTreeMap<String, String>> {
    let mut random = File::open("/dev/urandom").context("cannot open the source of random numbers")?;
    let (mut tokens, mut lines) = (BTreeMap::new(), String::new());
    for (user, group) in USERS {
        let mut bytes = [0; 16];
        random.read_exact(&mut bytes)?;
        let token = hex(&bytes);
        lines += &format!("{token},{user},{user},\"{group}\"\n");
        tokens.insert((*user).to_owned(), token);
    }
    fs::write(file, lines).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(tokens)
}

/// Returns the path of the kubeconfig of `user`.
pub(crate) fn kubeconfig(dir: &Path, user: &str) -> PathBuf {
    if user == ADMIN { dir.join("kubeconfig") } else { dir.join("users").join(format!("{user}.kubeconfig")) }
}

/// Writes a kubeconfig for every user. The context is always `test`, so that output does not depend on the user.
pub(crate) fn write_kubeconfigs(
    dir: &Path,
    server: &str,
    keys: &Keys,
    tokens: &BTreeMap<String, String>,
) -> Result<()> {
    fs::create_dir_all(dir.join("users"))?;
    let authority = STANDARD.encode(&keys.ca_pem);
    for (user, token) in tokens {
        let path = kubeconfig(dir, user);
        let text = format!(
            "\
apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: test
  context:
    cluster: test
    user: {user}
    namespace: default
users:
- name: {user}
  user:
    token: {token}
"
        );
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
