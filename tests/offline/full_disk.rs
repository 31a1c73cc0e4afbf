//! Files that cannot be written: a full disk, a directory that is not there, a process that is killed. The old file stays,
//! no part of a new one is left, and nothing is deleted without its record.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, command_killed_in_a_write, command_on_full_disk};

use crate::prune::deletion::{OBJECT, cluster, leaked, real_deletes};

/// A folder with a kubeconfig, and with files that runs write.
struct Machine {
    api: FakeApi,
    folder: Folder,
    files: Folder,
}

impl Machine {
    fn new() -> Self {
        let (api, folder, files) = (cluster(), Folder::new("full-disk"), Folder::new("full-disk-files"));
        api.kubeconfig(&folder);
        Self { api, folder, files }
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn run(&self, command: &mut Command) -> Run {
        let output = command.env("KUBECONFIG", self.folder.path().join("kubeconfig")).output().unwrap();
        Run::from(output).with("FILES", self.files.path().display())
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.files.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_full_disk_keeps_the_old_file_and_leaves_no_part_of_a_new_one() {
    let machine = Machine::new();
    let (old, new) = (machine.file("old"), machine.file("new.gz"));
    std::fs::write(&old, "old").unwrap();
    let mut transcript = Transcript::default();
    for (name, args) in [
        ("snapshot", vec!["snapshot", &old]),
        ("a compressed snapshot", vec!["snapshot", &new]),
        ("plan", vec!["prune", "--plan", "--out", &old]),
        ("a new plan", vec!["prune", "--plan", "--out", &new]),
    ] {
        let run = machine.run(&mut command_on_full_disk(0, &args));
        assert_eq!((run.code, machine.names()), (1, vec!["old".to_owned()]), "{name}: {run}");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old", "{name}");
        transcript.add(name, &Run { stdout: String::new(), ..run });
    }
    assert_snapshot!(transcript);
}

#[test]
fn a_run_that_is_killed_in_a_write_keeps_the_old_file() {
    let machine = Machine::new();
    let old = machine.file("old");
    std::fs::write(&old, "old").unwrap();
    for args in [vec!["snapshot", &old], vec!["prune", "--plan", "--out", &old]] {
        let mut command = command_killed_in_a_write(1, &args);
        let output = command.env("KUBECONFIG", machine.folder.path().join("kubeconfig")).output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGXFSZ), "{output:?}");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
    }
}

#[test]
fn nothing_is_deleted_without_its_journal_and_its_backup() {
    let machine = Machine::new();
    let (journal, backup) = (machine.file("journal"), machine.file("backup"));
    let mut transcript = Transcript::default();
    machine.api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("1"))]);
    for (flag, path) in [("--journal", &journal), ("--backup", &backup)] {
        let run = machine.run(&mut command_on_full_disk(0, &["prune", "--yes", flag, path]));
        assert_eq!(real_deletes(&machine.api).len(), 0, "{run}");
        transcript.add(flag, &run);
    }
    assert_snapshot!(transcript);
    // What the full disk left behind does not stop the next run.
    machine.api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("1")), Answer::missing("leaked")]);
    let run = machine.run(&mut command_on_full_disk(64, &["prune", "--yes", "--journal", &journal]));
    assert_eq!((run.code, real_deletes(&machine.api).len()), (0, 1), "{run}");
}

#[test]
fn an_object_that_is_gone_before_its_backup_is_not_deleted() {
    let machine = Machine::new();
    // The second read is that of the backup.
    machine.api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("1")), Answer::missing("leaked")]);
    let args = ["prune", "--yes", "--backup", &machine.file("backup")];
    let run = machine.run(&mut command_on_full_disk(64, &args));
    assert!(
        real_deletes(&machine.api).is_empty() && run.stdout.contains("configmap/leaked -n shop was gone already"),
        "{run}"
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let machine = Machine::new();
    let missing = machine.file("no/such/file");
    let mut transcript = Transcript::default();
    for (name, path) in [("missing", &*missing), ("read-only", "/proc/file")] {
        for args in [["snapshot", path].to_vec(), vec!["prune", "--plan", "--out", path]] {
            let run = machine.run(&mut command_on_full_disk(64, &args));
            let lines = run.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("hint: "));
            let stderr = lines.map(|line| format!("{line}\n")).collect();
            transcript.add(&format!("{name}: {}", args[0]), &Run { stdout: String::new(), stderr, ..run });
        }
    }
    assert_snapshot!(transcript);
}

#[test]
fn standard_output_that_is_full_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [&["prune", "--plan"][..], &["inventory"], &["get"]] {
        let mut command = Command::new(test_support::gitops::binary());
        command.args(args).args(["--snapshot", "examples/shop.json.gz"]).stdout(full());
        let output = command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("error: cannot write to standard output: No space left on device"), "{stderr}");
    }
}
