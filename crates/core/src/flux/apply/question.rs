//! Questions to the API server: the changes of objects that controllers would send. Dry-runs answer them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::AppliedObject;
use super::cause::{Cause, without_denial, without_values};
use super::dry_run::DryRunResult;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::helm_controller;
use crate::flux::kustomize_controller;
use crate::flux::spec::{KustomizationSpec, NamespacedName, named_account};
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::{flux_kustomization, flux_operator};
use crate::text::sha256;

/// Name of the controller of HelmReleases.
pub(crate) const HELM_CONTROLLER: &str = helm_controller::NAME;

/// Name of the program with the controllers of Kubernetes.
pub const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// A change of one object that a controller would send on behalf of an owner.
#[derive(Clone, Debug)]
pub struct Question {
    /// Owner that causes the change.
    pub owner: ObjectId,
    /// Controller that sends it, which is also its field manager.
    pub controller: &'static str,
    /// Service account in the namespace of the owner; `None` for the account that the controller uses by default.
    pub service_account: Option<String>,
    /// Identity of the object in the cluster.
    pub id: ObjectId,
    pub request: Request,
    /// The object can hold values of Secrets, so that no message of the server about it is shown.
    pub is_private: bool,
    /// An admission rule looks at who asks, so that only the answer to the account itself counts.
    asks_for_user: bool,
    key: QuestionKey,
}

/// Request of a controller.
#[derive(Clone, Debug)]
pub enum Request {
    /// kustomize-controller applies an object of a build.
    ApplyBuilt(Box<AppliedObject>),
    /// kustomize-controller applies an object of a build, once the live one is gone.
    Create(Box<AppliedObject>),
    /// Another controller applies this manifest.
    Apply {
        manifest: Value,
        /// It takes over fields of other managers, instead of failing with a conflict.
        forces: bool,
    },
    /// Helm creates the Secret in which it records a release. It is asked about without data.
    Record(Value),
    Delete,
    /// A template looks the object up; without a name, all objects of its kind.
    Read,
}

/// Everything that the answer to a question depends on: owner, object, and the run of the owner that makes the change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuestionKey {
    owner: ObjectId,
    id: ObjectId,
    /// Hash of controller, service account, privacy, fields of the spec and manifest.
    run: String,
}

/// Answer of the API server to a question.
#[derive(Clone, Debug)]
pub enum DryRunAnswer {
    /// The controller gets the same answer.
    Result(DryRunResult),
    /// There is no answer, or it says nothing about the controller. The subject of the gap names the resource.
    Missing(Gap),
}

impl Question {
    fn new(
        owner: ObjectId,
        controller: &'static str,
        service_account: Option<&str>,
        id: &ObjectId,
        request: Request,
        is_private: bool,
    ) -> Self {
        let mut run = format!("{controller} {service_account:?} {is_private} ");
        let written = match &request {
            Request::ApplyBuilt(applied) => write!(run, "{}", written(applied)),
            Request::Create(applied) => write!(run, "create {}", written(applied)),
            Request::Apply { manifest, forces } => write!(run, "{forces} {manifest}"),
            Request::Record(manifest) => write!(run, "record {manifest}"),
            Request::Delete => Ok(()),
            Request::Read => write!(run, "read"),
        };
        written.expect("a String takes every text");
        let key = QuestionKey { owner: owner.clone(), id: id.clone(), run: sha256(run.as_bytes()) };
        let (id, service_account) = (id.clone(), service_account.map(str::to_owned));
        Self { owner, controller, service_account, id, request, is_private, asks_for_user: false, key }
    }

    /// Returns the question about an apply by kustomize-controller.
    pub(crate) fn of_apply(applied: AppliedObject, flags: &ControllerFlags) -> Self {
        Self::of_built(applied, flags, Request::ApplyBuilt)
    }

    /// Returns the question about the creation of an object whose live one is deleted before.
    pub(crate) fn of_creation(applied: AppliedObject, flags: &ControllerFlags) -> Self {
        Self::of_built(applied, flags, Request::Create)
    }

    fn of_built(applied: AppliedObject, flags: &ControllerFlags, request: fn(Box<AppliedObject>) -> Request) -> Self {
        let (owner, id) = (kustomization(&applied.owner), applied.id.clone());
        let account = flags.service_account(&applied.spec).map(str::to_owned);
        let is_private = applied.built.masked.is_some() || applied.live_is_private;
        let request = request(Box::new(applied));
        Self::new(owner, kustomize_controller::NAME, account.as_deref(), &id, request, is_private)
    }

