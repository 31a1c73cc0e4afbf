//! Registry of the ownership systems.

use std::sync::LazyLock;

use super::{
    applyset, argocd, cli_utils, config_sync, flux_helmrelease, flux_kustomization, flux_operator, flux_v1, helm, kapp,
    kluctl, qbec,
};
use crate::ownership::scheme::Scheme;

/// All schemes, in the order in which their claims are read. At most 32: sets of schemes are bits of a `u32`.
pub static SCHEMES: &[&Scheme] = &[
    &flux_kustomization::SCHEME,
    &flux_helmrelease::SCHEME,
    &flux_operator::RESOURCE_SET,
    &flux_operator::FLUX_INSTANCE,
    &flux_v1::SCHEME,
    &qbec::SCHEME,
    &config_sync::SCHEME,
    &applyset::SCHEME,
    &argocd::SCHEME,
    &helm::SCHEME,
    &kapp::SCHEME,
    &cli_utils::SCHEME,
    &kluctl::SCHEME,
];

/// Names of the systems, as `--by` accepts them, in the order of [`SCHEMES`].
pub static SYSTEMS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut systems: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.system).collect();
    systems.dedup();
    systems
});

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_schemes_of_one_system_are_neighbours() {
        let names: HashSet<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        let systems: HashSet<&str> = SYSTEMS.iter().copied().collect();
        assert_eq!((names.len(), systems.len()), (SCHEMES.len(), SYSTEMS.len()));
        assert!(SCHEMES.len() <= 32);
    }
}
