//! Provenance of the archives of a release, in in-toto form, and signatures with a key of one's own. The formats are those of
//! cosign: `cosign verify-blob --key` reads the signatures, and `cosign verify-blob-attestation --key` the provenance.
//!
//! openssl computes them, so that no key is ever in this program.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{child, text};

/// Type of the statements, which is signed with them.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Repository that the archives are built from.
const SOURCE: &str = "https://github.com/kubectl-gitops/kubectl-gitops";

/// Returns what the archives were built from: SLSA provenance 1.0 in an in-toto statement 1.0. `subjects` are the names of
/// the files with their SHA-256, and `lock` the digest of Cargo.lock, which pins the crates.
pub fn statement(version: &str, commit: &str, lock: &str, subjects: &[(String, String)]) -> Value {
    let subjects: Vec<Value> =
        subjects.iter().map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}})).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{SOURCE}/blob/{version}/xtask/src/dist/mod.rs"),
                "externalParameters": {"version": version},
                "resolvedDependencies": [
                    {"uri": format!("git+{SOURCE}@refs/tags/{version}"), "digest": {"gitCommit": commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock}},
                ],
            },
            "runDetails": {"builder": {"id": format!("{SOURCE}/blob/{version}/xtask/src/dist/build.rs")}},
        },
    })
}

/// Creates a key and returns its public part. Both are in PEM.
pub fn make_key(path: &Path) -> Result<String> {
    let arguments = ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"];
    child::output(Command::new("openssl").args(arguments).arg(path))?;
    public_key(path)
}

fn public_key(path: &Path) -> Result<String> {
    let public = child::output(Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(path))?;
    String::from_utf8(public).context("openssl prints no text")
}

