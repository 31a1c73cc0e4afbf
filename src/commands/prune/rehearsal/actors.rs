//! Users of the dry-runs: the service account of an owner or of its controller, where the user may impersonate it,
//! and otherwise the user, with SubjectAccessReviews for the rights of that service account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::cluster::read::access::{is_account_allowed, is_allowed, user_name};
use crate::cluster::{Cluster, Failure};
use gitops_core::flux::spec::NamespacedName;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

/// The user as which a controller applies if no service account is set.
pub(in crate::commands::prune) enum ControllerUser {
    /// The service account of its Deployment.
    Account(NamespacedName),
    /// There is no Deployment with a service account: the controller runs elsewhere, and the user stands in for it.
    NotInCluster,
    /// The Deployment cannot be read.
    Unreadable(Failure),
}

impl ControllerUser {
    /// Returns true if the controller has a Deployment in the cluster.
    pub(in crate::commands::prune) fn is_in_cluster(&self) -> bool {
        !matches!(self, Self::NotInCluster)
    }
}

/// Facts that decide as whom a controller applies for an owner.
#[derive(Clone, Copy)]
pub(super) struct Applier<'a> {
    /// Namespace of the owner.
    pub(super) namespace: &'a str,
    /// Service account in that namespace; `None` for the account of the controller.
    pub(super) service_account: Option<&'a str>,
}

/// Subject of the rights for the changes of one owner.
#[derive(Clone)]
pub(super) struct Subject {
    /// Connection that sends the dry-runs.
    pub(super) cluster: Cluster,
    /// Service account whose rights count; `None` if it is not known.
    pub(super) account: Option<NamespacedName>,
    /// The connection has the rights of the account.
    pub(super) is_account: bool,
}

/// Key of one right: account, verb, resource, namespace, and name.
type Right = (NamespacedName, &'static str, String, String, Option<String>);

/// Answer to an access review, asked for once.
type Review = OnceCell<Result<bool, Failure>>;

/// The subjects of a cluster, and what is known of their rights.
pub(super) struct Actors {
    /// Connection as the user.
    pub(super) cluster: Cluster,
    /// Name of the controller.
    name: &'static str,
    controller: ControllerUser,
    /// User name of the connection.
    own_name: OnceCell<Option<String>>,
    subjects: BTreeMap<NamespacedName, Subject>,
    rights: Mutex<BTreeMap<Right, Arc<Review>>>,
    /// Rights that could not be asked about.
    failures: Mutex<BTreeMap<String, Failure>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Actors {
    /// Returns the subjects of a controller with this name.
    pub(super) fn new(cluster: Cluster, name: &'static str, controller: ControllerUser) -> Self {
        Self {
            cluster,
            name,
            controller,
            own_name: OnceCell::new(),
            subjects: BTreeMap::new(),
            rights: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Finds out for each service account whether the user may impersonate it.
    pub(super) async fn prepare(&mut self, appliers: impl Iterator<Item = Applier<'_>>) {
        let mut acts_as_controller = false;
        let mut accounts = BTreeSet::new();
        for applier in appliers {
            let account = self.account(applier);
            acts_as_controller |= account.is_none();
            accounts.extend(account);
        }
        if let (true, ControllerUser::Unreadable(failure)) = (acts_as_controller, &self.controller) {
            lock(&self.failures).insert(format!("the service account of {}", self.name), failure.clone());
        }
        for account in accounts {
            if !self.subjects.contains_key(&account) {
                let subject = self.find(&account).await;
                self.subjects.insert(account, subject);
            }
        }
    }

    /// Returns the subject of an owner.
    pub(super) fn subject(&self, applier: Applier<'_>) -> Subject {
        let account = self.account(applier);
        match account.as_ref().and_then(|account| self.subjects.get(account)) {
            Some(subject) => subject.clone(),
            None => Subject { cluster: self.cluster.clone(), account, is_account: false },
        }
    }

    fn account(&self, applier: Applier<'_>) -> Option<NamespacedName> {
        match (applier.service_account, &self.controller) {
            (Some(name), _) => Some(NamespacedName { namespace: applier.namespace.to_owned(), name: name.to_owned() }),
            (None, ControllerUser::Account(account)) => Some(account.clone()),
            (None, ControllerUser::NotInCluster | ControllerUser::Unreadable(_)) => None,
        }
    }

    async fn find(&self, account: &NamespacedName) -> Subject {
        let user = account.user();
        let own_name = self.own_name.get_or_init(|| async { user_name(&self.cluster).await.ok() }).await;
        if own_name.as_deref() == Some(&user) {
            return Subject { cluster: self.cluster.clone(), account: Some(account.clone()), is_account: true };
        }
        let accounts = ResourceType {
            group: "".into(),
            version: "v1".into(),
            kind: "ServiceAccount".into(),
            plural: "serviceaccounts".into(),
            singular: "".into(),
            short_names: vec![],
            namespaced: true,
        };
        // Impersonation cannot be nested: with --as, the rights of that user decide.
        let may_impersonate = !self.cluster.impersonates
            && is_allowed(&self.cluster, "impersonate", &accounts, &account.namespace, Some(&account.name))
                .await
                .unwrap_or(false);
        let cluster = if may_impersonate { self.cluster.impersonating(&user) } else { self.cluster.clone() };
        Subject { cluster, account: Some(account.clone()), is_account: may_impersonate }
    }

    /// Returns the right that the account of a subject lacks, in words. A right that cannot be asked about is a failure of
    /// the rehearsal, not of the account.
    pub(super) async fn missing_right(
        &self,
        subject: &Subject,
        verbs: &[&'static str],
        kind: &ResourceType,
        id: &ObjectId,
    ) -> Option<String> {
        let account = subject.account.as_ref().filter(|_| !subject.is_account)?;
        for verb in verbs {
            // A role can name the objects, but not for `create`.
            let names: &[Option<&str>] = if *verb == "create" { &[None] } else { &[None, Some(&id.name)] };
            let mut is_allowed = false;
            for name in names {
                match self.is_allowed(account, verb, kind, &id.namespace, *name).await {
                    Ok(allowed) => is_allowed |= allowed,
                    Err(failure) => {
                        let subject = format!("the rights of serviceaccount/{} -n {}", account.name, account.namespace);
                        lock(&self.failures).insert(subject, failure);
                        return None;
                    }
                }
                if is_allowed {
                    break;
                }
            }
            if !is_allowed {
                let place = match &*id.namespace {
                    "" => String::new(),
                    namespace => format!(" in namespace {namespace}"),
                };
                return Some(format!("{} may not {verb} {}{place}", account.user(), kind.resource()));
            }
        }
        None
    }

    async fn is_allowed(
        &self,
        account: &NamespacedName,
        verb: &'static str,
        kind: &ResourceType,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<bool, Failure> {
        let right: Right = (account.clone(), verb, kind.resource(), namespace.to_owned(), name.map(str::to_owned));
        let cell = lock(&self.rights).entry(right).or_default().clone();
        cell.get_or_init(|| is_account_allowed(&self.cluster, account, verb, kind, namespace, name)).await.clone()
    }

    /// Returns the rights that could not be asked about since the last call.
    pub(super) fn take_failures(&self) -> BTreeMap<String, Failure> {
        std::mem::take(&mut *lock(&self.failures))
    }
}
