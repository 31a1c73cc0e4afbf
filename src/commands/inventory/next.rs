//! Commands to run after `--why`.

use super::args::InventoryArgs;
use crate::output::{document, kind_and_name, owner as name_of};
use gitops_core::ownership::report::explain::Explanation;
use gitops_core::ownership::{OwnerId, OwnerStatus};
use gitops_core::text::shell_word;

/// Returns the commands that follow from an explanation, each with what it is for.
pub(super) fn commands(explanation: &Explanation, args: &InventoryArgs) -> Vec<String> {
    let object = &explanation.object;
    let namespace =
        if object.namespace.is_empty() { String::new() } else { format!(" -n {}", shell_word(&object.namespace)) };
    let is_live = args.snapshot.is_none();
    let claims = explanation.claims.iter().map(|view| &view.claim.owner);
    let mut owners = explanation.chain.iter().map(|link| &link.owner).chain(claims);
    let mut lines = vec![];
    match explanation.status {
        "leaked" if explanation.reason.is_none() => {
            // `prune -n` means the namespace of the owner, not of the object.
            let owner = owners.next().map(|owner| format!(" {}", shell_word(&name_of(owner)))).unwrap_or_default();
            lines.push(format!("whether it can be deleted: `kubectl gitops prune --plan{owner}`"));
        }
        "orphaned" => {
            let owner = owners.next().filter(|owner| !owner.namespace.is_empty());
            let place = owner.map(|owner| format!(" -n {}", shell_word(&owner.namespace))).unwrap_or_default();
            lines.push(format!("whether it can be deleted: `kubectl gitops prune --plan --include orphaned{place}`"));
        }
        "unmanaged" if is_live => {
            let name = shell_word(&document::name(object));
            lines.push(format!("who wrote which field: `kubectl get {name}{namespace} -o yaml --show-managed-fields`"));
        }
        _ => {}
    }
    if let Some(link) = explanation.chain.first() {
        lines.push(format!("all that its owner manages: `kubectl gitops inventory {}`", arguments(&link.owner)));
        if link.status == OwnerStatus::Suspended && link.owner.system == "flux" {
            let at = shell_word(&link.owner.namespace);
            lines.push(format!("who suspended its owner: `kubectl gitops get --suspended -n {at} -o wide`"));
        }
    }
    lines
}

/// Returns the arguments that select an owner. A flag comes first: without one, kubectl takes the word with a slash for the path
/// of a program (docs/reference/kubectl-plugin.md 1).
fn arguments(owner: &OwnerId) -> String {
    let flag = match &*owner.namespace {
        "" => format!("--by {}", owner.system),
        namespace => format!("-n {}", shell_word(namespace)),
    };
    format!("{flag} {}", shell_word(&kind_and_name(owner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_comes_before_a_word_with_a_slash() {
        for (namespace, expected) in [("shop", "-n shop application/web/prod"), ("", "--by qbec application/web/prod")]
        {
            let owner = OwnerId::new("qbec", "Application", namespace, "web/prod");
            assert_eq!(arguments(&owner), expected);
        }
    }
}
