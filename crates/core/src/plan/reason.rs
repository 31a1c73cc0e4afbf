//! Reasons in a plan: a stable code for programs and a detail for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares the codes with their meaning, so that the documentation, the man page and the type cannot differ.
macro_rules! reason_codes {
    ($($code:ident => $meaning:literal,)*) => {
        /// Code of a reason; part of the contract of `kubectl-gitops/plan/v1`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum ReasonCode {
            $(#[doc = $meaning] $code,)*
        }

        impl ReasonCode {
            /// Every code with its meaning, in the order of the documentation.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$code, $meaning),)*];
        }
    };
}

reason_codes! {
    // Owners.
    Ready => "The owner is ready; the plan does not change it.",
    NotReady => "The owner is not ready.",
    Suspended => "The owner is suspended, so its controller does nothing.",
    Reconciling => "The owner is being reconciled.",
    ChangedDuringRead => "The owner changed while the cluster was being read.",
    Terminating => "The object is being deleted already.",
    NewRevision => "The owner applies the new revision.",
    NewSource => "The owner gets a new source.",
    OtherSource => "The source of the owner is not part of the planned tree.",
    OtherCluster => "The owner applies to another cluster.",
    NotBuilt => "The owner is not built yet.",
    Encrypted => "The build holds encrypted objects whose content cannot be compared.",
    InventoryUnreadable => "The inventory of the owner cannot be read; its controller replaces it and deletes nothing.",
    NameTooLong => "The name of the owner is too long for a label value.",
    AccessDenied => "The controller's flags do not let the owner use its source or its service account.",
    NotWatched => "The controller's label selector does not select the owner, so nothing reconciles it.",
    ContainerDeleted => "A namespace or a definition that the owner needs is deleted by this change.",
    ContainerTerminating => "A namespace or a definition that the owner needs is being deleted, and nothing in it is applied until it is gone.",
    KeysMissing => "The Secret with the owner's keys for decryption does not exist, so its build fails.",
    KubeConfigMissing => "The object with the kubeconfig of the owner's cluster does not exist, so its controller does nothing.",
    ExpressionInvalid => "An expression of the owner (readyExpr, healthCheckExprs, a target in ignore) is not valid, so its controller stops.",
    DependencyMissing => "A dependency of the owner does not exist.",
    DependencyDeleted => "A dependency of the owner is deleted by this change.",
    DependencyCycle => "The owner and a dependency depend on each other.",
    DependencyNotReady => "A dependency of the owner is not ready or cannot reconcile.",
    SourceMissing => "The source of the owner does not exist, so its controller does nothing.",
    PathNotFound => "The path of the owner, or one that its source checks out, does not exist in the new revision.",
    BuildFailed => "The build of the owner fails.",
    OtherKustomize => "The build fails here with another kustomize than the controller links, so its result is not known.",
    BuildCrashed => "The kustomize program crashed or was killed, so the result of the build is not known.",
    BuildTimeout => "The build did not finish in time here, so its result is not known.",
    BuildInterrupted => "The build failed here for a reason that the controller need not have, so its result is not known.",
    RemoteBase => "The build needs a remote base, which is fetched only with --allow-remote-bases.",
    FetchFailed => "The build with a remote base failed here, so its result is not known.",
    ReferenceRefused => "The build has a reference that is not safe to read here, so its result is not known.",
    ManifestUnreadable => "A kustomization file or manifest cannot be read here, so the result of the build is not known.",
    SpecNotRecorded => "The snapshot lacks values of the owner's spec, so the result of the build is not known.",
    VariablesUnreadable => "A ConfigMap or Secret with variables cannot be read here, so the result of the build is not known.",
    SecretNotRead => "The tree names a Secret that no live Kustomization uses; it is not read, so the result of the build is not known.",
    SecretInSpec => "The new spec of the owner holds values of a Secret, which are not shown, so its result is not known.",
    LimitExceeded => "A limit of this tool is exceeded (docs/limits.md), so the result of the build is not known.",
    DependencyUnknown => "The build of a dependency is not known, so it is not known if the owner applies.",
    NotFollowed => "The change affects what the owner deploys, and the effect is not computed: any of its objects may be deleted.",
    ArtifactsGenerated => "The sources or the rules of the ArtifactGenerator change, so source-watcher makes its artifacts anew.",
    ResourcesGenerated => "The ResourceSet, its inputs or the FluxInstance change, so flux-operator generates its resources anew.",
    ReleaseInstalled => "The HelmRelease has no release yet, so helm-controller installs it.",
    ReleaseUpgraded => "The chart or the values of the HelmRelease change, so helm-controller upgrades its release.",
    RenderFails => "The chart of the HelmRelease cannot be rendered with its values, so helm-controller changes nothing.",
    ValuesMissing => "A ConfigMap, a Secret or a key with values of the HelmRelease does not exist, so its controller does nothing.",
    RecordUnusable => "Helm cannot read its records of the release, or one of that name is in the way of the next, so its controller does nothing.",
    NotRecorded => "The owner is deleted, and what its controller deletes is not known.",
    ParentUnknown => "The build of a parent is not known; the parent may change or delete the owner.",
    ApplyRefused => "The API server refuses an object of the owner, so the controller applies and prunes nothing more.",
    MayBeRefused => "The API server refuses an object of the owner until something else changes, or accepts it only until then.",
    PruneRefused => "The API server refuses to delete an object that the owner prunes, so the owner does not become ready.",
    OwnerDeletedWithObjects => "The owner is deleted together with the objects in its inventory.",
    OwnerDeletedAlone => "The owner is deleted and leaves its objects behind.",
    OwnerDeletedUncertain => "The owner is deleted; the order of events decides if its objects are deleted too.",
    OwnerStuck => "The owner is deleted and stays terminating, because one of its objects cannot be deleted.",
    // Deleted, recreated, created and updated objects.
    NotInBuild => "The build of the owner no longer contains the object.",
    OwnerDeleted => "The owner is deleted and deletes the objects in its inventory.",
    Moved => "Another owner applies the object after this one has pruned it.",
    ChangedSpec => "The new revision is first reconciled with the old spec of the owner.",
    ChangedVariables => "The new revision is first reconciled with the old variables of the owner.",
    InBuild => "The build of the owner contains the object.",
    Generated => "The ResourceSet generates the object, so flux-operator creates it.",
    InChart => "The chart of the HelmRelease renders the object, so helm-controller creates it.",
    Changed => "The manifest of the object changes.",
    Drift => "The object differs from its manifest, although the manifest does not change.",
    TakenOver => "The controller takes over fields that kubectl set.",
    Forced => "A field is immutable and the owner sets force, so the object is deleted and created again.",
    Refused => "The API server refuses the change.",
    Renamed => "The name of the object contains a hash of its content, which changes.",
    HashUnknown => "The name contains a hash of encrypted content, which cannot be computed here.",
    Unread => "Objects of this type could not be read, so it is not known what happens to the object.",
    IdentityUnknown => "The kind, namespace or name of the object is encrypted.",
    DeletedByHand => "A step of the list deletes the object by hand.",
    // Cascading deletion.
    InNamespace => "The namespace of the object is deleted.",
    CustomResource => "The definition of the custom resource is deleted.",
    Token => "It is a token of a ServiceAccount that is deleted, or it gets the name of another one, and the token controller deletes it.",
    Dependent => "The garbage collector deletes the object, because every owner it references is deleted.",
    Uninstalled => "The HelmRelease is deleted, so helm-controller uninstalls its release.",
    ReleaseReplaced => "The target of a HelmRelease changes, so helm-controller uninstalls its release and installs another one.",
    NotInChart => "The chart of a HelmRelease no longer renders the object, so helm-controller deletes it in an upgrade.",
    Hook => "The object is a hook of a chart, or has the name of one: Helm deletes it before it creates the hook, or after.",
    OldRecord => "Helm keeps the records of the last revisions of a release only (maxHistory), so an upgrade deletes this one.",
    Remedied => "The install or upgrade of a release fails, and the remedy of helm-controller deletes the object.",
    ScaledDown => "The StatefulSet shrinks, and its persistentVolumeClaimRetentionPolicy deletes the claim.",
    FailedJob => "The Job has failed and has the annotation recreateOnFailure, so flux-operator creates it anew.",
    NotGenerated => "The ArtifactGenerator or ResourceSet no longer generates the object, so its controller deletes it.",
    Reclaimed => "The claim of the volume is deleted and its reclaim policy is Delete.",
    Released => "The volume is being deleted already and only its claim holds it; its data remains.",
    ReclaimFailed => "The reclaim policy is Delete, but nothing deletes volumes of this type; its data remains.",
    Retained => "The claim of the volume is deleted and its reclaim policy is Retain.",
    Recycled => "The claim of the volume is deleted and its reclaim policy is Recycle.",
    // Objects without a live owner.
    Leaked => "The object carries the claim of a live owner whose inventory does not list it.",
    Orphaned => "The object carries the claim of an owner that does not exist in this cluster.",
    // Objects that are kept.
    HandedOver => "Another owner applies the object before this one prunes it.",
    LeftBehind => "Nothing will ever delete the object.",
    DeletionRefused => "The API server refuses the deletion.",
    HeldBack => "The object is deleted once the failure of its owner is resolved.",
    BareClaim => "Only a label or annotation names the owner, and the owner did not write it.",
    CopiedClaim => "The label or annotation names another object: it was copied.",
    Referenced => "Something in the cluster created the object: it has an owner reference.",
    Protected => "A label or annotation protects the object from being pruned.",
    Recorded => "The inventory of a live owner lists the object.",
    OwnerUntrusted => "The record of the owner cannot be trusted now.",
    OwnerElsewhere => "No owner of this system is in this cluster, so owners may be in another cluster.",
    ProtectedNamespace => "This namespace is never deleted.",
    NotAllowed => "Objects of this kind are deleted only when that is allowed.",
    Cascade => "Deleting the object would delete something that must stay.",
    // Objects that are skipped while a plan is executed.
    NotRead => "The object, its owners or its content could not be read again before the deletion.",
    Replaced => "Another object took the name after the plan was made.",
    Unclaimed => "No owner claims the object any more.",
    OwnerChanged => "The owner of the object appeared, disappeared or is another one since the plan was made.",
    ChangedSincePlan => "The object, its evidence or its cascade changed after the plan file was written.",
    Unsettled => "The object changed during every attempt to delete it.",
    // Collectors of qbec, Flux v1 and ApplySets.
    NotInManifests => "The object carries the labels of the set and is in no manifest.",
    Superseded => "A newer object of the same generateName exists.",
    NewestGeneration => "The newest object of its generateName.",
    Desired => "The manifests contain the object, although its own collector overlooks that.",
    Endpoints => "Endpoints follow their Service.",
    Relabelled => "The object gets the label of the new source.",
    Spared => "The object is in no new manifest, but the rules of fluxd keep it.",
    NotApplied => "An ignore annotation in the cluster keeps fluxd from applying the object.",
    Created => "The object is in the new manifests and not in the cluster.",
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A reason: a code, a detail in plain English, and the conditions of a race. The texts are empty where the code says
/// everything; they can hold text written by others, so they must be escaped before they are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "ReasonDocument", into = "ReasonDocument")]
pub struct Reason {
    /// Stable code for programs.
    pub code: ReasonCode,
    /// Explanation in plain English; can be empty.
    pub detail: String,
    /// Remarks on an effect that is not known: which objects are at stake, and the command that finds out.
    pub remarks: Vec<String>,
    /// What a race depends on, one clause each. Empty for what happens in every order of events.
    pub conditions: Vec<String>,
}

/// A reason: a code, a detail in plain English, and the conditions of a race. Escape the texts before you show them.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Reason"))]
#[serde(deny_unknown_fields)]
struct ReasonDocument {
    /// Stable code for programs.
    code: ReasonCode,
    /// Explanation in plain English, with the remarks, and the conditions as `race: CONDITION`; can be empty.
    detail: String,
    /// Remarks on an effect that is not known: which objects are at stake, and the command that finds out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    /// What a race depends on, one clause each. Empty for what happens in every order of events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<String>,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Reason {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        ReasonDocument::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ReasonDocument::json_schema(generator)
    }
}

