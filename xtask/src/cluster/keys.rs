//! Keys of a cluster: certificate authority, certificate of the API server, key of service account tokens. Every cluster
//! has its own keys, so that a client cannot reach another cluster by mistake.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};

/// Keys that a kubeconfig needs.
pub(crate) struct Keys {
    pub ca_pem: String,
}

/// Creates the keys and writes them to `dir`: `apiserver.crt` and `apiserver.key` as the API server looks for them in its
/// `--cert-dir`, `sa.key` to sign service account tokens and `sa.pub` to verify them.
pub(crate) fn write(dir: &Path) -> Result<Keys> {
    let mut ca_params = CertificateParams::default();
    ca_params.distinguished_name.push(DnType::CommonName, "test cluster");
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca_params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_key = KeyPair::generate().context("cannot create the cluster's CA key")?;
    let ca = ca_params.self_signed(&ca_key).context("cannot create the cluster's CA")?;

    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let key = KeyPair::generate().context("cannot create the API server's key")?;
    let certificate = params.signed_by(&key, &Issuer::new(ca_params, ca_key)).context("cannot sign its certificate")?;

    let accounts = KeyPair::generate().context("cannot create the service account key")?;
    let files = [
        ("ca.crt", ca.pem()),
        ("apiserver.crt", certificate.pem()),
        ("apiserver.key", key.serialize_pem()),
        ("sa.key", accounts.serialize_pem()),
        ("sa.pub", accounts.public_key_pem()),
    ];
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, text) in files {
        fs::write(dir.join(name), text).with_context(|| format!("cannot write {name} to {}", dir.display()))?;
    }
    Ok(Keys { ca_pem: ca.pem() })
}
