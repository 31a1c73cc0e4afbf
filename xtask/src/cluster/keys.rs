//! The keys of one cluster: its certificate authority, the API server's certificate and the key that signs the tokens of
//! service accounts. Made anew for every cluster, so a client that trusts them can only be talking to this one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};

/// What a kubeconfig needs of the keys that [`write`] has made.
pub(crate) struct Keys {
    pub ca_pem: String,
}

/// Makes the keys and writes them to `dir`: `apiserver.crt` and `apiserver.key` as the API server looks for them in its
/// `--cert-dir`, `sa.key` to sign service account tokens and `sa.pub` to verify them.
pub(crate) fn write(dir: &Path) -> Result<Keys> {
    let mut ca_params = CertificateParams::default();
    ca_params.distinguished_name.push(DnType::CommonName, "test cluster");
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca_params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_key = KeyPair::generate().context("cannot make the cluster's CA key")?;
    let ca = ca_params.self_signed(&ca_key).context("cannot make the cluster's CA")?;

    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let key = KeyPair::generate().context("cannot make the API server's key")?;
    let certificate = params.signed_by(&key, &Issuer::new(ca_params, ca_key)).context("cannot sign its certificate")?;

    let accounts = KeyPair::generate().context("cannot make the service account key")?;
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
