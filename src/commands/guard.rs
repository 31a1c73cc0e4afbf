//! `guard`: admission policies with which controllers delete what is grave only with an approval.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use super::Session;
use crate::cluster::Cluster;
use crate::cluster::read::content::read_deployment;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::format::{self, Format, Look, Part, Render};
use crate::output::text::sanitize::one_line;
use crate::tools::plan_file;
use gitops_core::flux::controller_deployment;
use gitops_core::flux::guard::{self, DELETING_CONTROLLERS, DeletingController, Guard, KINDS, NAME, NAMESPACE};
use gitops_core::flux::kustomize_controller::{self, KustomizeController, Version};
use gitops_core::flux::spec::NamespacedName;
use gitops_core::kubernetes::gap::AnswerGap;
use gitops_core::kubernetes::object::{GroupKind, ObjectId, group_of, text_at};
use gitops_core::kubernetes::referrer::Usage;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::DELETION_APPROVED_UNTIL;
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::file::PlanFile;
use gitops_core::text::{join_limited, pluralize, shell_word};

/// Namespace of a controller that is not found.
const FLUX_NAMESPACE: &str = "flux-system";
/// Number of users that a message names.
const NAMED: usize = 3;

/// Print admission policies that let controllers delete what is grave only with an approval
///
/// Prints ValidatingAdmissionPolicies, their bindings, and the ConfigMap with what is approved, for Git or for kubectl;
/// changes nothing. They deny that a controller of Flux, or a service account that it impersonates, deletes a namespace, a
/// definition, a volume, an owner of Flux, or an object with the label kubectl-gitops/guard. An approval is a reviewed plan,
/// or the annotation kubectl-gitops/deletion-approved-until with a time in UTC. Needs Kubernetes 1.30.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops guard [OPTIONS]",
    after_help = "Examples:
  kubectl gitops guard | kubectl apply --server-side -f -  # install it
  kubectl gitops plan --as-approved --out plan.json        # what it is to allow
  kubectl gitops guard --approve plan.json | kubectl apply --server-side -f -",
    after_long_help = "Examples:
  # Install the guard
  kubectl gitops guard | kubectl apply --server-side -f -

  # Review what a commit deletes once it is approved, and approve exactly that
  kubectl gitops plan --as-approved --out plan.json
  kubectl gitops guard --approve plan.json | kubectl apply --server-side -f -

  # Is the guard installed as this cluster needs it? Which approvals are over?
  kubectl gitops guard --check"
)]
pub struct GuardArgs {
    /// Approve what the plan in FILE deletes; repeat it for several plans
    #[arg(long, value_name = "FILE")]
    pub approve: Vec<PathBuf>,
    /// List what is not installed as this cluster needs it, and approvals that are over; exit with 1 if there is any
    #[arg(long, conflicts_with_all = ["approve", "snapshot", "output"])]
    pub check: bool,
    /// Kinds to guard besides objects with the label
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        default_value = "namespaces,crds,volumes,owners",
        value_parser = guarded_kinds
    )]
    pub kinds: Vec<String>,
    /// Another user that needs approvals, such as a controller's outside of the cluster
    #[arg(long, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub for_user: Vec<String>,
    /// Read the cluster from FILE, which `snapshot` wrote
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Version of kustomize-controller, if it cannot be read
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub controller_version: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = format::parser(Guard::PARTS))]
    pub output: Format,
}

impl GuardArgs {
    /// Returns the command that prints the guard of these arguments, without approvals.
    fn command(&self, namespace: &str) -> String {
        let mut command = "kubectl gitops guard".to_owned();
        if self.kinds != default_kinds() {
            command += &format!(" --kinds {}", self.kinds.join(","));
        }
        self.for_user.iter().for_each(|user| command += &format!(" --for-user {}", shell_word(user)));
        if namespace != NAMESPACE {
            command += &format!(" -n {}", shell_word(namespace));
        }
        command
    }
}

/// Returns the kinds that are guarded if none are named.
fn default_kinds() -> Vec<String> {
    KINDS.iter().filter(|kinds| kinds.is_default).map(|kinds| kinds.name.to_owned()).collect()
}

pub(super) fn invalid_controller_version(text: &str) -> Error {
    Error::usage(format!("invalid value {text:?} for --controller-version <VERSION>: it is no version"))
        .hint("name it as 1.9.5 or v1.9.5")
}

