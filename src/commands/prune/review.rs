//! Plan files: `--out` writes one with its pins, and `--apply` checks one before anything is read from the cluster.

use chrono::{DateTime, TimeDelta, Utc};

use super::args::ExecutionArgs;
use crate::cluster::Cluster;
use crate::cluster::read::access::user_name;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::text::sanitize::one_line;
use crate::tools::plan_file;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::ownership::index::Index;
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::file::{ConnectionPin, ExecutionPins, OwnerSelection, PlanFile, Refusal, steps};

/// Time in which a plan may be executed, unless `--max-age` is given.
const MAX_AGE: TimeDelta = TimeDelta::hours(1);

/// A reviewed plan that may be executed now, as far as its file shows.
pub(in crate::commands) struct ReviewedPlan {
    pub(super) file: PlanFile,
    /// Digest of its content.
    pub(super) digest: String,
}

impl ReviewedPlan {
    /// Reads and checks the file of `--apply`, if there is one. `command` is the one that executes it.
    pub(super) fn read(args: &ExecutionArgs, command: &str, session: &Session) -> Result<Option<Self>> {
        let Some(path) = &args.apply else { return Ok(None) };
        let (file, digest) = plan_file::read(path)?;
        if let Some(expected) = &args.expect_sha256
            && *expected != digest
        {
            let why = format!("its digest is {digest}, but --expect-sha256 is {expected}");
            return Err(plan_file::refused(path, &why).hint("review this file, or get the one that was reviewed"));
        }
        let max_age = args.max_age.map(limit);
        let pins =
            file.check(command, session.now, max_age, args.allow_incomplete).map_err(|refusal| match refusal {
                Refusal::Incomplete(why) => plan_file::refused(path, &why)
                    .hint("get the missing permissions and plan again, or pass --allow-incomplete"),
                Refusal::NotExecutable(why) | Refusal::Outdated(why) => plan_file::refused(path, &one_line(&why)),
            })?;
        check_namespace(pins, session)?;
        Ok(Some(Self { file, digest }))
    }

    /// Refuses the plan of another cluster.
    pub(super) fn check_cluster(&self, args: &ExecutionArgs, cluster: &ClusterIdentity, own: &Cluster) -> Result<()> {
        let connection = ConnectionPin { certificate_authority: own.certificate_authority.clone(), ..<_>::default() };
        let path = args.apply.as_deref().unwrap_or(std::path::Path::new("-"));
        self.file.check_cluster(cluster, &connection).map_err(|refusal| match refusal {
            Refusal::NotExecutable(why) | Refusal::Outdated(why) | Refusal::Incomplete(why) => {
                plan_file::refused(path, &one_line(&why)).hint("check --context, or plan again on this cluster")
            }
        })
    }
}

/// Rejects `-n` with another namespace than that of the plan: with a plan file, it selects nothing.
fn check_namespace(pins: &ExecutionPins, session: &Session) -> Result<()> {
    let given = session.connection.namespace.as_ref().filter(|_| pins.command == "prune");
    if given.is_none() || given == pins.selection.namespace.as_ref() {
        return Ok(());
    }
    Err(Error::usage("-n cannot be used with --apply: the plan decides what is deleted").hint("leave -n out"))
}

/// Values that `--out` records beside the plan.
pub(super) struct Recording<'a> {
    pub(super) command: &'static str,
    pub(super) selection: OwnerSelection,
    pub(super) waves: &'a [Vec<ObjectId>],
    pub(super) index: &'a Index<'a>,
}

/// Writes the plan to the file of `--out`, if there is one, and prints its digest. Without `recording`, the plan cannot be
/// executed.
pub(super) async fn write(
    plan: &FinishedPlan,
    recording: Option<Recording<'_>>,
    args: &ExecutionArgs,
    session: &mut Session,
) -> Result<()> {
    let Some(path) = &args.planning.out else { return Ok(()) };
    let execution = match recording {
        Some(recording) => Some(pins(plan, recording, args, session).await?),
        None => None,
    };
    let digest = plan_file::write(path, &PlanFile { plan: (**plan).clone(), execution })?;
    session.terminal.status(&format!("{}: {digest}", one_line(&path.display().to_string())));
    Ok(())
}

async fn pins(
    plan: &FinishedPlan,
    recording: Recording<'_>,
    args: &ExecutionArgs,
    session: &Session,
) -> Result<ExecutionPins> {
    let cluster = session.cluster().await?;
    let created = seconds(session.now);
    Ok(ExecutionPins {
        tool: concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION")).to_owned(),
        command: recording.command.to_owned(),
        created,
        expires: created + args.max_age.map_or(MAX_AGE, limit),
        connection: ConnectionPin {
            caller: user_name(&cluster).await.unwrap_or_default(),
            context: cluster.context,
            certificate_authority: cluster.certificate_authority,
        },
        selection: recording.selection,
        limits: args.limits(),
        steps: steps(plan, recording.waves, recording.index),
    })
}

/// Drops fractions of a second.
fn seconds(time: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp(time.timestamp(), 0).unwrap_or(time)
}

/// Converts a duration of the command line; a year at most.
fn limit(duration: std::time::Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX).min(TimeDelta::days(365))
}
