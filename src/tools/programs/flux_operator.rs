//! Runs flux-operator as a child process: `flux-operator build resourceset` on a private copy of a manifest.
//!
//! The templates of a ResourceSet are written by whoever can change the tree. The child reads the copy only, and has no
//! network and no configuration of the user.

use std::path::{Path, PathBuf};

use super::sandboxed::{self, Answer, NoAnswer, SandboxedProgram, first_lines};
use crate::error::Result;
use crate::tools::{files, limits};
use gitops_core::flux::build::resource_sets::SetRun;

/// Message of flux-operator about a ResourceSet of which every object is excluded.
const NOTHING_GENERATED: &str = "no objects were generated";

/// Generates the resources of ResourceSets with the `flux-operator` of this machine, inside the sandbox.
#[derive(Debug)]
pub struct FluxOperator {
    pub program: SandboxedProgram,
}

impl FluxOperator {
    /// Uses the `flux-operator` in `PATH`, or the program at a path. A program in one of the working trees is not looked for.
    pub fn new(program: Option<&Path>, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { program: SandboxedProgram::new("flux-operator", program, trees, limits::RENDER_TIME) }
    }

    /// Generates the resources of ResourceSets, `parallel` at a time. Returns the output or the failure of each, by key.
    ///
    /// Fails when a manifest cannot be written to the temporary directory.
    pub async fn build_all(
        &self,
        runs: impl IntoIterator<Item = SetRun>,
        parallel: usize,
    ) -> Result<Vec<(String, Answer<String>)>> {
        sandboxed::run_all(runs, parallel, async |run| self.build(run).await, |run| run.key).await
    }

    async fn build(&self, run: &SetRun) -> Result<String, NoAnswer> {
        let program = self.program.find().map_err(|error| {
            let name = self.program.program.display();
            format!("{name} cannot be run ({error}): install it, or name it with --flux-operator")
        })?;
        let workspace = self.program.new_workspace(program)?;
        let manifest = workspace.directories.root().join("resourceset.json");
        files::write_new(&manifest, run.manifest.reveal().as_bytes())
            .map_err(|error| crate::tools::cannot_write_temporary(&manifest.display().to_string(), &error))?;
        let arguments = vec!["build".into(), "resourceset".into(), "--filename".into(), (&manifest).into()];
        let output = self.program.run(&workspace.reading(&manifest), arguments).await?;
        if output.status.success() {
            return self.program.text(output);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = stderr.trim().trim_start_matches('✗').trim();
        if message == NOTHING_GENERATED {
            return Ok(String::new());
        }
        Err(self.program.failure("generate its resources", &first_lines(message), run.is_private).into())
    }
}