impl From<Reason> for ReasonDocument {
    fn from(reason: Reason) -> Self {
        Self { code: reason.code, detail: reason.text(), remarks: reason.remarks, conditions: reason.conditions }
    }
}

impl From<ReasonDocument> for Reason {
    fn from(document: ReasonDocument) -> Self {
        let ReasonDocument { code, detail, remarks, conditions } = document;
        let others = Self { code, detail: String::new(), remarks, conditions };
        let own = detail.strip_suffix(&others.text()).map(|own| own.strip_suffix("; ").unwrap_or(own).to_owned());
        Self { detail: own.unwrap_or(detail), ..others }
    }
}

impl Reason {
    pub fn new(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), remarks: vec![], conditions: vec![] }
    }

    /// Returns this reason with a condition.
    pub(crate) fn on_condition(mut self, condition: impl Into<String>) -> Self {
        self.conditions.push(condition.into());
        self
    }

    /// Returns detail, remarks and conditions as one text: `DETAIL; REMARK; race: CONDITION; …`. It can be empty.
    pub fn text(&self) -> String {
        let detail = Some(self.detail.clone()).filter(|detail| !detail.is_empty());
        let conditions = self.conditions.iter().map(|condition| format!("race: {condition}"));
        detail.into_iter().chain(self.remarks.iter().cloned()).chain(conditions).collect::<Vec<_>>().join("; ")
    }

    /// Returns the detail, or the code if there is none.
    pub(crate) fn detail_or_code(&self) -> String {
        if self.detail.is_empty() { self.code.to_string() } else { self.detail.clone() }
    }

    /// Returns the reason with its texts replaced, such as by masked ones.
    pub fn with_texts(&self, replace: impl Fn(&str) -> String) -> Self {
        let [remarks, conditions] =
            [&self.remarks, &self.conditions].map(|texts| texts.iter().map(|text| replace(text)).collect());
        Self { code: self.code, detail: replace(&self.detail), remarks, conditions }
    }

    /// Adds a further clause to the detail.
    pub(crate) fn add_detail(&mut self, clause: &str) {
        if !self.detail.is_empty() {
            self.detail.push_str("; ");
        }
        self.detail.push_str(clause);
    }

    /// Adds what would be at stake.
    pub(crate) fn add_stakes(&mut self, stakes: &str) {
        self.remarks.push(format!("would be at stake: {stakes}"));
    }
}

