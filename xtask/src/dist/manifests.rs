//! Manifests for installers, from the table of platforms: Krew, krew-release-bot, and the plugin catalog of Flux.

use std::fmt::Write as _;

use super::platforms::{HOMEPAGE, PLATFORMS, PLUGIN, Platform};

/// Line of at most 50 characters, which `krew search` shows.
const SHORT: &str = "Inspect, pause and prune GitOps deployments";

/// Lines of at most 80 characters, as reviewers of krew-index want.
const DESCRIPTION: [&str; 4] = [
    "Shows what Flux and other GitOps tools manage in a cluster, and which",
    "objects are leaked or orphaned. Suspends and resumes Flux objects with a",
    "recorded reason. Shows what a commit or a clean-up will delete, before",
    "anything is deleted.",
];

const UNRELEASED: &str = "\
# Written by `cargo xtask dist templates` from the table of platforms in xtask/src/dist/platforms.rs: do not edit.
# No version is released. A checksum of zeros stands for an archive that does not exist; `cargo xtask dist` writes a manifest
# with the checksums of the archives that it builds to target/dist/plugin.yaml.
";

/// A platform and the lower-case SHA-256 of its archive.
pub type Sum<'a> = (&'a Platform, String);

/// Returns the manifest in this repository, for a version that is not released.
pub fn unreleased(version: &str) -> String {
    let sums: Vec<_> = PLATFORMS.iter().map(|platform| (platform, "0".repeat(64))).collect();
    format!("{UNRELEASED}{}", krew(version, &sums))
}

/// Returns the manifest for Krew of a version such as `v1.2.3`.
pub fn krew(version: &str, sums: &[Sum]) -> String {
    let mut text = head(version);
    for (platform, sum) in sums {
        text += &selector(platform);
        let _ = write!(
            text,
            "    uri: {}\n    sha256: \"{sum}\"\n    bin: {}\n",
            platform.url(version),
            platform.program()
        );
    }
    text
}

/// Returns the template from which krew-release-bot makes the manifest. It downloads the archives to sum them.
pub fn krew_template() -> String {
    let mut text = head("{{ .TagName }}");
    for platform in &PLATFORMS {
        text += &selector(platform);
        let url = platform.url("{{ .TagName }}");
        let _ = write!(text, "    {{{{addURIAndSha {url:?} .TagName}}}}\n    bin: {}\n", platform.program());
    }
    text
}

fn head(version: &str) -> String {
    let description: String = DESCRIPTION.iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: {PLUGIN}\nspec:\n  \
         version: {version}\n  homepage: {HOMEPAGE}\n  shortDescription: {SHORT}\n  description: |\n{description}  \
         caveats: |\n    Tab completion needs kubectl 1.26 or newer and one more file on your PATH.\n    \
         Run \"kubectl {PLUGIN} completion --help\".\n  platforms:\n"
    )
}

fn selector(platform: &Platform) -> String {
    format!("  - selector: {{matchLabels: {{os: {}, arch: {}}}}}\n", platform.os, platform.arch)
}

/// Returns the manifest for `flux plugin install` of a version such as `v1.2.3` (RFC-0013 of Flux), with the sums of the
/// archives for flux.
pub fn flux(version: &str, sums: &[Sum]) -> String {
    let mut text = format!(
        "apiVersion: cli.fluxcd.io/v1beta1\nkind: Plugin\nname: {PLUGIN}\ndescription: {SHORT}\nhomepage: {HOMEPAGE}\n\
         source: {HOMEPAGE}\nbin: flux-{PLUGIN}\nversions:\n  - version: {}\n    platforms:\n",
        version.trim_start_matches('v')
    );
    for (platform, sum) in sums {
        let _ = write!(
            text,
            "      - os: {}\n        arch: {}\n        url: {}\n        checksum: sha256:{sum}\n",
            platform.os,
            platform.arch,
            platform.flux_url(version)
        );
    }
    text
}

/// Returns the catalog with this plugin alone, for `FLUXCD_PLUGIN_CATALOG` and `flux plugin search`.
pub fn flux_catalog() -> String {
    format!(
        "apiVersion: cli.fluxcd.io/v1beta1\nkind: PluginCatalog\nplugins:\n  - name: {PLUGIN}\n    description: {SHORT}\n    \
         homepage: {HOMEPAGE}\n    source: {HOMEPAGE}\n    license: Apache-2.0\n"
    )
}
