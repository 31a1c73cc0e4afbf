//! One file per target.

pub(crate) mod cel;
pub(crate) mod chart;
pub(crate) mod envsubst;
pub(crate) mod git_listing;
pub(crate) mod glob;
pub(crate) mod ignore;
pub(crate) mod inventory_id;
pub(crate) mod kustomization;
pub(crate) mod markdown;
pub(crate) mod plan;
pub(crate) mod plan_file;
pub(crate) mod protobuf;
pub(crate) mod release_record;
pub(crate) mod selector;
pub(crate) mod snapshot;
pub(crate) mod terminal;
pub(crate) mod url;
pub(crate) mod yaml;

/// Splits the input at its first NUL into text and the rest.
fn split(data: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(data).ok()?.split_once('\0')
}
