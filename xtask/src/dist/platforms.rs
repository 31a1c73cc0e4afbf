//! The platforms of a release. Archives, manifests and the release workflow all come from this table.

use anyhow::{Context, Result};

/// Name of the plugin: `kubectl NAME`, `flux NAME`, and `metadata.name` in the index of Krew.
pub const PLUGIN: &str = "gitops";
/// Repository of the releases.
pub const HOMEPAGE: &str = "https://github.com/kubectl-gitops/kubectl-gitops";
/// Oldest version of glibc on which the programs for Linux run (CentOS 7, Debian 8).
pub const GLIBC: &str = "2.17";

/// A platform that has an archive.
#[derive(Debug)]
pub struct Platform {
    /// Operating system and architecture, as Go names them.
    pub os: &'static str,
    pub arch: &'static str,
    /// Target of the Rust compiler.
    pub target: &'static str,
    /// Machine of GitHub that builds and runs it.
    pub runner: &'static str,
}

const fn platform(os: &'static str, arch: &'static str, target: &'static str, runner: &'static str) -> Platform {
    Platform { os, arch, target, runner }
}

/// All platforms, in the order of the manifests.
pub const PLATFORMS: [Platform; 5] = [
    platform("linux", "amd64", "x86_64-unknown-linux-gnu", "ubuntu-24.04"),
    platform("linux", "arm64", "aarch64-unknown-linux-gnu", "ubuntu-24.04-arm"),
    platform("darwin", "amd64", "x86_64-apple-darwin", "macos-15-intel"),
    platform("darwin", "arm64", "aarch64-apple-darwin", "macos-15"),
    platform("windows", "amd64", "x86_64-pc-windows-msvc", "windows-2025"),
];

impl Platform {
    /// Returns the platform that is written as `linux/amd64`.
    pub fn find(name: &str) -> Result<&'static Self> {
        let found = PLATFORMS.iter().find(|platform| platform.name() == name);
        found.with_context(|| format!("no platform is called {name}; known are {}", names().join(", ")))
    }

    /// Returns the platform of this machine, if releases have it.
    pub fn host() -> Option<&'static Self> {
        let os = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        PLATFORMS.iter().find(|platform| (platform.os, platform.arch) == (os, arch))
    }

    /// Returns operating system and architecture as one word, such as `linux/amd64`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.os, self.arch)
    }

    fn executable(&self, host: &str) -> String {
        format!("{host}-{PLUGIN}{}", if self.os == "windows" { ".exe" } else { "" })
    }

    /// Returns the name of the program in the archive.
    pub fn program(&self) -> String {
        self.executable("kubectl")
    }

    /// Returns the file name of the archive of a version such as `v1.2.3`.
    pub fn archive(&self, version: &str) -> String {
        format!("kubectl-{PLUGIN}-{version}-{}-{}.tar.gz", self.os, self.arch)
    }

    /// Returns the address of the archive in a release.
    pub fn url(&self, version: &str) -> String {
        release_url(version, &self.archive(version))
    }

    /// Returns the name of the program in the archive for flux.
    pub fn flux_program(&self) -> String {
        self.executable("flux")
    }

    /// Returns the file name of the archive for flux. The catalog of Flux updates itself from archives with this form of name.
    pub fn flux_archive(&self, version: &str) -> String {
        let extension = if self.os == "windows" { "zip" } else { "tar.gz" };
        format!("{}_{}_{}.{extension}", flux_release(version), self.os, self.arch)
    }

    /// Returns the address of the archive for flux in a release.
    pub fn flux_url(&self, version: &str) -> String {
        release_url(version, &self.flux_archive(version))
    }
}

fn release_url(version: &str, file: &str) -> String {
    format!("{HOMEPAGE}/releases/download/{version}/{file}")
}

/// Returns how the names of the files for flux begin, such as `flux-gitops_1.2.3` for `v1.2.3`.
pub fn flux_release(version: &str) -> String {
    format!("flux-{PLUGIN}_{}", version.trim_start_matches('v'))
}

fn names() -> Vec<String> {
    PLATFORMS.iter().map(Platform::name).collect()
}