fn guarded_kinds(text: &str) -> std::result::Result<String, String> {
    let names: Vec<&str> = KINDS.iter().map(|kinds| kinds.name).collect();
    let known = names.contains(&text).then(|| text.to_owned());
    known.ok_or(format!("it must be one of {}, or several with a comma between them", names.join(", ")))
}

impl Render for Guard {
    const PARTS: &'static [Part] = &[Part::Document];

    fn text(&self, _: bool, _: Look) -> String {
        String::new()
    }

    fn names(&self) -> String {
        String::new()
    }
}

/// Users that need approvals, and what a cluster says about their controllers.
struct Users {
    names: BTreeSet<String>,
    /// Version of kustomize-controller that forgets what it may not delete.
    forgetful: Option<Version>,
    /// Controllers whose account is assumed.
    assumed: Vec<&'static str>,
    gaps: Vec<AnswerGap>,
}

/// Prints the manifests, or checks what is installed.
pub async fn run(args: &GuardArgs, session: &mut Session) -> Result<ExitCode> {
    let given = args.controller_version.as_deref();
    let version = given
        .map(|text| kustomize_controller::parse_version(text).ok_or_else(|| invalid_controller_version(text)))
        .transpose()?;
    let snapshot = session.snapshot(args.snapshot.as_deref()).await?;
    let cluster = if args.snapshot.is_some() { None } else { Some(session.cluster().await?) };
    let mut users = find_users(cluster.as_ref(), &snapshot, version).await;
    users.names.extend(args.for_user.iter().cloned());
    let namespace = session.connection.namespace.as_deref().unwrap_or(NAMESPACE).to_owned();
    let mut guard = begin(&args.kinds, &users, &namespace, cluster.as_ref(), &snapshot).await?;
    if let (true, Some(cluster)) = (args.check, &cluster) {
        let install = format!("`{} | kubectl apply --server-side -f -`", args.command(&namespace));
        return check(&guard, &users, cluster, &snapshot, &install, session).await;
    }
    let mut digests = vec![];
    for file in &args.approve {
        let plan = plan_file::read_document(file)?;
        if plan.cluster().uid != snapshot.cluster.uid {
            return Err(Error::refused(format!("plan {} is of another cluster", file.display()))
                .hint("check --context, or plan again on this cluster"));
        }
        if let Some(id) = guard::misnamed(&plan, &snapshot) {
            let what =
                format!("plan {} deletes {id}, which does not exist with that uid in this cluster", file.display());
            return Err(Error::refused(what).hint("plan again, and let the new plan be reviewed"));
        }
        digests.push(approve(&mut guard, &plan)?);
    }
    guard.digest = (!digests.is_empty()).then(|| digests.join(" "));
    print(guard, args.output, users, &snapshot, session)
}

/// Prints the guard that approves what a plan deletes.
pub(super) async fn print_approving(plan: &FinishedPlan, snapshot: &Snapshot, session: &mut Session) -> Result<()> {
    let cluster =
        if plan.subject().is_some_and(|subject| subject.at.is_some()) { None } else { Some(session.cluster().await?) };
    let users = find_users(cluster.as_ref(), snapshot, None).await;
    let mut guard = begin(&default_kinds(), &users, NAMESPACE, cluster.as_ref(), snapshot).await?;
    guard.digest = Some(approve(&mut guard, plan)?);
    print(guard, Format::Yaml, users, snapshot, session).map(|_| ())
}

/// Fails if the API server of a cluster has no policies, or if that is not known.
pub(super) async fn ensure_supported(cluster: Option<&Cluster>, snapshot: &Snapshot) -> Result<()> {
    if guard::is_supported(snapshot) {
        return Ok(());
    }
    if let Some(gap) = guard::hiding_gap(snapshot) {
        let message = one_line(&gap.message);
        return Err(Error::failed(format!("whether the API server has admission policies is not known: {message}"))
            .hint("try again once it answers for admissionregistration.k8s.io"));
    }
    let (server, version) = match cluster {
        Some(cluster) => ("this API server", cluster.version().await.unwrap_or_default()),
        None => ("the API server of this recording", snapshot.kube_version.clone()),
    };
    let of = if version.is_empty() { String::new() } else { format!(" ({})", one_line(&version)) };
    let what = "does not serve ValidatingAdmissionPolicy in admissionregistration.k8s.io/v1";
    Err(Error::failed(format!("{server}{of} {what}"))
        .hint("Kubernetes has it since 1.30; `kubectl gitops plan` needs no policies"))
}