impl From<ReasonCode> for Reason {
    fn from(code: ReasonCode) -> Self {
        Self::new(code, "")
    }
}

impl fmt::Display for Reason {
    /// Writes `code` or `code: text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        match self.text() {
            text if text.is_empty() => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_of_a_document_has_the_remarks_and_the_conditions() {
        let plain = Reason::new(ReasonCode::NotInBuild, "");
        let raced = Reason::new(ReasonCode::NotInBuild, "gone").on_condition("a").on_condition("b");
        let bare = Reason::new(ReasonCode::NotInBuild, "").on_condition("a");
        let mut grave = Reason::new(ReasonCode::NotFollowed, "it changes");
        grave.add_stakes("1 object");
        for (reason, detail) in [
            (plain, ""),
            (raced, "gone; race: a; race: b"),
            (bare, "race: a"),
            (grave, "it changes; would be at stake: 1 object"),
        ] {
            let document = serde_json::to_value(&reason).unwrap();
            assert_eq!(document["detail"], detail);
            assert_eq!(serde_json::from_value::<Reason>(document).unwrap(), reason);
        }
    }

    #[test]
    fn every_code_is_kebab_case_in_json_and_on_screen() {
        assert_eq!(ReasonCode::NotInBuild.to_string(), "not-in-build");
        for (code, meaning) in ReasonCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.to_string());
            assert!(meaning.ends_with('.'), "{code}");
        }
    }
}
