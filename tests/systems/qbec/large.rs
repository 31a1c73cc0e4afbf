//! Two applications, two environments, with and without a tag, in twelve namespaces: the plan equals the truth by uid.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Instant;

use test_support::comparison::{Table, rows, snapshot};

use super::{cluster, new_app};

/// Objects of one application, environment and tag.
const EACH: usize = 250;

fn manifests(app: &str, tag: &str, from: usize) -> String {
    (from..EACH).fold(String::new(), |mut text, number| {
        let kind = ["ConfigMap", "Secret", "ServiceAccount"][number % 3];
        let space = number % 12;
        let _ = writeln!(
            text,
            "---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {app}-{tag}-{number}, namespace: large-{space}}}"
        );
        text
    })
}

#[test]
#[ignore = "takes a minute: 2,000 objects"]
fn two_thousand_objects_in_twelve_namespaces() {
    let _cluster = cluster();
    let spaces: String = (0..12)
        .map(|space| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: large-{space}}}\n"))
        .collect();
    cluster().kubectl_stdin(&["create", "-f", "-"], &spaces).unwrap();
    let mut apps = vec![];
    for name in ["large-a", "large-b"] {
        for environment in ["dev", "prod"] {
            let app = new_app(name);
            for tag in ["none", "t1"] {
                let part = format!("{environment}-{tag}");
                app.component("all", &manifests(name, &part, 0));
                let tagged: &[&str] = if tag == "none" { &[] } else { &["--app-tag", tag] };
                app.apply_to(environment, tagged);
            }
            apps.push((app, environment));
        }
    }
    let recorded = snapshot(&cluster(), "large");
    let marked = recorded.objects.iter().filter(|object| object.labels.get("qbec.io/application").is_some()).count();
    let mut table = Table::default();
    let requests = || cluster().requests_of("carol", "gitops").unwrap();
    // Other tests ask as the admin at the same time.
    cluster()
        .kubectl(&["create", "clusterrolebinding", "large", "--clusterrole=cluster-admin", "--user=carol"])
        .unwrap();
    let kubeconfig = cluster().kubeconfig_for("carol");
    let gitops = |args: &[&str]| test_support::gitops::gitops_as(&kubeconfig, args);
    for (app, environment) in &apps {
        for tag in ["none", "t1"] {
            let prefix = format!("{}-{environment}-{tag}-", app.name);
            app.component("all", &manifests(&app.name, &format!("{environment}-{tag}"), 10));
            let gone = |name: &str| {
                name.strip_prefix(&prefix).and_then(|number| number.parse().ok()).is_some_and(|n: usize| n < 10)
            };
            let truth: BTreeSet<String> = recorded
                .objects
                .iter()
                .filter(|object| gone(&object.id.name))
                .map(|object| object.uid.to_string())
                .collect();
            let tagged: &[&str] = if tag == "none" { &[] } else { &["--app-tag", tag] };
            let file = app.rendered_of(environment);
            let before = requests().len();
            let start = Instant::now();
            let fixed = ["prune", "qbec", "--plan", "-o", "json", "--app", &app.name, "--env", environment];
            let run = gitops(&[&fixed, tagged, &["-f", &file]].concat());
            let time = start.elapsed();
            let planned: BTreeSet<String> =
                rows(&run).into_iter().filter(|(_, judged)| judged.is_ok()).map(|(uid, _)| uid).collect();
            assert_eq!(planned, truth, "{prefix}");
            assert_eq!(truth.len(), 10);
            let asked = requests().split_off(before);
            assert!(asked.iter().all(|request| !request.writes()), "a plan only reads");
            assert!(asked.len() < 150, "about one list per kind, whatever there is to plan: {}", asked.len());
            table.note(
                &prefix,
                &format!(
                    "{} planned = {} in truth, of {marked} marked, {time:.0?}, {} requests",
                    planned.len(),
                    truth.len(),
                    asked.len()
                ),
            );
        }
    }
    for ((app, environment), parallel) in apps.iter().zip(["1", "8", "1", "8"]) {
        app.component("all", &manifests(&app.name, &format!("{environment}-none"), EACH - 50));
        let file = app.rendered_of(environment);
        let start = Instant::now();
        let verb = ["prune", "qbec", "--yes", "--parallel", parallel, "--max-delete=200", "--max-percent=100"];
        let run = gitops(&[&verb[..], &["--app", &app.name, "--env", environment, "-f", &file]].concat());
        assert_eq!((run.code, run.stderr.contains("200 of 200 objects deleted")), (0, true), "{run:?}");
        table.note(&format!("200 deleted with --parallel {parallel}"), &format!("{:.1?}", start.elapsed()));
    }
    table.tell("qbec-large.txt");
}