    /// Returns the question about a deletion by kustomize-controller, for a Kustomization that then has this spec.
    pub(crate) fn of_deletion(
        owner: &NamespacedName,
        spec: &KustomizationSpec,
        id: &ObjectId,
        flags: &ControllerFlags,
    ) -> Self {
        let account = flags.service_account(spec);
        Self::new(kustomization(owner), kustomize_controller::NAME, account, id, Request::Delete, false)
    }

    /// Returns the question about a change by the controller of a HelmRelease or a ResourceSet with this spec.
    pub(crate) fn of_owner(owner: &ObjectId, spec: &Value, id: &ObjectId, request: Request, is_private: bool) -> Self {
        let is_of_operator = &*owner.group == flux_operator::GROUP;
        let controller = if is_of_operator { flux_operator::NAME } else { HELM_CONTROLLER };
        let account = named_account(spec);
        Self::new(owner.clone(), controller, account, id, request, is_private || id.is("", "Secret"))
    }

    /// Returns the question about the Secret in which Helm records a release for a HelmRelease with this spec. It has
    /// no data, so that the message of the server quotes none.
    pub(crate) fn of_record(owner: &ObjectId, spec: &Value, id: &ObjectId) -> Self {
        let manifest = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": id.name, "namespace": id.namespace}});
        Self::new(owner.clone(), HELM_CONTROLLER, named_account(spec), id, Request::Record(manifest), false)
    }

    /// Returns the question about a deletion by a controller of Kubernetes, which has a service account of its own or
    /// is the user of kube-controller-manager.
    pub(crate) fn of_kubernetes(user: &ObjectId, id: &ObjectId, asks_for_user: bool) -> Self {
        let account = Some(&*user.name).filter(|_| !user.namespace.is_empty());
        let is_private = id.is("", "Secret");
        let own = Self::new(user.clone(), KUBE_CONTROLLER_MANAGER, account, id, Request::Delete, is_private);
        Self { asks_for_user, ..own }
    }

    /// Returns the same question about an object whose live content can hold values of Secrets: no message about it and
    /// nothing of its content is shown.
    pub(crate) fn about_private(self) -> Self {
        let Self { owner, controller, service_account, id, mut request, asks_for_user, .. } = self;
        if let Request::ApplyBuilt(applied) | Request::Create(applied) = &mut request {
            applied.live_is_private = true;
        }
        let private = Self::new(owner, controller, service_account.as_deref(), &id, request, true);
        Self { asks_for_user, ..private }
    }

    /// Returns true if nothing of the live content is shown.
    pub(crate) fn hides_live_content(&self) -> bool {
        match &self.request {
            Request::ApplyBuilt(applied) | Request::Create(applied) => applied.live_is_private,
            Request::Apply { .. } | Request::Record(_) | Request::Delete | Request::Read => self.is_private,
        }
    }

    /// Returns the key: questions with equal keys have equal answers, until something changes in the cluster.
    pub(crate) fn key(&self) -> &QuestionKey {
        &self.key
    }

    /// Returns true if the words of policies and webhooks about the object can quote values of Secrets.
    pub fn hides_denials(&self) -> bool {
        self.is_private || self.id.is("", "Secret")
    }

    /// Returns an answer without what the server's message can quote of Secrets.
    pub(crate) fn without_secrets(&self, answer: DryRunAnswer) -> DryRunAnswer {
        if self.is_private {
            answer.map_message(without_values)
        } else if self.hides_denials() {
            answer.map_message(|message| without_denial(message).into_owned())
        } else {
            answer
        }
    }

    /// Returns false if a controller of Kubernetes can get another answer than somebody else: a rule looks at who asks,
    /// or a webhook refuses it, which may do so.
    pub fn is_answered_to_anybody(&self, result: &DryRunResult) -> bool {
        let is_by_webhook = matches!(result, DryRunResult::Refused(message) if Cause::of(message) == Cause::Webhook);
        self.controller != KUBE_CONTROLLER_MANAGER || !(self.asks_for_user || is_by_webhook)
    }

    /// Returns true if a Kustomization causes the change.
    pub fn is_of_kustomization(&self) -> bool {
        self.controller == kustomize_controller::NAME
    }
}

/// Returns what the answer about an apply depends on, as text.
fn written(AppliedObject { spec, built, live_is_private, .. }: &AppliedObject) -> String {
    format!("{:?} {live_is_private} {}", spec.apply_fields(), built.manifest)
}

fn kustomization(key: &NamespacedName) -> ObjectId {
    ObjectId::new(flux_kustomization::GROUP, flux_kustomization::KIND, &key.namespace, &key.name)
}

impl DryRunAnswer {
    /// Changes the message of the server.
    #[must_use]
    fn map_message(self, map: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Result(result) => Self::Result(result.map_message(map)),
            Self::Missing(gap) => Self::Missing(Gap { message: map(&gap.message), ..gap }),
        }
    }
}
