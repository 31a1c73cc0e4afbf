//! Questions: what is typed for many objects and for grave ones, on a narrow terminal, and without any input.

use std::process::Command;

use test_support::folder::Folder;
use test_support::gitops::{Run, binary, gitops_typing, gitops_typing_on};

use super::{applied, apply, reconcile, remaining, with_leaks};

#[test]
fn many_objects_need_their_number_and_grave_ones_the_name_of_the_context() {
    let cluster = &with_leaks("many", 21);
    let run = gitops_typing(cluster, &["prune", "-n", "many", "--max-percent=100"], "y\n");
    assert!(run.code == 4 && run.stdout.contains("Type 21 to delete 21 objects from test: "), "{run}");
    assert_eq!(remaining(cluster, "many").len(), 21);

    let cluster = &with_leaks("grave", 0);
    apply(cluster, vec![applied("grave", "v1", "Namespace", "", "grave-old")]);
    let _ = cluster.kubectl(&["delete", "configmap", "kube-root-ca.crt", "-n", "grave-old"]);
    reconcile(cluster, "grave", &["stays"]);
    let exists =
        || !cluster.kubectl(&["get", "namespace", "grave-old", "--ignore-not-found", "-o", "name"]).unwrap().is_empty();
    for (answer, code, is_left) in [("y\n", 4, true), ("1\n", 4, true), ("test\n", 0, false)] {
        let run = gitops_typing(cluster, &["prune", "-n", "grave", "--max-percent=100", "--allow=namespaces"], answer);
        assert_eq!((run.code, exists()), (code, is_left), "{answer}: {run}");
        let question = "Git cannot restore some of these objects. Type test to delete ";
        assert!(run.stdout.contains(question), "{run}");
    }
}

#[test]
fn a_cancelled_or_interrupted_question_deletes_nothing_and_leaves_no_file() {
    let folder = Folder::new("cancelled");
    let (journal, backup) = (folder.path().join("journal"), folder.path().join("backup"));
    let cluster = &with_leaks("cancelled", 21);
    let words = ["prune", "-n", "cancelled", "--max-percent=100"];
    let files = [format!("--journal={}", journal.display()), format!("--backup={}", backup.display())];
    let words: Vec<&str> = words.into_iter().chain(files.iter().map(String::as_str)).collect();
    for (answer, code, said) in [
        ("20\n", 4, "cancelled: nothing was deleted"),
        ("2\\004", 4, "cancelled: nothing was deleted"),
        ("21\\004", 4, "cancelled: nothing was deleted"),
        ("2\\003", 130, "interrupted: nothing was deleted"),
    ] {
        let run = gitops_typing_on(cluster, 120, &words, answer);
        assert!(run.code == code && run.stdout.contains("Type 21 to delete 21 objects"), "{answer}: {run}");
        assert_eq!(run.stdout.matches(said).count(), 1, "{answer}: {run}");
        assert_eq!((remaining(cluster, "cancelled").len(), journal.exists(), backup.exists()), (21, false, false));
    }

    let cluster = &with_leaks("cancelled-grave", 0);
    apply(cluster, vec![applied("cancelled-grave", "v1", "Namespace", "", "cancelled-old")]);
    reconcile(cluster, "cancelled-grave", &["stays"]);
    let words = ["prune", "-n", "cancelled-grave", "--max-percent=100", "--allow=namespaces"];
    let run = gitops_typing_on(cluster, 120, &words, "te\\003");
    assert!(run.code == 130 && run.stdout.contains("Type test to delete "), "{run}");
    assert_eq!(run.stdout.matches("interrupted: nothing was deleted").count(), 1, "{run}");
    cluster.kubectl(&["get", "namespace", "cancelled-old"]).unwrap();
}

/// Returns what a terminal shows without the ends of its lines, which are between words.
fn on_one_line(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_terminal_of_20_columns_shows_a_question_once_and_all_of_what_is_waited_for() {
    let cluster = &with_leaks("narrow", 21);
    let words = ["prune", "-n", "narrow", "--max-percent=100", "--timeout=2s"];
    let question = "Type 21 to delete 21 objects from test";
    let wrong = gitops_typing_on(cluster, 20, &words, "20\n");
    assert_eq!((wrong.code, on_one_line(&wrong).matches(question).count()), (4, 1), "{wrong}");
    assert_eq!(remaining(cluster, "narrow").len(), 21);

    let patch = |value: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{value}}}}}"#);
        cluster.kubectl(&["patch", "configmap", "cm-3", "-n", "narrow", "--type=merge", "-p", &patch]).unwrap();
    };
    patch(r#"["example.com/held"]"#);
    reconcile(cluster, "narrow", &["stays"]);
    let run = gitops_typing_on(cluster, 20, &words, "21\n");
    assert_eq!((run.code, remaining(cluster, "narrow")), (5, vec!["cm-3".to_owned()]), "{run}");
    assert_eq!(on_one_line(&run).matches(question).count(), 1, "{run}");
    assert!(on_one_line(&run).contains("waiting for configmap/cm-3 -n narrow, held by example.com/held"), "{run}");
    patch("null");
}

#[test]
fn a_short_question_on_a_narrow_terminal_is_asked_once() {
    let cluster = &with_leaks("short", 1);
    for (answer, code, left) in [("n", 4, 1), ("y", 0, 0)] {
        let run = gitops_typing_on(cluster, 20, &["prune", "-n", "short"], answer);
        assert_eq!((run.code, remaining(cluster, "short").len()), (code, left), "{run}");
        assert_eq!(on_one_line(&run).matches("Delete 1 object from test?").count(), 1, "{run}");
    }
}

#[test]
fn a_closed_standard_input_deletes_nothing_without_yes() {
    let cluster = &with_leaks("closed", 1);
    let prune = |more: &[&str]| -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" <&-"]).arg(binary()).args(["prune", "-n", "closed"]).args(more);
        command.env("KUBECONFIG", cluster.kubeconfig()).output().unwrap().into()
    };
    let run = prune(&[]);
    assert!(run.code == 6 && run.stderr.contains("no terminal to confirm 1 object on"), "{run}");
    assert_eq!(remaining(cluster, "closed"), ["cm-0"]);
    let run = prune(&["--yes"]);
    assert_eq!((run.code, remaining(cluster, "closed")), (0, vec![]), "{run}");
}
