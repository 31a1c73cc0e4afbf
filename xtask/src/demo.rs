//! `cargo xtask demo`: runs the reading commands on the recorded cluster in this repository. Needs no cluster.

use anyhow::Result;

use crate::{answer, say, tool};

/// Recording of a cluster after a commit with a mistyped path.
pub const RECORDING: &str = "examples/shop.json.gz";

/// Questions, and the command that answers each one.
const SCENES: [(&str, &[&str]); 5] = [
    ("What is suspended, by whom and why? What is not ready?", &["get", "-A"]),
    ("What manages this cluster's objects?", &["inventory"]),
    ("Which objects belong to the Kustomization web?", &["inventory", "-o", "tree", "kustomization/web"]),
    ("Which objects will their owner never prune?", &["inventory", "--leaked"]),
    ("What would prune delete, and what would it keep?", &["prune", "--plan"]),
];

/// Prints every question and the output of its command.
pub fn run() -> Result<()> {
    let program = tool::build(false)?;
    for (question, args) in SCENES {
        say(format!("\n# {question}"));
        answer(format!("$ kubectl gitops {} --snapshot {RECORDING}", args.join(" ")));
        tool::run(&program, &[args, &["--snapshot", RECORDING]].concat())?;
    }
    Ok(())
}
