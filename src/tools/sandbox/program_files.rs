//! Files of the system that programs need: libraries, other programs, and what a network connection needs.

use std::path::{Path, PathBuf};

/// ExecutableFormat of an executable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux distinguishes them"))]
pub(super) enum ExecutableFormat {
    /// A binary without shared libraries, such as the released kubectl and kustomize.
    Static,
    /// A binary that a dynamic linker loads.
    Dynamic,
    /// A script, or a format that is not known.
    Script,
}

/// Returns the format of a file. Fails if it cannot be read.
#[cfg(target_os = "linux")]
pub(super) fn format(file: &Path) -> std::io::Result<ExecutableFormat> {
    use elf::abi::PT_INTERP;
    use elf::endian::AnyEndian;
    let Ok(binary) = elf::ElfStream::<AnyEndian, _>::open_stream(std::fs::File::open(file)?) else {
        return Ok(ExecutableFormat::Script);
    };
    let is_dynamic = binary.segments().iter().any(|segment| segment.p_type == PT_INTERP);
    Ok(if is_dynamic { ExecutableFormat::Dynamic } else { ExecutableFormat::Static })
}

/// Returns the format of a file. Other systems than Linux do not restrict files.
#[cfg(not(target_os = "linux"))]
pub(super) fn format(_: &Path) -> std::io::Result<ExecutableFormat> {
    Ok(ExecutableFormat::Dynamic)
}

/// Directories of shared libraries.
const LIBRARIES: [&str; 10] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
];

/// Directories of programs and of their data.
const PROGRAMS: [&str; 7] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/local/bin", "/usr/share/git-core"];

/// Name resolution, certificates, and configuration for the whole system.
const NETWORK: [&str; 24] = [
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/etc/ssh/ssh_known_hosts",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
];

/// Configuration of git and ssh in the user's home directory. Keys and passwords are not in it.
const USER: [&str; 5] = [".gitconfig", ".config/git/config", ".ssh/config", ".ssh/known_hosts", ".ssh/known_hosts2"];

/// Variables that name files with certificates or with a configuration of git.
const NAMED_FILES: [&str; 5] =
    ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];

/// Returns the directories of shared libraries.
pub(super) fn libraries() -> impl Iterator<Item = PathBuf> {
    existing(LIBRARIES.map(PathBuf::from))
}

/// Returns the directories of programs.
pub(super) fn programs() -> impl Iterator<Item = PathBuf> {
    existing(PROGRAMS.map(PathBuf::from))
}

/// Returns the files that a network connection needs.
pub(super) fn network() -> impl Iterator<Item = PathBuf> {
    let home = crate::tools::home_directory();
    let user = home.iter().flat_map(|home| USER.map(|file| home.join(file))).collect::<Vec<_>>();
    let named = NAMED_FILES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    existing(NETWORK.map(PathBuf::from).into_iter().chain(user).chain(named))
}

fn existing(paths: impl IntoIterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
    paths.into_iter().filter(|path| path.is_absolute() && path.exists())
}
