//! Restricts this process with Landlock: files, TCP, signals and abstract sockets.
//!
//! Landlock is in Linux since 5.13, TCP since 6.7, signals and abstract sockets since 6.12. Older kernels apply what they
//! have.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};

use super::{Network, Rules};

/// Newest version whose rights are handled.
const VERSION: ABI = ABI::V7;

/// Devices that every program may expect: an empty file, and random numbers.
const DEVICES: [(&str, BitFlags<AccessFs>); 2] = [
    ("/dev/null", make_bitflags!(AccessFs::{ReadFile | WriteFile})),
    ("/dev/urandom", make_bitflags!(AccessFs::{ReadFile})),
];

/// Returns true if the kernel has Landlock.
pub(super) fn is_supported() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::Execute);
    required.is_ok_and(|ruleset| ruleset.create().is_ok())
}

/// Restricts this process and its children permanently. Without Landlock in the kernel nothing happens.
///
/// Fails if the kernel has Landlock and does not apply the rules.
pub(super) fn restrict(rules: &Rules) -> Result<(), String> {
    let status = enforce(rules)?;
    let is_available = matches!(status.landlock, LandlockStatus::Available { .. });
    match status.ruleset {
        RulesetStatus::NotEnforced if is_available => Err("Landlock: the kernel applied no rule".to_owned()),
        _ => Ok(()),
    }
}

fn enforce(rules: &Rules) -> Result<RestrictionStatus, String> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let write = read | AccessFs::from_write(VERSION);
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION)).map_err(failed)?;
    if rules.network != Network::All {
        ruleset = ruleset.handle_access(AccessNet::from_all(VERSION)).map_err(failed)?;
    }
    let mut created = ruleset.scope(Scope::from_all(VERSION)).and_then(Ruleset::create).map_err(failed)?;
    for (paths, access) in [(&rules.read, read), (&rules.execute, execute), (&rules.write, write)] {
        for path in paths {
            created = created.add_rule(rule(path, access)?).map_err(failed)?;
        }
    }
    if let Network::Ports(ports) = &rules.network {
        for port in ports {
            created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(failed)?;
        }
    }
    for (device, access) in DEVICES {
        if Path::new(device).exists() {
            created = created.add_rule(rule(Path::new(device), access)?).map_err(failed)?;
        }
    }
    created.restrict_self().map_err(failed)
}

fn failed(error: RulesetError) -> String {
    format!("Landlock: {error}")
}

fn rule(path: &Path, access: BitFlags<AccessFs>) -> Result<PathBeneath<PathFd>, String> {
    let file = PathFd::new(path).map_err(|error| format!("{}: {error}", path.display()))?;
    // Rights such as listing apply to directories only.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    Ok(PathBeneath::new(file, access))
}