/// Returns the guard of a cluster without approvals. Fails if its API server has no policies, or if there are no users.
async fn begin(
    kinds: &[String],
    users: &Users,
    namespace: &str,
    cluster: Option<&Cluster>,
    snapshot: &Snapshot,
) -> Result<Guard> {
    ensure_supported(cluster, snapshot).await?;
    if users.names.is_empty() {
        return Err(Error::failed(
            "no controller and no owner of Flux is in this cluster, so there is nobody to guard against",
        )
        .hint("name the user that deletes with --for-user"));
    }
    Ok(Guard::new(kinds, users.names.clone(), namespace, snapshot))
}

/// Adds what a plan deletes to the approvals, and returns its digest.
fn approve(guard: &mut Guard, plan: &FinishedPlan) -> Result<String> {
    let file = PlanFile { plan: (**plan).clone(), execution: None };
    let (_, digest) = file.to_text().map_err(|error| Error::failed(format!("cannot write JSON: {error}")))?;
    guard.approvals.extend(guard::approvals(plan));
    Ok(digest)
}

fn print(guard: Guard, format: Format, users: Users, snapshot: &Snapshot, session: &mut Session) -> Result<ExitCode> {
    let (named, approved) = (join_limited(&guard.users, NAMED), pluralize(guard.approvals.len(), "object"));
    let text = match format {
        Format::Yaml => {
            let documents = guard.manifests().iter().map(document::yaml).collect::<Result<Vec<_>>>()?;
            documents.iter().map(|document| format!("---\n{document}")).collect()
        }
        _ => format.render(&guard, session.terminal.look(false))?,
    };
    session.terminal.raw(&text)?;
    session.terminal.status(&format!("{named} may delete what is guarded only with an approval; approved: {approved}"));
    for id in guard::approved_with_ended_annotations(&guard.approvals, snapshot, session.now) {
        let ended = format!("{id} has an approval by annotation that ended, so its deletion is refused all the same");
        session.terminal.warning(&ended);
        session.terminal.hint(&format!("take it off: `kubectl annotate {id} {DELETION_APPROVED_UNTIL}-`"));
    }
    for name in &users.assumed {
        let user = account_in_flux(name).user();
        session.terminal.warning(&format!("no Deployment {name} is in this cluster: {user} is assumed"));
        session.terminal.hint("--for-user names the user of a controller that runs elsewhere");
    }
    if let Some((major, minor, patch)) = users.forgetful {
        let forgets = "forgets an object that it may not delete: it stays, is leaked, and nothing prunes it later";
        session.terminal.warning(&format!("kustomize-controller {major}.{minor}.{patch} {forgets}"));
        session
            .terminal
            .hint("1.9.0 (Flux 2.9) tries it again; `kubectl gitops inventory --leaked` lists such objects");
    }
    if !guard::has_clock(snapshot) {
        let lease = "the API servers of this cluster renew no Lease in kube-system";
        session.terminal.warning(&format!("{lease}: approvals by annotation do not end there"));
    }
    Ok(session.report_answer_gaps(&users.gaps, false))
}

/// Finds the users as which the controllers of Flux delete. Without a cluster, accounts have the names of their controllers.
async fn find_users(cluster: Option<&Cluster>, snapshot: &Snapshot, version: Option<Version>) -> Users {
    let (mut controllers, mut forgetful, mut assumed) = (vec![], version.filter(|version| forgets(*version)), vec![]);
    let deployments = GroupKind::new("apps", "Deployment");
    let own_kinds = snapshot.types.iter().map(|kind| kind.group_kind()).filter(guard::is_owner_kind);
    let kinds: Vec<GroupKind> = own_kinds.chain([deployments]).collect();
    let hiding = snapshot.gaps.iter().filter(|gap| kinds.iter().any(|kind| gap.hides(kind, &snapshot.types)));
    let mut gaps: Vec<AnswerGap> = hiding.cloned().map(AnswerGap::from).collect();
    for name in DELETING_CONTROLLERS.map(|(name, _)| name) {
        let before = controllers.len();
        for deployment in guard::deployments(snapshot, name) {
            let namespace = &deployment.id.namespace;
            let content = match cluster {
                Some(cluster) => read_deployment(cluster, &deployment.id).await.unwrap_or_else(|failure| {
                    gaps.push(failure.gap(deployment.id.to_string(), None).into());
                    Value::Null
                }),
                None => Value::Null,
            };
            let account_name = account_of(&content).or_else(|| recorded_account(&deployment.id, snapshot));
            let account = NamespacedName {
                namespace: namespace.to_string(),
                name: account_name.unwrap_or_else(|| name.to_owned()),
            };
            let default_account = controller_deployment::default_service_account(&content);
            controllers.push(DeletingController { name, account, default_account });
            if name == kustomize_controller::NAME && version.is_none() {
                let found = KustomizeController::from_deployment(&content, None).version;
                forgetful = forgetful.or(found.filter(|version| forgets(*version)));
            }
        }
        if controllers.len() == before && guard::has_owners(snapshot, name) {
            controllers.push(DeletingController { name, account: account_in_flux(name), default_account: None });
            assumed.push(name);
        }
    }
    Users { names: guard::users(&controllers, snapshot), forgetful, assumed, gaps }
}

