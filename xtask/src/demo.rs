//! `cargo xtask demo`: the reading verbs over the recorded cluster that ships with the project; needs no cluster.

use anyhow::Result;

use crate::{answer, say, tool};

/// The recorded cluster: a shop after a path was mistyped.
pub const RECORDING: &str = "examples/shop.json.gz";

/// What is shown, and why.
const SCENES: [(&str, &[&str]); 5] = [
    ("What is suspended, by whom and why? What is not ready?", &["get", "-A"]),
    ("What manages this cluster's objects?", &["inventory"]),
    ("What hangs below the shop's web shop?", &["inventory", "-o", "tree", "kustomization/web"]),
    ("What will its owner never prune?", &["inventory", "--leaked"]),
    ("What would a clean-up delete, and what would it spare?", &["prune", "--plan"]),
];

/// Runs the scenes.
pub fn run() -> Result<()> {
    let program = tool::build(false)?;
    for (question, args) in SCENES {
        say(format!("\n# {question}"));
        answer(format!("$ kubectl gitops {} --snapshot {RECORDING}", args.join(" ")));
        tool::run(&program, &[args, &["--snapshot", RECORDING]].concat())?;
    }
    Ok(())
}
