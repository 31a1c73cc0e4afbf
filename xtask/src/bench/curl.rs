//! Runs curl, to fill the cluster and as the baseline: no client of an API server does less.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::measure::Line;
use crate::cluster::Cluster;

/// Parallel requests of one curl.
const PARALLEL: &str = "32";

/// Server, credentials, and the folder for configuration files of curl.
pub(crate) struct Curl {
    server: String,
    token: String,
    authority: PathBuf,
    folder: PathBuf,
}

/// A request to the API server.
pub(crate) struct Transfer {
    pub method: &'static str,
    /// Path and query of the URL.
    pub path: String,
    pub header: String,
    pub body: String,
}

impl Curl {
    pub(crate) fn new(cluster: &Cluster) -> Result<Self> {
        let folder = cluster.dir().join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let (server, token) = (cluster.server_url(), cluster.user_token("admin")?);
        Ok(Self { server, token, authority: cluster.dir().join("keys/ca.crt"), folder })
    }

    /// Returns curl with a configuration file of these transfers. It discards the responses and prints their status.
    pub(crate) fn line(&self, name: &str, transfers: &[Transfer]) -> Result<Line> {
        let mut text = String::new();
        for (number, transfer) in transfers.iter().enumerate() {
            if number > 0 {
                text.push_str("next\n");
            }
            let _ =
                writeln!(text, "silent\noutput = \"/dev/null\"\ncacert = {}", quote(&self.authority.to_string_lossy()));
            let _ = writeln!(text, "write-out = \"%{{http_code}} %{{http_version}} %{{url}}\\n\"");
            let _ = writeln!(text, "url = {}", quote(&format!("{}{}", self.server, transfer.path)));
            let _ = writeln!(text, "header = {}", quote(&format!("Authorization: Bearer {}", self.token)));
            let _ = writeln!(text, "header = {}", quote(&transfer.header));
            if !transfer.body.is_empty() {
                let _ = writeln!(text, "request = \"{}\"\ndata-raw = {}", transfer.method, quote(&transfer.body));
            }
        }
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let options = ["--disable", "--parallel", "--parallel-max", PARALLEL, "--config"];
        Ok(Line::new("curl").and(options).and([path]))
    }

    /// Sends transfers. Fails on the first one that the server refuses.
    pub(crate) fn send(&self, transfers: &[Transfer]) -> Result<()> {
        for (number, part) in transfers.chunks(2000).enumerate() {
            let lines = self.line(&format!("send-{number}"), part)?.output()?;
            if let Some(refused) = lines.lines().find(|line| !line.starts_with('2')) {
                bail!("the API server refused an object of the benchmark: {refused}");
            }
            if lines.lines().count() != part.len() {
                bail!("curl sent {} of {} objects", lines.lines().count(), part.len());
            }
        }
        Ok(())
    }
}

/// Quotes text for a configuration file of curl.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
