//! The sandbox of the binary: its messages, the programs that it looks for, and its temporary files.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use test_support::folder::Folder;

use super::{names, processes, wait_for};

const BINARY: &str = env!("CARGO_BIN_EXE_kubectl-gitops");
/// A kustomize that prints its version. Everything else fails with a message.
const VERSION: &str = r#"case "$1" in version) echo '{"kustomizeVersion": "v5.8.1"}'; exit;; esac; "#;

const TEMPORARY_HINT: &str = "hint: set TMPDIR to a directory with free space that you may write to\n";

/// A folder with a program, temporary files and a cache.
struct Machine {
    folder: Folder,
    program: PathBuf,
    temporary: PathBuf,
}

impl Machine {
    fn new(script: &str) -> Self {
        let folder = Folder::outside_checkouts("sandbox-machine");
        let program = folder.script("kubectl", &format!("{VERSION}{script}"));
        let temporary = folder.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        Self { folder, program, temporary }
    }

    /// The plan of a recorded cluster from the tree in examples/.
    fn plan(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.args(["prune", "--plan", "--snapshot", "examples/shop.json.gz", "-v", "1", "--kustomize"]);
        command.arg(&self.program).arg("--source=GitRepository/flux-system/shop=examples/shop");
        command.env("TMPDIR", &self.temporary).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }

    fn run(&self) -> Output {
        self.plan(Path::new(BINARY)).output().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command on a kernel on which a system call fails.
fn with_failing_call(call: libc::c_long, error: i32, mut command: Command) -> Output {
    let run = move || {
        let action = SeccompAction::Errno(u32::try_from(error).unwrap());
        let architecture = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new([(call, vec![])].into(), SeccompAction::Allow, action, architecture).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        apply_filter(&filter).unwrap();
        command.output().unwrap()
    };
    // The filter applies to this thread and the processes that it starts.
    std::thread::spawn(run).join().unwrap()
}

#[test]
fn a_kernel_without_landlock_is_always_named_and_can_be_refused() {
    let machine = Machine::new("echo no such thing >&2; exit 1");
    let line = "warning: this kernel has no Landlock, so the files that builds and charts read are not restricted";
    let with = machine.run();
    assert!(stderr(&with).contains("no such thing") && !stderr(&with).contains("Landlock"), "{with:?}");
    let plan = machine.plan(Path::new(BINARY));
    let without = with_failing_call(libc::SYS_landlock_create_ruleset, libc::ENOSYS, plan);
    assert_eq!(stderr(&without).matches(line).count(), 1, "{without:?}");
    assert!(stderr(&without).contains("no such thing"), "{without:?}");
    let mut plan = machine.plan(Path::new(BINARY));
    plan.arg("--require-sandbox");
    let refused = with_failing_call(libc::SYS_landlock_create_ruleset, libc::ENOSYS, plan);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(stderr(&refused).contains("and --require-sandbox is set"), "{refused:?}");
    assert!(!stderr(&refused).contains("no such thing"), "nothing runs: {refused:?}");
    let mut plan = machine.plan(Path::new(BINARY));
    plan.arg("--require-sandbox");
    assert!(stderr(&plan.output().unwrap()).contains("no such thing"), "it runs where files are restricted");
}

#[test]
fn a_sandbox_that_cannot_be_set_up_runs_nothing() {
    let machine = Machine::new("");
    for call in [libc::SYS_landlock_restrict_self, libc::SYS_landlock_add_rule, libc::SYS_seccomp] {
        let output = with_failing_call(call, libc::EINVAL, machine.plan(Path::new(BINARY)));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("kubectl in a sandbox: "), "{output:?}");
    }
}

#[test]
fn a_renamed_binary_is_its_own_launcher() {
    let machine = Machine::new("echo no such thing >&2; exit 1");
    let renamed = Folder::new("sandbox-renamed");
    let other = renamed.path().join("other name");
    std::fs::hard_link(BINARY, &other).unwrap();
    assert!(stderr(&machine.plan(&other).output().unwrap()).contains("no such thing"));
}

#[test]
fn the_launcher_is_no_verb() {
    let launcher = |arguments: &[&str]| Command::new(BINARY).arg("__sandbox").args(arguments).output().unwrap();
    let output = launcher(&[]);
    assert_snapshot!(stderr(&output), @"kubectl-gitops sandbox: no rules");
    assert_eq!(output.status.code(), Some(125));
    assert_snapshot!(stderr(&launcher(&["{}", "/bin/true"])), @"kubectl-gitops sandbox: rules: missing field `parent` at line 1 column 2");
    for arguments in [&["--help"][..], &["__complete", "__"], &["completion", "bash"], &["options"]] {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("__sandbox"), "{arguments:?}");
    }
}