/// Returns the signature of a content: ECDSA of its SHA-256, in base64.
pub fn signature(key: &Path, content: &[u8]) -> Result<String> {
    let mut openssl = Command::new("openssl").args(["dgst", "-sha256", "-sign"]).arg(key).piped()?;
    openssl.stdin.take().context("openssl has no standard input")?.write_all(content)?;
    let output = openssl.wait_with_output().context("cannot run openssl")?;
    if !output.status.success() {
        bail!("openssl cannot sign with {}: {}", key.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(STANDARD.encode(output.stdout))
}

/// Fails unless this is the signature of a content by the key with this public part. `folder` is for temporary files.
fn verify(public: &str, signature: &str, content: &[u8], folder: &Path) -> Result<()> {
    let [key, file] = ["public.pem", "signature"].map(|name| folder.join(name));
    fs::write(&key, public)?;
    fs::write(&file, STANDARD.decode(signature.trim()).context("the signature is no base64")?)?;
    let mut openssl = Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-verify"]).arg(key).arg("-signature").arg(file);
    let mut openssl = openssl.piped()?;
    openssl.stdin.take().context("openssl has no standard input")?.write_all(content)?;
    if !openssl.wait_with_output()?.status.success() {
        bail!("another key signed it, or it was changed");
    }
    Ok(())
}

trait Piped {
    /// Starts a command that is written to and read.
    fn piped(&mut self) -> Result<std::process::Child>;
}

impl Piped for Command {
    fn piped(&mut self) -> Result<std::process::Child> {
        let child = self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        child.context("cannot run openssl")
    }
}

/// Returns what a signature of an envelope is about: its type and its content, with their lengths.
fn signed(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Returns a statement in a signed envelope (DSSE), as one line.
pub fn envelope(key: &Path, statement: &Value) -> Result<String> {
    let payload = statement.to_string();
    let signature = signature(key, &signed(payload.as_bytes()))?;
    let envelope = json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": STANDARD.encode(&payload),
        "signatures": [{"keyid": "", "sig": signature}],
    });
    Ok(format!("{envelope}\n"))
}

/// Returns the statement of an envelope. Fails unless the key with this public part signed it.
pub fn open(public: &str, envelope: &str, folder: &Path) -> Result<Value> {
    let envelope: Value = serde_json::from_str(envelope).context("the provenance is no JSON")?;
    if text(&envelope, "/payloadType") != PAYLOAD_TYPE {
        bail!("the provenance is no in-toto statement");
    }
    let payload = STANDARD.decode(text(&envelope, "/payload")).context("the payload is no base64")?;
    verify(public, text(&envelope, "/signatures/0/sig"), &signed(&payload), folder)?;
    serde_json::from_slice(&payload).context("the statement is no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target_dir;

    #[test]
    fn only_the_key_that_signed_a_statement_opens_it_unchanged() {
        let folder = target_dir().join(format!("provenance-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [key, other] = ["key.pem", "other.pem"].map(|name| folder.join(name));
        let [public, stranger] = [&key, &other].map(|path| make_key(path).unwrap());
        let subjects = [("kubectl-gitops-v0.1.0-linux-amd64.tar.gz".to_owned(), "ab".repeat(32))];
        let statement = statement("v0.1.0", "c0ffee", &"cd".repeat(32), &subjects);
        let envelope = envelope(&key, &statement).unwrap();
        assert_eq!(open(&public, &envelope, &folder).unwrap(), statement);
        assert_eq!(text(&statement, "/subject/0/digest/sha256"), "ab".repeat(32));
        assert!(open(&stranger, &envelope, &folder).is_err(), "another key");
        let edited = |from: &str, to: &str| {
            let mut edited: Value = serde_json::from_str(&envelope).unwrap();
            let payload = String::from_utf8(STANDARD.decode(text(&edited, "/payload")).unwrap()).unwrap();
            assert!(payload.contains(from));
            edited["payload"] = STANDARD.encode(payload.replacen(from, to, 1)).into();
            edited.to_string()
        };
        for (from, to) in [("abab", "abac"), ("c0ffee", "c0fffe"), ("v0.1.0", "v0.1.1")] {
            assert!(open(&public, &edited(from, to), &folder).is_err(), "{from}");
        }
        let foreign = envelope.replace(PAYLOAD_TYPE, "text/plain");
        assert!(open(&public, &foreign, &folder).is_err(), "another type");
        assert!(open(&public, &envelope.replace("\"sig\"", "\"none\""), &folder).is_err(), "no signature");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_archives_of_a_release_are_signed_with_their_provenance() {
        let folder = target_dir().join(format!("signed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = folder.join("key.pem");
        let public = make_key(&key).unwrap();
        let sum = crate::sha256_hex(b"archive");
        fs::write(folder.join("a.tar.gz"), "archive").unwrap();
        fs::write(folder.join(super::super::SUMS), format!("{sum}  a.tar.gz\n")).unwrap();
        super::super::sign(&folder, &key).unwrap();
        let signature = fs::read_to_string(folder.join("a.tar.gz.sig")).unwrap();
        verify(&public, &signature, b"archive", &folder).unwrap();
        assert!(verify(&public, &signature, b"another", &folder).is_err());
        let provenance = fs::read_to_string(folder.join(super::super::PROVENANCE)).unwrap();
        let statement = open(&public, &provenance, &folder).unwrap();
        assert_eq!(statement["subject"], json!([{"name": "a.tar.gz", "digest": {"sha256": sum}}]));
        let commit = text(&statement, "/predicate/buildDefinition/resolvedDependencies/0/digest/gitCommit");
        assert_eq!(commit.len(), 40, "{statement}");
        fs::write(folder.join("a.tar.gz"), "exchanged").unwrap();
        assert!(super::super::sign(&folder, &key).is_err(), "an archive that is not that of the sums");
        fs::remove_dir_all(folder).unwrap();
    }

    /// The example of the specification of DSSE: the type and the content cannot be shifted into each other.
    #[test]
    fn what_is_signed_has_the_lengths_of_its_parts() {
        assert_eq!(signed(b"hello world"), b"DSSEv1 28 application/vnd.in-toto+json 11 hello world");
    }
}
