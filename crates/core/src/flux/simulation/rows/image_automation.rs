//! Commits of image-automation-controller: a plan does not follow them, and says where they go.
//!
//! Source: image-automation-controller v1.1.2 `internal/source/source.go` (the branch to push to) and
//! `internal/policy/applier.go` (the markers of files).

use serde_json::Value;

use crate::flux::simulation::model::state::State;
use crate::flux::source::path;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::plan::{Action, Plan};
use crate::text::pluralize;

const GROUP: &str = "image.toolkit.fluxcd.io";
/// Beginning of the comment that marks an image in a file.
const MARKER: &str = "{\"$imagepolicy\":";

/// Adds to the rows of ImageUpdateAutomations that are created or changed what they commit, unless they are suspended.
pub(super) fn add_commits(state: &State<'_>, plan: &mut Plan) {
    plan.update_changes(|change| {
        let id = &change.object.id;
        let is_applied = matches!(change.action, Action::Create | Action::Recreate | Action::Update);
        if !is_applied || !id.is_here(GROUP, "ImageUpdateAutomation") || state.is_suspended_after(id) {
            return;
        }
        if let Some(spec) = state.specs_after(id).last() {
            change.reason.add_detail(&commits(state, id, spec));
        }
    });
}

/// Describes the commits of an automation, for people.
fn commits(state: &State<'_>, id: &ObjectId, spec: &Value) -> String {
    let source = SourceId::read(&spec["sourceRef"], "GitRepository", &id.namespace);
    if state.is_private(id) || state.is_private(&source.object()) {
        return "its commits are not in this plan".to_owned();
    }
    let of_source = state.specs_after(&source.object()).pop().unwrap_or_default();
    let branches = [
        text_at(spec, "/git/push/branch"),
        text_at(spec, "/git/checkout/ref/branch"),
        text_at(&of_source, "/ref/branch"),
    ];
    let branch = branches.into_iter().find(|branch| !branch.is_empty()).unwrap_or("master");
    let written = text_at(spec, "/update/path");
    let below = path::resolve("", written.trim_start_matches('/')).unwrap_or_default();
    let marked = state.input.trees.get(&source).map(|tree| {
        let marked = tree.files().filter(|(at, content)| path::is_in(at, &below) && has_marker(content)).count();
        format!(": {} with markers of image policies", pluralize(marked, "file"))
    });
    let place = if below.is_empty() { String::new() } else { format!(" below {below}") };
    format!("its commits to the branch {branch} of {source}{place} are not in this plan{}", marked.unwrap_or_default())
}

/// Returns true if a file marks an image for a policy.
fn has_marker(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    text.contains(MARKER) || text.lines().any(|line| line.replace(' ', "").contains(MARKER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_a_comment_with_or_without_spaces() {
        assert!(has_marker(br#"image: app:1.0.0 # {"$imagepolicy": "flux-system:app"}"#));
        assert!(has_marker(b"a: 1\nimage: app # { \"$imagepolicy\" : \"flux-system:app:tag\" }\n"));
        assert!(!has_marker(b"image: app # $imagepolicy"));
    }
}