#[test]
fn no_tree_and_no_relative_directory_supplies_the_program() {
    let tree = Folder::outside_checkouts("sandbox-tree");
    tree.git(&["init", "-q"]);
    tree.write("apps/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\n");
    let marker = tree.path().with_extension("marker");
    tree.script("bin/kubectl", &format!("touch {}", marker.display()));
    let outside = Folder::outside_checkouts("sandbox-path");
    symlink(tree.path().join("bin/kubectl"), outside.path().join("kubectl")).unwrap();
    let git = std::env::split_paths(&std::env::var_os("PATH").unwrap()).find(|path| path.join("git").exists()).unwrap();
    let plan = |path: String| {
        let mut command = Command::new(BINARY);
        command.current_dir(tree.path()).env("PATH", path).args(["prune", "--plan", "--snapshot"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop.json.gz"));
        command.arg("--source=GitRepository/flux-system/shop=apps").output().unwrap()
    };
    let (inside, link) = (tree.path().join("bin").display().to_string(), outside.path().display());
    for entry in ["bin", ".", "", "./bin", &inside, &link.to_string()] {
        // Only git is in the last directory, or the search would end at the kubectl of this machine.
        let only_git = Folder::outside_checkouts("sandbox-git");
        symlink(git.join("git"), only_git.path().join("git")).unwrap();
        let output = plan(format!("{entry}:{}", only_git.path().display()));
        assert_eq!(output.status.code(), Some(1), "{entry}: {output:?}");
        assert!(stderr(&output).contains("cannot run kubectl: "), "{entry}: {output:?}");
        assert!(!marker.exists(), "a program of {entry:?} ran");
    }
}

#[test]
fn a_killed_run_ends_its_child_and_its_leftovers_stay_apart() {
    let seconds = format!("6{:07}.5", std::process::id());
    let machine = Machine::new(&format!("exec sleep {seconds}"));
    let foreign = machine.temporary.join("kubectl-gitops-foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("marker"), "text").unwrap();
    symlink(machine.folder.path(), machine.temporary.join("kubectl-gitops-link")).unwrap();
    let mut run = machine.plan(Path::new(BINARY)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the child", || !processes(&seconds).is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("the end of the child", || processes(&seconds).is_empty());
    let mut before = names(&machine.temporary);
    assert!(before.len() > 2, "a killed process cannot remove its directories: {before:?}");
    machine.folder.script("kubectl", &format!("{VERSION} echo no such thing >&2; exit 1"));
    assert!(stderr(&machine.run()).contains("no such thing"));
    let mut after = names(&machine.temporary);
    before.sort();
    after.sort();
    assert_eq!(before, after);
    assert_eq!(std::fs::read_to_string(foreign.join("marker")).unwrap(), "text");
}

#[test]
fn temporary_directories_that_cannot_be_written_are_an_error() {
    let mut machine = Machine::new("");
    // Root may write everywhere but to these.
    for directory in ["/proc", "/sys", "/nowhere"] {
        machine.temporary = directory.into();
        let output = machine.run();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("error: cannot write a temporary directory: "), "{output:?}");
        assert!(stderr(&output).ends_with(TEMPORARY_HINT), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let machine = Machine::new("");
    let run = |program: &str, arguments: &[&str]| {
        let plan = machine.plan(Path::new(BINARY));
        let mut command = Command::new(program);
        command.args(arguments).arg(BINARY).args(plan.get_args());
        command.envs(plan.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap()
    };
    let check = |output: &Output, reason: &str| {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(output).contains("error: cannot write "), "{output:?}");
        assert!(stderr(output).contains(reason) && stderr(output).ends_with(TEMPORARY_HINT), "{output:?}");
        assert!(output.stdout.is_empty() && names(&machine.temporary).is_empty(), "{output:?}");
    };
    // Directories can be written, files cannot grow.
    let limit = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let output = run("bash", &["-c", limit, "bash"]);
    check(&output, "the artifact to ");
    check(&output, "File too large");
    // A file system of a few pages in a mount namespace, where users may create one.
    let namespace = ["--user", "--map-root-user", "--mount"];
    if Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success()) {
        let mount = "mount -t tmpfs -o nr_blocks=2 none \"$TMPDIR\"; exec \"$@\"";
        check(&run("unshare", &[&namespace[..], &["sh", "-ec", mount, "sh"]].concat()), "No space left on device");
    }
}

#[test]
fn no_file_of_the_current_directory_is_a_cache() {
    let machine = Machine::new("exit 0");
    let current = Folder::outside_checkouts("sandbox-current");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (cache, home) in [(Some(""), Some("")), (Some("."), Some(".")), (None, Some("")), (None, None)] {
        let mut command = Command::new(BINARY);
        command.current_dir(current.path()).env("TMPDIR", &machine.temporary).args(["prune", "--plan", "--snapshot"]);
        command.arg(root.join("examples/shop.json.gz")).arg("--kustomize").arg(&machine.program);
        command.arg(format!("--source=GitRepository/flux-system/shop={}", root.join("examples/shop").display()));
        for (name, value) in [("XDG_CACHE_HOME", cache), ("HOME", home)] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().unwrap();
        // The alarm of a tree that builds to nothing.
        assert_eq!(output.status.code(), Some(6), "{cache:?} {home:?}: {output:?}");
        assert!(names(current.path()).is_empty(), "{cache:?} {home:?}: {:?}", names(current.path()));
    }
}

#[test]
fn a_cached_output_that_was_cut_is_not_used() {
    let machine = Machine::new("printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\n'");
    let first = machine.run();
    assert!(!first.stdout.is_empty(), "{first:?}");
    let output = Command::new("find").arg(machine.folder.path().join("cache")).args(["-type", "f"]).output().unwrap();
    let entries = String::from_utf8(output.stdout).unwrap();
    assert!(!entries.is_empty());
    let contents = || entries.lines().map(|entry| std::fs::read_to_string(entry).unwrap()).collect::<Vec<_>>();
    let whole = contents();
    for (entry, content) in entries.lines().zip(&whole) {
        std::fs::write(entry, &content[..content.len() / 2]).unwrap();
    }
    assert_eq!(machine.run().stdout, first.stdout);
    assert_eq!(contents(), whole);
}

#[test]
fn another_program_of_the_same_version_has_its_own_cache() {
    let machine = Machine::new("exit 0");
    let nothing = machine.run();
    // The alarm of a tree that builds to nothing.
    assert_eq!(nothing.status.code(), Some(6), "{nothing:?}");
    machine.folder.script("kubectl", &format!("{VERSION} echo no such thing >&2; exit 1"));
    assert!(stderr(&machine.run()).contains("no such thing"));
}

#[test]
fn the_time_of_a_plan_ends_what_runs_and_what_is_left_is_a_gap() {
    let machine = Machine::new("echo $$ > \"$TMPDIR/../pid\" 2>/dev/null; sleep 300");
    let started = std::time::Instant::now();
    let mut plan = machine.plan(Path::new(BINARY));
    let output = plan.args(["--plan-timeout=2s", "-o", "json"]).output().unwrap();
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the time of the plan is over (--plan-timeout=2s)"), "{text}");
    assert!(text.contains("\"complete\": false"), "{text}");
}
