//! Commands to run after `--why`, complete with the flags that say where.

use super::args::InventoryArgs;
use crate::commands::Session;
use crate::output::{document, owner};
use gitops_core::ownership::OwnerStatus;
use gitops_core::ownership::report::explain::Explanation;

/// Returns the commands that follow from an explanation, each with what it is for.
pub(super) fn commands(explanation: &Explanation, args: &InventoryArgs, session: &Session) -> Vec<String> {
    let (object, place) = (&explanation.object, place(args, session));
    let namespace = if object.namespace.is_empty() { String::new() } else { format!(" -n {}", object.namespace) };
    let is_live = args.snapshot.is_none();
    let mut lines = vec![];
    match explanation.status {
        "leaked" if explanation.reason.is_none() => {
            lines.push(format!("whether it can be deleted: `kubectl gitops prune --plan{namespace}{place}`"));
        }
        "orphaned" => {
            let command = format!("kubectl gitops prune --plan --include orphaned{namespace}{place}");
            lines.push(format!("whether it can be deleted: `{command}`"));
        }
        "unmanaged" if is_live => {
            let name = document::name(object);
            lines.push(format!(
                "who wrote which field: `kubectl get {name}{namespace}{place} -o yaml --show-managed-fields`"
            ));
        }
        _ => {}
    }
    if let Some(link) = explanation.chain.first() {
        let name = owner(&link.owner);
        lines.push(format!("all that its owner manages: `kubectl gitops inventory {name}{place}`"));
        if link.status == OwnerStatus::Suspended && link.owner.system == "flux" {
            let at = &link.owner.namespace;
            lines.push(format!("who suspended its owner: `kubectl gitops get --suspended -n {at} -o wide{place}`"));
        }
    }
    lines
}

/// Returns the flags that select the cluster again.
fn place(args: &InventoryArgs, session: &Session) -> String {
    let mut flags = String::new();
    flags.extend(args.snapshot.as_ref().map(|file| format!(" --snapshot {}", file.display())));
    flags.extend(session.connection.context.as_ref().map(|context| format!(" --context {context}")));
    flags.extend(session.connection.kubeconfig.as_ref().map(|file| format!(" --kubeconfig {}", file.display())));
    flags
}