/// Returns the service account of the Pods of a Deployment; `None` if its content is not known.
fn account_of(deployment: &Value) -> Option<String> {
    let pods = deployment.pointer("/spec/template/spec")?;
    Some(pods.get("serviceAccountName").and_then(Value::as_str).unwrap_or("default").to_owned())
}

/// Returns the service account of the Pods of a Deployment in a recording, which has what it refers to. Nothing refers to the
/// account that every namespace has.
fn recorded_account(deployment: &ObjectId, snapshot: &Snapshot) -> Option<String> {
    let referrer = snapshot.referrers.iter().flatten().find(|referrer| referrer.object == *deployment)?;
    let account = referrer.references.iter().find(|reference| reference.usage == Usage::RunsAs);
    Some(account.map_or("default", |account| &*account.to.name).to_owned())
}

/// Returns the service account that a controller has by default.
fn account_in_flux(controller: &str) -> NamespacedName {
    NamespacedName { namespace: FLUX_NAMESPACE.to_owned(), name: controller.to_owned() }
}

/// Returns true if a version of kustomize-controller forgets what it may not delete.
fn forgets(version: Version) -> bool {
    !kustomize_controller::Features::of(version).retries_deletions
}

/// Compares what is installed with what the cluster needs, and lists approvals that are over. `install` is the command that
/// installs what it needs.
async fn check(
    guard: &Guard,
    users: &Users,
    cluster: &Cluster,
    snapshot: &Snapshot,
    install: &str,
    session: &mut Session,
) -> Result<ExitCode> {
    let mut objects = vec![];
    for wanted in guard.manifests() {
        let live = read(&wanted, cluster, snapshot).await?;
        objects.push((wanted, live));
    }
    let approvals = objects.first().and_then(|(_, live)| live.as_ref());
    let mut findings = guard::installation_findings(&objects);
    let hint = if findings.is_empty() {
        format!(
            "take back approvals that nobody needs: `kubectl annotate TYPE NAME {DELETION_APPROVED_UNTIL}-` one by \
             annotation, and {install} all of plans"
        )
    } else {
        format!("{install} installs it, without approvals")
    };
    findings.extend(guard::approval_findings(approvals, snapshot, session.now));
    let lines: String = findings.iter().map(|finding| format!("{}\n", one_line(finding))).collect();
    session.terminal.raw(&lines)?;
    let exit = session.report_answer_gaps(&users.gaps, false);
    if findings.is_empty() {
        session.terminal.status(&format!("the guard is installed: {}", join_limited(&guard.users, NAMED)));
        return Ok(exit);
    }
    Err(Error::failed(format!("{} about the guard {NAME}", pluralize(findings.len(), "finding"))).hint(hint))
}

/// Returns the live object of a manifest, if it exists.
async fn read(wanted: &Value, cluster: &Cluster, snapshot: &Snapshot) -> Result<Option<Value>> {
    let [kind, namespace, name] = ["/kind", "/metadata/namespace", "/metadata/name"].map(|at| text_at(wanted, at));
    let id = ObjectId::new(group_of(text_at(wanted, "/apiVersion")), kind, namespace, name);
    let Some(served) = snapshot.type_of(&id) else { return Ok(None) };
    let found = cluster.fetch_json(served, &id).await;
    found.map_err(|failure| Error::failed(format!("cannot read {id}: {failure}")))
}

/// Rejects a plan file for policies: who deletes is not in it.
pub(super) fn reject_shown(file: &Path) -> Error {
    Error::usage("-o vap needs the cluster, and --show reads a file")
        .hint(format!("`kubectl gitops guard --approve {}` approves that plan", file.display()))
}
