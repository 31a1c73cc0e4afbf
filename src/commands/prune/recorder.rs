//! Records of an execution: the lines and the progress on the terminal, the journal, and the backup.

use std::collections::{HashMap, HashSet};

use chrono::Utc;
use serde_json::Value;

use super::args::ExecutionArgs;
use crate::cluster::Observer;
use crate::error::Result;
use crate::output::deletion;
use crate::output::progress::Progress;
use crate::output::terminal::Terminal;
use crate::tools::backup::Backup;
use crate::tools::journal::{self, Header, Journal};
use gitops_core::kubernetes::deletion::order::apply_order;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnershipStatus;
use gitops_core::ownership::index::Index;
use gitops_core::plan::execution::roots_of_objects;
use gitops_core::plan::outcome::{Event, StepResult};
use gitops_core::plan::{Change, PinnedObject, Plan};

/// Files that an execution writes.
pub(super) struct Records {
    journal: Option<Journal>,
    backup: Option<Backup>,
    backup_secrets: bool,
}

impl Records {
    /// Opens the journal and the directory of the backup. `plan` is the digest of the plan file.
    ///
    /// Fails before anything is deleted.
    pub(super) fn open(args: &ExecutionArgs, plan: &Plan, digest: Option<&str>) -> Result<Self> {
        let header = Header {
            schema: journal::SCHEMA.to_owned(),
            cluster: plan.cluster().clone(),
            plan: digest.map(str::to_owned),
        };
        let journal = args.journal.as_ref().map(|path| Journal::open(path, &header)).transpose()?;
        let continues = journal.as_ref().is_some_and(Journal::continues);
        let backup = args.backup.as_ref().map(|directory| Backup::create(directory, continues)).transpose()?;
        Ok(Self { journal, backup, backup_secrets: args.backup_secrets })
    }

    fn includes(&self, id: &ObjectId) -> bool {
        self.backup_secrets || !id.is("", "Secret")
    }

    /// Returns true if an earlier run with this journal has begun to delete an object.
    pub(super) fn has_begun(&self, object: &PinnedObject) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has_begun(object))
    }

    /// Records a step that is not executed.
    pub(super) fn record(&mut self, row: &StepResult) -> Result<()> {
        match &mut self.journal {
            Some(journal) => journal.record(&row.object, row.step.code(), &row.step.detail(), Utc::now()),
            None => Ok(()),
        }
    }
}

/// Returns the number of objects that a backup leaves out.
pub(super) fn left_out_of_backup(args: &ExecutionArgs, plan: &Plan) -> usize {
    if args.backup.is_none() || args.backup_secrets {
        return 0;
    }
    plan.deletions().filter(|change| change.object.id.is("", "Secret")).count()
}

/// Observer of one execution.
pub(super) struct Recorder<'a> {
    records: Records,
    terminal: &'a mut Terminal,
    progress: Progress,
    /// Objects of a plan by the root that deletes them, each with its position in the order of creation.
    cascades: HashMap<&'a ObjectId, Vec<(usize, &'a PinnedObject)>>,
    /// Objects that Kubernetes itself creates.
    generated: HashSet<ObjectId>,
    /// Objects that were written to the backup.
    written: HashSet<ObjectId>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(records: Records, plan: &'a Plan, index: &Index<'_>, terminal: &'a mut Terminal) -> Self {
        let deleted = plan.deletions().map(|change| &change.object.id);
        let generated = deleted.filter(|id| is_generated(id, index)).cloned().collect();
        let progress = Progress::new(plan.roots().count(), terminal.can_ask());
        Self { records, terminal, progress, cascades: cascades(plan), generated, written: HashSet::new() }
    }
}

/// Returns true if Kubernetes itself creates an object.
fn is_generated(id: &ObjectId, index: &Index<'_>) -> bool {
    let object = index.snapshot().object(id);
    object.is_some_and(|object| matches!(index.status(object), OwnershipStatus::SystemManaged(_)))
}

/// Returns the deleted objects by the root that deletes them; the root itself is one of them.
fn cascades(plan: &Plan) -> HashMap<&ObjectId, Vec<(usize, &PinnedObject)>> {
    let roots = roots_of_objects(plan);
    let mut objects: Vec<&PinnedObject> = plan.deletions().map(|change| &change.object).collect();
    objects.sort_by(|a, b| apply_order(&a.id, &b.id));
    let mut cascades: HashMap<&ObjectId, Vec<(usize, &PinnedObject)>> = HashMap::new();
    for (position, object) in objects.into_iter().enumerate() {
        cascades.entry(roots[&object.id]).or_default().push((position, object));
    }
    cascades
}

impl Observer for Recorder<'_> {
    fn wanted(&self, root: &Change) -> Vec<ObjectId> {
        if self.records.backup.is_none() {
            return vec![];
        }
        let objects = self.cascades.get(&root.object.id).into_iter().flatten();
        let ids = objects.map(|(_, object)| &object.id);
        ids.filter(|id| self.records.includes(id) && !self.written.contains(*id)).cloned().collect()
    }

    fn prepare(&mut self, root: &Change, contents: Vec<(ObjectId, Value)>) -> Result<(), String> {
        let Some(backup) = &self.records.backup else { return Ok(()) };
        for (id, content) in contents {
            let objects = self.cascades.get(&root.object.id);
            let own = objects.and_then(|objects| objects.iter().find(|(_, object)| object.id == id));
            let position = own.map_or(0, |(position, _)| *position);
            backup.write(position, &content, self.generated.contains(&id)).map_err(|error| error.message)?;
            self.written.insert(id);
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Deleting(object) => {
                if let Some(journal) = &mut self.records.journal {
                    journal.record(object, "deleting", "", Utc::now()).map_err(|error| error.message)?;
                }
            }
            Event::Waiting(object, held_by) => {
                let (terminal, line) = (&mut *self.terminal, deletion::waiting(&object.id, held_by));
                self.progress.waiting(&line, || terminal.status(&line));
            }
            Event::Ended(row) => self.records.record(row).map_err(|error| error.message)?,
            Event::Reported(row) => {
                let terminal = &mut *self.terminal;
                // A reader that closed the pipe does not end the execution.
                self.progress.step(|| drop(terminal.raw(&deletion::step(row))));
            }
        }
        Ok(())
    }
}
