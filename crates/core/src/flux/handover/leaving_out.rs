//! The search for settings that are not needed: which of them a list is tried without.

use std::collections::BTreeSet;

use super::{Holds, Loss, live_holder};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;

/// Settings of which some may not be needed.
///
/// A list without several settings shows at once which of them are needed, each for itself: those whose own objects it loses, if the
/// deletion follows from no other setting that is left out. The rest is left out all at once, or in halves.
pub struct LeavingOut<'s> {
    index: Index<'s>,
    holds: Holds,
    /// Owners and objects whose settings may not be needed.
    open: BTreeSet<ObjectId>,
    /// Those without which the list is tried next.
    group: BTreeSet<ObjectId>,
}

impl<'s> LeavingOut<'s> {
    /// Begins with settings that lose nothing. `losses` are those of the change alone.
    pub fn new(holds: Holds, losses: &[Loss], live: &'s Snapshot) -> Self {
        let open: BTreeSet<ObjectId> = holds.keys().cloned().collect();
        let mut this = Self { index: Index::build(live), holds, group: open.clone(), open };
        this.keep_needed(losses);
        this
    }

    /// Returns the settings to try next; `None` if all that are left are needed.
    pub fn fewer(&self) -> Option<Holds> {
        let left = self.holds.iter().filter(|(id, _)| !self.group.contains(*id));
        (!self.group.is_empty()).then(|| left.map(|(id, hold)| (id.clone(), *hold)).collect())
    }

    /// Takes in what the list of [`Self::fewer`] loses, and whether it is good: it loses nothing in any other way either.
    pub fn take(&mut self, losses: &[Loss], is_good: bool) {
        if is_good {
            self.holds.retain(|id, _| !self.group.contains(id));
            self.open.retain(|id| !self.group.contains(id));
            self.group = self.open.clone();
        } else {
            self.keep_needed(losses);
        }
    }

    /// Returns the settings that are left.
    pub fn into_holds(self) -> Holds {
        self.holds
    }

    /// Keeps the settings of the group that are needed, and chooses the next group.
    fn keep_needed(&mut self, losses: &[Loss]) {
        let own = losses.iter().filter_map(|loss| self.needed_for(loss));
        let mut needed: BTreeSet<ObjectId> = own.collect();
        if needed.is_empty() && self.group.len() < 2 {
            needed.clone_from(&self.group);
        }
        if needed.is_empty() {
            let half = self.group.len().div_ceil(2);
            self.group = std::mem::take(&mut self.group).into_iter().take(half).collect();
            return;
        }
        self.open.retain(|id| !needed.contains(id));
        self.group = self.open.clone();
    }

    /// Returns the member of the group whose setting alone prevents a loss: no other member has to do with it.
    fn needed_for(&self, loss: &Loss) -> Option<ObjectId> {
        let (holder, _) = live_holder(loss, &self.index).filter(|(holder, _)| self.group.contains(holder))?;
        let is_own =
            loss.holder() == Some(&holder) && loss.above.iter().all(|id| *id == holder || !self.group.contains(id));
        is_own.then_some(holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::handover::Hold;
    use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
    use crate::testing;

    /// Kustomizations with a setting, each with the ones whose setting alone keeps its object too.
    struct Cluster(Vec<(String, Vec<String>)>);

    impl Cluster {
        fn new(rows: &[(&str, &[&str])]) -> Self {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            Self(rows.iter().map(|(name, above)| ((*name).to_owned(), words(above))).collect())
        }

        /// Returns what a list with these settings loses. `says_why` is false if its plans do not say what a deletion follows from.
        fn losses(&self, holds: &Holds, says_why: bool) -> Vec<Loss> {
            let is_held = |name: &str| holds.contains_key(&id(name));
            let is_lost = |(name, above): &&(String, Vec<String>)| {
                !is_held(name) && (above.is_empty() || !above.iter().any(|above| is_held(above)))
            };
            let lost = self.0.iter().filter(is_lost);
            let loss = |(name, above): &(String, Vec<String>)| Loss {
                object: ObjectId::new("", "ConfigMap", "shop", name),
                owner: None,
                reason: String::new(),
                holder: says_why.then(|| (id(name), &[Hold::Orphan][..])),
                cause: None,
                above: above.iter().map(|above| id(above)).collect(),
            };
            lost.map(loss).collect()
        }

        /// Returns the settings that are left, and the number of lists that are tried.
        fn leave_out(&self, says_why: bool) -> (Vec<String>, usize) {
            let owners: Vec<_> = self.0.iter().map(|(name, _)| testing::kustomization(name, &[])).collect();
            let live = testing::snapshot(owners.iter().map(|owner| owner.object.clone()).collect(), owners);
            let all = self.0.iter().map(|(name, _)| (id(name), Hold::Orphan)).collect();
            let mut leaving = LeavingOut::new(all, &self.losses(&Holds::new(), says_why), &live);
            let mut tried = 0;
            while let Some(fewer) = leaving.fewer() {
                tried += 1;
                let losses = self.losses(&fewer, says_why);
                leaving.take(&losses, losses.is_empty());
            }
            (leaving.into_holds().keys().map(|id| id.name.to_string()).collect(), tried)
        }
    }

    fn id(name: &str) -> ObjectId {
        ObjectId::new(GROUP, KIND, "flux-system", name)
    }

    #[test]
    fn settings_that_are_needed_each_for_itself_are_not_tried_one_by_one() {
        let names: Vec<String> = (10..34).map(|number| format!("app-{number}")).collect();
        let cluster = Cluster(names.iter().map(|name| (name.clone(), vec![])).collect());
        assert_eq!(cluster.leave_out(true), (names, 0));
    }

    #[test]
    fn settings_below_one_that_is_needed_are_left_out_together() {
        let cluster = Cluster::new(&[("a", &["root"]), ("b", &["root"]), ("c", &["a"]), ("other", &[]), ("root", &[])]);
        let (left, tried) = cluster.leave_out(true);
        assert_eq!(left, ["c", "other", "root"], "what holds `a` alone is gone with it");
        assert_eq!(tried, 3);
    }

    #[test]
    fn without_a_reason_halves_are_tried_until_each_setting_is_decided() {
        let cluster = Cluster::new(&[("a", &["d"]), ("b", &["d"]), ("c", &["d"]), ("d", &[]), ("e", &[])]);
        let (left, tried) = cluster.leave_out(false);
        assert_eq!(left, ["d", "e"]);
        assert!(tried <= 6, "{tried}");
    }
}
