//! The author of a suspension, and the suspensions that `resume` ends.
//!
//! `suspend` records nothing of its own for this. The API server does: the entry of [`FIELD_MANAGER`] in managedFields owns
//! exactly what `suspend` set. What was set before, and what somebody changes later, belongs to another entry.
//! Source: docs/reference/flux.md 4.3.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{
    ANNOTATION, FIELD_MANAGER, LINK, Mechanism, Suspension, declaring_controller, effective, is_expired, is_message,
    owns_suspension,
};
use crate::kubernetes::object::Resource;

/// Returns true if `suspend` set this part of a suspension, and no controller applies the part from Git.
pub(crate) fn is_own_part(full: &Resource, part: Mechanism) -> bool {
    let mut entries = full.object.managed_fields.iter();
    let is_owner = entries.any(|entry| &*entry.manager == FIELD_MANAGER && owns_suspension(entry, full, part));
    is_owner && declaring_controller(full, part).is_none()
}

/// Returns true if `spec.suspend` is true and was not set by `suspend`: `resume` clears it only with `--spec`.
pub fn is_spec_of_others(full: &Resource) -> bool {
    full.flag("/spec/suspend") && !is_own_part(full, Mechanism::Spec)
}

/// Returns true if an object is suspended and `suspend` set its message. Without a message, whoever set what suspends the
/// object counts.
pub fn is_own(full: &Resource) -> bool {
    let has_message = full.object.annotations.get(ANNOTATION).is_some();
    effective(full).is_some_and(|by| is_own_part(full, if has_message { Mechanism::Annotation } else { by }))
}

/// Options of `resume` that choose among suspensions.
#[derive(Clone, Debug, Default)]
pub struct ResumeOptions {
    /// True if the user named the objects.
    pub named: bool,
    /// True to end the suspensions of others too.
    pub any: bool,
    /// True to clear `spec.suspend` of an object that is named, or selected with `any`, whoever set it.
    pub spec: bool,
    /// Message of the suspensions to end.
    pub message: Option<String>,
    /// Link of the suspensions to end.
    pub link: Option<String>,
    /// Time at which the suspensions to end must be over.
    pub expired_at: Option<DateTime<Utc>>,
}

/// Suspensions with one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspensionGroup<'a> {
    /// `None` for suspensions without a message.
    pub message: Option<&'a str>,
    pub count: usize,
    /// Users who suspended the objects, or field managers where no user is recorded.
    pub by: Vec<&'a str>,
}

impl ResumeOptions {
    /// Returns true if the user said which suspensions to end.
    fn is_choice(&self) -> bool {
        self.named || self.any || self.message.is_some() || self.link.is_some() || self.expired_at.is_some()
    }

    /// Returns true if `resume` ends the suspension of an object, or if there is none to end.
    pub fn includes(&self, full: &Resource) -> bool {
        if self.expired_at.is_some_and(|now| !is_expired(full, now)) {
            return false;
        }
        if effective(full).is_none() {
            return true;
        }
        let annotations = &full.object.annotations;
        let has_message = self.message.as_deref().is_none_or(|wanted| wanted_message(wanted) == message_of(full));
        let has_link = self.link.as_deref().is_none_or(|wanted| annotations.get(LINK) == Some(wanted));
        has_message && has_link && (self.is_choice() || is_own(full))
    }

    /// Returns true if `resume` clears `spec.suspend` also where somebody else set it.
    pub fn clears_spec_of_others(&self) -> bool {
        self.spec && (self.named || self.any)
    }

    /// Returns true if `resume` clears `spec.suspend`: always if `suspend` set it.
    pub(super) fn clears_spec(&self, full: &Resource) -> bool {
        full.flag("/spec/suspend") && (self.clears_spec_of_others() || !is_spec_of_others(full))
    }

    /// Returns true if `resume` removes the switch of the kind: always if `suspend` set it.
    pub(super) fn removes_switch(&self, full: &Resource) -> bool {
        self.named || self.any || is_own_part(full, Mechanism::Switch)
    }

    /// Returns the messages among which the user has to choose: none unless objects are selected without a choice and
    /// their suspensions have several messages.
    pub fn open_choice<'a>(&self, objects: &[&'a Resource]) -> Vec<SuspensionGroup<'a>> {
        let groups = groups_by_message(objects);
        if self.is_choice() || groups.len() < 2 { vec![] } else { groups }
    }
}

/// Returns the message that a user means: `true` stands for a suspension without one, as in the annotation.
fn wanted_message(text: &str) -> Option<&str> {
    Some(text).filter(|text| is_message(text))
}

fn message_of(full: &Resource) -> Option<&str> {
    full.object.annotations.get(ANNOTATION).and_then(wanted_message)
}

