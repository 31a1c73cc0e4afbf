//! Properties that hold for any input of a reader.
//!
//! A target is a function that panics if a property does not hold. `cargo xtask fuzz` looks for input that makes it panic,
//! and the test of this crate checks the corpus in `fuzz/corpus`. So a finding is fixed by adding its input there.

mod targets;

/// Largest input in bytes: longer ones find nothing new, and slow the search down.
pub const LARGEST_INPUT: usize = 4096;

/// A reader and its properties.
pub struct Target {
    pub name: &'static str,
    /// Panics if a property does not hold for the input.
    pub check: fn(&[u8]),
}

pub const TARGETS: [Target; 18] = [
    Target { name: "cel", check: targets::cel::check },
    Target { name: "chart", check: targets::chart::check },
    Target { name: "envsubst", check: targets::envsubst::check },
    Target { name: "git-listing", check: targets::git_listing::check },
    Target { name: "glob", check: targets::glob::check },
    Target { name: "ignore", check: targets::ignore::check },
    Target { name: "inventory-id", check: targets::inventory_id::check },
    Target { name: "kustomization", check: targets::kustomization::check },
    Target { name: "markdown", check: targets::markdown::check },
    Target { name: "plan", check: targets::plan::check },
    Target { name: "plan-file", check: targets::plan_file::check },
    Target { name: "protobuf", check: targets::protobuf::check },
    Target { name: "release-record", check: targets::release_record::check },
    Target { name: "selector", check: targets::selector::check },
    Target { name: "snapshot", check: targets::snapshot::check },
    Target { name: "terminal", check: targets::terminal::check },
    Target { name: "url", check: targets::url::check },
    Target { name: "yaml", check: targets::yaml::check },
];

/// Returns the target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
