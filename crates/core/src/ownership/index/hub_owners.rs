//! Owners of a hub cluster in the index of another cluster.

use super::Index;
use super::hub::{Hub, rules};
use crate::ownership::scheme::hub::HubTarget;
use crate::ownership::scheme::members::Members;

impl Index<'_> {
    /// Adds the owners of a hub that do not apply to the hub itself.
    pub(super) fn add_hub(&mut self, hub: &Hub) {
        for owner in &hub.owners {
            let Some((n, scheme, rules)) = rules(&owner.object.id) else { continue };
            let target = (rules.target)(owner);
            let Some(mut record) = (scheme.owner)(&owner.object, &owner.content) else { continue };
            if target == HubTarget::Hub {
                continue;
            }
            let id = record.id.clone();
            if self.owners.contains_key(&id) {
                // Labels name both, so their author is unknown.
                self.hub_conflicts.insert(id);
                continue;
            }
            let is_here = hub.is_this_cluster(&target);
            if !is_here && !rules.keeps_aliases {
                record.aliases.clear();
            }
            record.members = match record.members {
                Members::Remote(ids) if is_here => Members::Listed(ids),
                members if is_here => members,
                Members::Listed(ids) | Members::Remote(ids) => Members::Remote(ids),
                _ => Members::Remote(vec![]),
            };
            record.status = record.status.after_reading(&owner.object, hub.changed.contains(&owner.object.uid));
            self.add(n, record, None, None);
            self.owners.get_mut(&id).into_iter().for_each(|owner| owner.in_hub = true);
        }
        if let Some(gap) = hub.gaps.first() {
            let reason = format!("{} could not be read, and an owner there may list it", gap.subject);
            self.unread_owner_reason = Some(reason);
        }
    }
}