fn groups_by_message<'a>(objects: &[&'a Resource]) -> Vec<SuspensionGroup<'a>> {
    let mut groups: BTreeMap<Option<&str>, SuspensionGroup<'a>> = BTreeMap::new();
    for full in objects {
        let Some(suspension) = Suspension::of(full) else { continue };
        let group = groups.entry(suspension.message).or_default();
        group.message = suspension.message;
        group.count += 1;
        let by = suspension.user.or(suspension.manager).filter(|by| !group.by.contains(by));
        group.by.extend(by);
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flux::suspension::{SUSPENDED_BY, UNTIL};
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::testing::{flux_object, noon, owner_of};

    const SWITCH: &str = "fluxcd.controlplane.io/reconcile";

    fn on() -> Value {
        json!({"spec": {"suspend": true}})
    }

    /// Returns an object whose annotation and `spec.suspend` were set by these managers.
    fn suspended(message: Option<(&str, &str)>, spec: Option<&str>) -> Resource {
        let content = spec.map_or(json!({}), |_| on());
        let annotations: Vec<_> = message.iter().map(|(text, _)| (ANNOTATION, *text)).collect();
        let mut full = flux_object("Kustomization", content, &annotations);
        full.object.managed_fields.extend(message.map(|(_, manager)| owner_of(manager, false, 0, &[ANNOTATION])));
        let spec = spec.map(|manager| ManagedFieldsEntry { suspend: true, ..owner_of(manager, false, 0, &[]) });
        full.object.managed_fields.extend(spec);
        full
    }

    #[test]
    fn the_message_decides_whose_suspension_it_is() {
        let ours = FIELD_MANAGER;
        for (name, full, expected) in [
            ("not suspended", suspended(None, None), false),
            ("our annotation", suspended(Some(("drill", ours)), None), true),
            ("our annotation and field", suspended(Some(("drill", ours)), Some(ours)), true),
            ("our field alone", suspended(None, Some(ours)), true),
            ("the field of the flux command", suspended(None, Some("flux")), false),
            ("our annotation beside the field of others", suspended(Some(("drill", ours)), Some("flux")), true),
            ("the message of others on our field", suspended(Some(("mine", "kubectl-annotate")), Some(ours)), false),
            ("nobody is recorded", flux_object("Kustomization", on(), &[]), false),
        ] {
            assert_eq!(is_own(&full), expected, "{name}");
            let of_others = name.contains("the field of") || name == "nobody is recorded";
            assert_eq!(is_spec_of_others(&full), of_others, "{name}");
        }
        let mut declared = suspended(Some(("drill", ours)), Some(ours));
        let manifest = ManagedFieldsEntry { suspend: true, ..owner_of("kustomize-controller", true, 9, &[]) };
        declared.object.managed_fields.push(manifest);
        assert!(is_own(&declared) && !is_own_part(&declared, Mechanism::Spec), "Git has the field, not the message");
        let mut switch = flux_object("ResourceSet", json!({}), &[(SWITCH, "disabled")]);
        switch.object.managed_fields = vec![owner_of("flux-operator-ui", false, 0, &[SWITCH])];
        assert!(!is_own(&switch));
        switch.object.managed_fields = vec![owner_of(ours, false, 0, &[SWITCH])];
        assert!(is_own(&switch));
    }

    #[test]
    fn a_selection_leaves_alone_what_others_suspended_unless_it_says_more() {
        let ours = suspended(Some(("INC-1", FIELD_MANAGER)), Some(FIELD_MANAGER));
        let foreign = suspended(None, Some("flux"));
        let theirs = suspended(Some(("INC-1", "kubectl-annotate")), None);
        let plain = ResumeOptions::default();
        let message = |text: &str| ResumeOptions { message: Some(text.to_owned()), ..ResumeOptions::default() };
        for (name, options, expected) in [
            ("all", plain.clone(), [true, false, false]),
            ("all with --spec", ResumeOptions { spec: true, ..plain.clone() }, [true, false, false]),
            ("a message", message("INC-1"), [true, false, true]),
            ("another message", message("INC-2"), [false, false, false]),
            ("no message", message("true"), [false, true, false]),
            ("a link", ResumeOptions { link: Some("https://inc/1".to_owned()), ..plain.clone() }, [false; 3]),
            ("any", ResumeOptions { any: true, ..plain.clone() }, [true; 3]),
            ("names", ResumeOptions { named: true, ..plain.clone() }, [true; 3]),
            ("expired", ResumeOptions { expired_at: Some(noon()), ..plain.clone() }, [false; 3]),
        ] {
            assert_eq!([&ours, &foreign, &theirs].map(|full| options.includes(full)), expected, "{name}");
        }
        assert!(plain.includes(&flux_object("Kustomization", json!({}), &[])), "nothing to end");
        let over = flux_object("Alert", on(), &[(UNTIL, "2020-01-01T00:00:00Z"), (LINK, "https://inc/1")]);
        assert!(ResumeOptions { expired_at: Some(noon()), ..plain.clone() }.includes(&over));
        assert!(ResumeOptions { link: Some("https://inc/1".to_owned()), ..plain }.includes(&over));
    }

    #[test]
    fn several_messages_are_a_choice_of_the_user() {
        let mut first = suspended(Some(("INC-1", FIELD_MANAGER)), None);
        first.object.annotations = [(ANNOTATION, "INC-1"), (SUSPENDED_BY, "ada")].into_iter().collect();
        let second = suspended(Some(("true", FIELD_MANAGER)), None);
        let free = flux_object("Kustomization", json!({}), &[]);
        let objects = [&first, &first, &second, &free];
        let all = ResumeOptions::default();
        let groups = all.open_choice(&objects);
        let expected = [
            SuspensionGroup { message: None, count: 1, by: vec![FIELD_MANAGER] },
            SuspensionGroup { message: Some("INC-1"), count: 2, by: vec!["ada"] },
        ];
        assert_eq!(groups, expected);
        assert_eq!(all.open_choice(&objects[..2]), [], "one message");
        assert_eq!(ResumeOptions { any: true, ..all }.open_choice(&objects), []);
    }
}
