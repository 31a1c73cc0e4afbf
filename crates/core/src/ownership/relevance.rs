//! Gaps that can change what is said about one object.
//!
//! A gap counts unless a rule shows that it cannot: what is not known may hide an owner.

use std::cell::RefCell;

use super::classify::{OwnershipStatus, listing_kinds};
use super::index::Index;
use super::resolve::ResolvedClaim;
use super::rules::system_objects;
use super::scheme::claim::Strength;
use super::schemes::registry::SCHEMES;
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{GroupKind, ObjectMetadata};

impl Index<'_> {
    /// Returns true if a gap can change the status of an object: it may hide an inventory that lists the object, an owner
    /// of one of its claims, the object that controls it, or an object that a rule of Kubernetes goes by.
    pub(crate) fn can_change_status(&self, object: &ObjectMetadata, gap: &Gap) -> bool {
        !gap.is_about_types(&self.snapshot.types)
            || self.hides_any(gap, SCHEMES.iter().flat_map(|scheme| listing_kinds(scheme)))
            || self.can_hide_owner(object, gap)
            || self.can_hide_controller(object, gap)
            || self.can_change_rule(object, gap)
    }

    fn hides_any<'k>(&self, gap: &Gap, kinds: impl IntoIterator<Item = (&'k str, &'k str)>) -> bool {
        kinds.into_iter().any(|(group, kind)| gap.hides(&GroupKind::new(group, kind), &self.snapshot.types))
    }

    /// Returns true if a gap may hide the owner of a claim of an object, or another object with the same label.
    fn can_hide_owner(&self, object: &ObjectMetadata, gap: &Gap) -> bool {
        let claims = self.all_resolved_claims(object, self.recorded_by(&object.id));
        claims.iter().any(|found| {
            let ResolvedClaim { claim, scheme } = found;
            // The labels of an object are copied if another one of any kind carries the same.
            if scheme.unique_label.is_some() && claim.strength != Strength::Bound {
                return true;
            }
            match self.owner(&claim.owner) {
                // Its owner was found by another scheme, whose owners were all read: see `listing_kinds`.
                Some(owner) if owner.scheme != *scheme => false,
                Some(_) => self.hides_any(gap, scheme.all_owner_kinds()),
                None => scheme.owners_of_any_kind || self.hides_any(gap, scheme.all_owner_kinds()),
            }
        })
    }

    fn can_hide_controller(&self, object: &ObjectMetadata, gap: &Gap) -> bool {
        object.controller_reference().is_some_and(|reference| {
            let is_hidden = self.hides_any(gap, [(&*reference.group, &*reference.kind)]);
            is_hidden && self.snapshot.referenced(object, reference).is_none()
        })
    }

    /// Returns true if a gap may hide an object by which a rule would call an unmanaged object one of Kubernetes.
    fn can_change_rule(&self, object: &ObjectMetadata, gap: &Gap) -> bool {
        if self.status(object) != OwnershipStatus::Unmanaged {
            return false;
        }
        let looked_for = RefCell::new(vec![]);
        system_objects::rule(object, |id| {
            looked_for.borrow_mut().push(id.group_kind());
            self.snapshot.object(id)
        });
        looked_for.into_inner().iter().any(|kind| gap.hides(kind, &self.snapshot.types))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::gap::GapKind;
    use crate::kubernetes::object::ResourceType;
    use crate::testing::{Build, gap, kustomization, object, resource_type, snapshot};

    fn types() -> Vec<ResourceType> {
        vec![
            resource_type("", "ConfigMap", "configmaps", true),
            resource_type("", "Secret", "secrets", true),
            resource_type("", "Service", "services", true),
            resource_type("apps", "Deployment", "deployments", true),
            resource_type("apps", "ReplicaSet", "replicasets", true),
            resource_type("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", true),
            resource_type("rbac.authorization.k8s.io", "Role", "roles", true),
        ]
    }

    /// Returns the subjects among these that can change the status of an object beside the Kustomization `apps`.
    fn relevant(object: &ObjectMetadata, others: Vec<ObjectMetadata>) -> Vec<&'static str> {
        const SUBJECTS: [&str; 10] = [
            "roles.rbac.authorization.k8s.io",
            "secrets",
            "services",
            "deployments.apps",
            "replicasets.apps",
            "configmaps",
            "kustomizations.kustomize.toolkit.fluxcd.io",
            "metrics.k8s.io/v1beta1",
            "helm.toolkit.fluxcd.io/v2",
            "something else",
        ];
        let owner = kustomization("apps", &["shop_web__ConfigMap"]);
        let mut objects = others;
        objects.extend([object.clone(), owner.object.clone()]);
        let mut snapshot = snapshot(objects, vec![owner]);
        snapshot.types = types();
        let index = Index::build(&snapshot);
        let object = snapshot.object(&object.id).unwrap();
        let is_relevant = |subject: &&str| index.can_change_status(object, &gap(GapKind::Forbidden, subject));
        SUBJECTS.into_iter().filter(is_relevant).collect()
    }

    /// Owners that list objects, and what is no type.
    const ALWAYS: [&str; 4] =
        ["configmaps", "kustomizations.kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io/v2", "something else"];

    fn with(more: &[&'static str]) -> Vec<&'static str> {
        more.iter().chain(&ALWAYS).copied().collect()
    }

    #[test]
    fn only_gaps_that_may_hide_an_owner_matter_to_an_object() {
        let web = || object("", "ConfigMap", "shop", "web");
        let cases = [
            ("no claim", web(), with(&[])),
            ("the claim of a live owner", web().of_kustomization("apps"), with(&[])),
            ("the claim of an owner that is not there", web().of_kustomization("gone"), with(&[])),
            (
                "the claim of a Helm release that is not there",
                object("", "ConfigMap", "shop", "web")
                    .label("app.kubernetes.io/managed-by", "Helm")
                    .annotation("meta.helm.sh/release-name", "web")
                    .annotation("meta.helm.sh/release-namespace", "shop"),
                with(&["secrets"]),
            ),
            ("a rule looks for its Service", object("", "Endpoints", "shop", "web"), with(&["services"])),
        ];
        for (name, object, expected) in cases {
            assert_eq!(relevant(&object, vec![]), expected, "{name}");
        }
    }

    #[test]
    fn every_gap_matters_to_an_applyset_that_was_not_found_and_to_a_mark_that_may_be_copied() {
        let applied = object("", "Service", "shop", "web").label("applyset.kubernetes.io/part-of", "applyset-x-v1");
        assert_eq!(relevant(&applied, vec![]).len(), 10);
        let marked = object("", "Service", "shop", "web").annotation("fluxcd.io/sync-checksum", "x");
        assert_eq!(relevant(&marked, vec![]), with(&[]), "no mark of Flux v1");
        let marked = object("", "Service", "shop", "web").label("fluxcd.io/sync-gc-mark", "sha256.x");
        assert_eq!(relevant(&marked, vec![]).len(), 10);
    }

    #[test]
    fn the_kind_of_a_controller_matters() {
        let deployment = object("apps", "Deployment", "shop", "web");
        let mut set = object("apps", "ReplicaSet", "shop", "web-1").controlled_by(&deployment.uid);
        set.owner_references[0].group = "apps".into();
        set.owner_references[0].kind = "Deployment".into();
        set.owner_references[0].name = "web".into();
        assert!(relevant(&set, vec![]).contains(&"deployments.apps"));
        assert!(!relevant(&set, vec![]).contains(&"roles.rbac.authorization.k8s.io"));
    }
}
