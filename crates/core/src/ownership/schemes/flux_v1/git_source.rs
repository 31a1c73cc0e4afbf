//! Git source of a Flux v1, from which the marks of its objects are computed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::url::safe_url;
use crate::ownership::scheme::Record;
use crate::ownership::scheme::claim::OwnerId;
use crate::ownership::scheme::members::{Members, Scope};

pub(super) const SYSTEM: &str = "flux-v1";

/// Git source in the configuration of a fluxd. The hash uses the texts exactly as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    pub url: String,
    pub branch: String,
    /// Values of `--git-path`, in order.
    pub paths: Vec<String>,
}

impl GitSource {
    /// Returns the sync set name: the hash of URL, branch and paths, without separators.
    pub fn sync_set(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(safe_url(&self.url));
        hash.update(&self.branch);
        self.paths.iter().for_each(|path| hash.update(path));
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }

    /// Returns the record of this source as an owner that the user named.
    pub fn record(&self) -> Record {
        let mut name = format!("{} {}", safe_url(&self.url), self.branch);
        self.paths.iter().for_each(|path| name.extend([" ", path]));
        let id = OwnerId::new(SYSTEM, "Source", "", &name);
        Record { verification_key: Some(self.sync_set()), ..Record::new(id, Members::Selected(Scope::everywhere())) }
    }
}
