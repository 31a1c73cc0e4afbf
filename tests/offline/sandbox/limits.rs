//! Limits of a child: time, output, memory, file size; and the end of all its processes.

use std::time::{Duration, Instant};

use kubectl_gitops::tools::sandbox::{Failure, Limits};

use super::{Child, Sandbox, limits, on, processes, wait_for};

/// Returns a number of seconds to sleep that no other process sleeps.
fn unique_seconds(number: u32) -> String {
    format!("6{:07}.{number}", std::process::id())
}

#[tokio::test]
async fn a_child_that_never_ends_is_killed_with_all_its_processes() {
    for (number, sandbox) in [on(), Sandbox::off()].iter().enumerate() {
        let seconds = unique_seconds(number as u32);
        let script = format!(
            "trap '' TERM INT HUP; for n in $(seq 50); do (trap '' TERM; sleep {seconds}) & done; \
             (exec >/dev/null 2>&1; sleep {seconds}) & sleep {seconds}"
        );
        let limits = Limits { time: Duration::from_secs(3), ..limits() };
        let start = Instant::now();
        let failure = Child::script(&script).run(sandbox, &limits).await.unwrap_err();
        assert_eq!(failure.to_string(), "did not finish within 3 s");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        wait_for("the end of all processes", || processes(&seconds).is_empty());
    }
}

#[tokio::test]
async fn no_process_leaves_the_group() {
    let seconds = unique_seconds(7);
    let script = format!("setsid sleep {seconds} & setsid -f sleep {seconds}; sleep {seconds}");
    let limits = Limits { time: Duration::from_secs(2), ..limits() };
    Child::script(&script).run(&on(), &limits).await.unwrap_err();
    wait_for("the end of all processes", || processes(&seconds).is_empty());
}

#[tokio::test]
async fn processes_that_stay_behind_end_with_the_child() {
    let seconds = unique_seconds(8);
    let script = format!("(exec >/dev/null 2>&1; sleep {seconds}) & echo built");
    assert_eq!(Child::script(&script).text(&on()).await, "built\n");
    wait_for("the end of all processes", || processes(&seconds).is_empty());
}

#[tokio::test]
async fn a_run_that_is_given_up_leaves_no_process() {
    let seconds = unique_seconds(9);
    let (child, sandbox, limits) = (Child::script(&format!("sleep {seconds}; true")), on(), limits());
    let given_up = tokio::time::timeout(Duration::from_secs(2), child.run(&sandbox, &limits)).await;
    assert!(given_up.is_err());
    wait_for("the end of all processes", || processes(&seconds).is_empty());
}

#[tokio::test]
async fn endless_output_is_cut() {
    let start = Instant::now();
    for (script, said) in [("yes", "printed more than 64 MiB"), ("yes >&2", "printed more than 1 MiB")] {
        let failure = Child::script(script).run(&on(), &limits()).await.unwrap_err();
        assert_eq!(failure.to_string(), said);
    }
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
}

#[tokio::test]
async fn memory_and_files_are_limited() {
    let mut limits = limits();
    limits.resources.memory = 64 << 20;
    let eats = "text=$(printf '%0200000000d' 1); echo ${#text}";
    let output = Child::script(eats).run(&on(), &limits).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    assert_eq!(Child::script(eats).text(&Sandbox::off()).await, "200000000\n");
    let text = Child::script("ulimit -c; ulimit -n").text(&on()).await;
    assert_eq!(text, "0\n1024\n");
}

#[tokio::test]
async fn the_signal_that_ends_a_child_is_named() {
    let failure = Child::script("kill -9 $$").run(&on(), &limits()).await.unwrap_err();
    assert!(matches!(failure, Failure::Signal(9)), "{failure}");
}

#[tokio::test]
async fn a_launcher_that_is_no_launcher_is_a_failure() {
    let child = Child::script("echo built");
    for (launcher, said) in [("/nowhere/kubectl-gitops", "No such file or directory (os error 2)")] {
        let failure = child.run(&Sandbox::launched_by(launcher), &limits()).await.unwrap_err();
        assert_eq!(failure.to_string(), said);
    }
    // This process is not the binary, so it has no program that could restrict a child.
    let failure = child.run(&Sandbox::of_this_process(), &limits()).await.unwrap_err();
    assert_eq!(failure.to_string(), "the sandbox cannot be set up: this process did not register its program");
}

#[tokio::test]
async fn a_rule_that_cannot_be_applied_is_a_failure() {
    let child = Child::script("echo built");
    std::fs::remove_dir(child.directories.home()).unwrap();
    std::fs::create_dir(child.directories.root().join("other")).unwrap();
    let failure = child.run(&on(), &limits()).await.unwrap_err();
    // The home directory is the working directory of the child too.
    assert!(matches!(failure, Failure::Start(_)), "{failure}");
}
