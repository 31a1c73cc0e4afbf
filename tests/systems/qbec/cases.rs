//! Edge cases of the garbage collection of the real qbec: its dry run compared with our plan.

use std::collections::BTreeMap;

use test_support::comparison::{Difference, Table, rows, snapshot};
use test_support::gitops::Run;

use super::{app::App, cluster, new_app};

fn cm(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

fn kubectl(args: &str) -> String {
    cluster().kubectl(&args.split(' ').collect::<Vec<_>>()).unwrap()
}

fn plant(yaml: &str) {
    cluster().kubectl_stdin(&["create", "-f", "-"], yaml).unwrap();
}

/// An application with the ConfigMap `web` in component web, applied.
fn app(name: &str) -> App {
    let app = new_app(name);
    app.component("web", &cm("web")).apply(&[]);
    app
}

/// The same after a component `old` was applied and removed again.
fn with_garbage(name: &str, old: &str) -> App {
    let app = new_app(name);
    app.component("web", &cm("web")).component("old", old).apply(&[]).remove("old");
    app
}

/// Labels of an application, as something that copies labels would set them.
fn labels(name: &str) -> String {
    format!("labels: {{qbec.io/application: {name}, qbec.io/environment: dev}}")
}

/// Expects what only qbec deletes, with the first words of our reason, and the number that both delete.
fn expect(case: &str, difference: &Difference, both: usize, only_theirs: &[(&str, &str)]) {
    assert_eq!(difference.both, both, "{case}: {difference:?}");
    assert!(difference.only_ours.is_empty() && difference.unexplained.is_empty(), "{case}: {difference:?}");
    let names: Vec<_> = difference.only_theirs.iter().collect();
    assert_eq!(names.len(), only_theirs.len(), "{case}: {difference:?}");
    for ((name, reason), (expected, why)) in names.into_iter().zip(only_theirs) {
        assert!(name == expected && reason.starts_with(why), "{case}: {name}: {reason}");
    }
}

fn kept(run: &Run) -> BTreeMap<String, String> {
    rows(run).into_iter().filter_map(|(uid, judged)| Some((uid, judged.err()?))).collect()
}

#[test]
fn objects_that_qbec_treats_apart() {
    let _cluster = cluster();
    let mut table = Table::default();
    let mut case = |case: &str, difference: Difference, both: usize, only_theirs: &[(&str, &str)]| {
        table.add(case, &difference);
        expect(case, &difference, both, only_theirs);
    };

    let job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: job-}\n\
               spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n";
    let locked = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: locked, annotations: {directives.qbec.io/delete-policy: never}}\n";
    let q1 = with_garbage("q1", &[&cm("old"), locked, job].concat());
    case("Q1 component removed, one object protected", q1.compare(&[], &[]), 2, &[]);

    let q2 = with_garbage("q2", &[cm("child"), cm("loose")].concat());
    let uid = kubectl("get configmap web -n q2 -o jsonpath={.metadata.uid}");
    for (name, controller) in [("child", true), ("loose", false)] {
        let patch = format!(
            r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"web","uid":"{uid}","controller":{controller}}}]}}}}"#
        );
        cluster().kubectl(&["patch", "configmap", name, "-n", "q2", "--type=merge", "-p", &patch]).unwrap();
    }
    case("Q2 controller reference spared, plain reference not", q2.compare(&[], &[]), 1, &[]);

    let q3 = app("q3");
    let labels3 = labels("q3");
    plant(&format!(
        "apiVersion: v1\nkind: Endpoints\nmetadata: {{name: e, namespace: q3, {labels3}}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nendpoints: []\n\
         metadata: {{name: s, namespace: q3, {labels3}}}\n---\n\
         apiVersion: v1\nkind: Event\ninvolvedObject: {{namespace: q3}}\nmetadata: {{name: v, namespace: q3, {labels3}}}\n"
    ));
    let bare = [("EndpointSlice/s", "bare-claim")];
    case("Q3 Endpoints never listed; Events never read; labels alone", q3.compare(&[], &[]), 0, &bare);

    let q17 = with_garbage("q17", &cm("x"));
    kubectl("annotate configmap x -n q17 directives.qbec.io/delete-policy=never");
    case("Q17 policy set on the live object", q17.compare(&[], &[]), 0, &[]);
    let q18 = with_garbage("q18", &cm("x"));
    kubectl("annotate configmap x -n q18 directives.qbec.io/delete-policy=Never");
    case("Q18 policy Never", q18.compare(&[], &[]), 0, &[("ConfigMap/x", "protected")]);

    let q19 = app("q19");
    q19.component("job", job).apply(&[]);
    case("Q19 generated name, dry run", q19.compare(&[], &[]), 0, &[(&generated("q19"), "newest-generation")]);
    q19.apply(&[]);
    let oldest = kubectl("get jobs -n q19 --sort-by=.metadata.creationTimestamp -o name");
    assert_eq!(oldest.lines().count(), 2, "two generations: {oldest}");
    let twice = q19.compare(&[], &[]);
    assert_eq!((twice.both, twice.only_theirs.len()), (1, 1), "{twice:?}");
    table.add("Q19 two generations: the newest is in use", &twice);

    let q22 = with_garbage("q22", &cm("x"));
    kubectl("label configmap x -n q22 qbec.io/application=other --overwrite");
    let mut case = |case: &str, difference: Difference, both: usize, only_theirs: &[(&str, &str)]| {
        table.add(case, &difference);
        expect(case, &difference, both, only_theirs);
    };
    case("Q22 relabelled by another application", q22.compare(&[], &[]), 0, &[]);

    let q23 = with_garbage("q23", &cm("x"));
    kubectl("patch configmap x -n q23 --type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}");
    kubectl("delete configmap x -n q23 --wait=false");
    case("Q23 already terminating", q23.compare(&[], &[]), 0, &[("ConfigMap/x", "terminating")]);

    let q25 = app("q25");
    let original = kubectl("get configmap web -n q25 -o yaml");
    let own = ["  uid:", "  resourceVersion:", "  creationTimestamp:"];
    let lines = original.lines().filter(|line| !own.iter().any(|key| line.starts_with(key)));
    plant(&lines.collect::<Vec<_>>().join("\n").replace("name: web", "name: copy"));
    case("Q25 copied labels and annotations", q25.compare(&[], &[]), 0, &[("ConfigMap/copy", "copied-claim")]);
    table.tell("qbec-objects.txt");
}

fn generated(namespace: &str) -> String {
    format!("Job/{}", kubectl(&format!("get jobs -n {namespace} -o jsonpath={{.items[0].metadata.name}}")))
}

#[test]
fn this_tool_finishes_the_job_in_qbecs_order() {
    let _cluster = cluster();
    let job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\n\
               spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: service}\nspec: {ports: [{port: 80}]}\n";
    let app = with_garbage("finish", &[&cm("a"), &cm("b"), job, service].concat());
    let elsewhere = cm("c").replace("{name: c}", "{name: finish-c, namespace: default}");
    app.component("gone", &elsewhere).apply(&[]).remove("gone");
    let file = app.rendered();
    let verb = ["prune", "qbec", "--yes", "--parallel=4", "--max-percent=100", "-f", &file];
    let run = app.gitops(&verb);
    assert_eq!(run.code, 0, "{run:?}");
    let steps: Vec<&str> = run.stdout.lines().filter(|line| line.ends_with(" deleted")).collect();
    let expected = ["service/service", "job.batch/job", "configmap/b", "configmap/a"];
    assert_eq!(steps, expected.map(|name| format!("{name} -n finish deleted")));
    assert!(app.deleted(&["apply", "-n", "dev", "--show-details=false"]).is_empty(), "qbec finds nothing left");
    let missed = app.gitops(&[&verb[..], &["--include", "missed"]].concat());
    assert!(missed.stdout.contains("configmap/finish-c -n default deleted"), "{missed:?}");
}

#[test]
fn scope_tags_and_filters() {
    let _cluster = cluster();
    let mut table = Table::default();
    let mut case = |case: &str, difference: Difference, both: usize, only_theirs: &[(&str, &str)]| {
        table.add(case, &difference);
        expect(case, &difference, both, only_theirs);
    };

    let q4 = app("q4");
    q4.component("none", &cm("none")).component("tagged", &cm("tagged")).component("empty", &cm("empty"));
    q4.apply(&["-c", "none", "-c", "empty"]).apply(&["-c", "tagged", "--app-tag", "pr-1"]);
    q4.remove("none").remove("tagged").remove("empty");
    kubectl("label configmap empty -n q4 qbec.io/tag=");
    case("Q4 without a tag", q4.compare(&[], &[]), 1, &[]);
    case("Q4 with a tag", q4.compare(&["--app-tag", "pr-1"], &["--app-tag", "pr-1"]), 1, &[]);

    let q5 = app("q5");
    q5.component("p", &cm("p"));
    let prod = ["apply", "prod", "-c", "p", "--yes", "--wait=false", "--wait-all=false", "--gc=false"];
    assert!(q5.qbec(&prod).status.success());
    q5.remove("p");
    case("Q5 another environment in the same namespace", q5.compare(&[], &[]), 0, &[]);

    let in_default = cm("q6").replace("{name: q6}", "{name: q6, namespace: default}");
    let q6 = with_garbage("q6", &in_default);
    case("Q6 no manifest in the namespace any more", q6.compare(&[], &[]), 0, &[]);
    let missed = q6.plan(&[]);
    assert!(kept(&missed).values().any(|why| why.starts_with("left-behind: namespace default")), "{missed:?}");
    assert!(missed.stderr.contains("in namespace default, which no manifest names any more"), "{}", missed.stderr);
    q6.component("d", &in_default.replace("name: q6,", "name: q6-other,"));
    case("Q6 one manifest in the namespace", q6.compare(&[], &[]), 1, &[]);

    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: q7}\nrules: []\n\
                ---\napiVersion: v1\nkind: Namespace\nmetadata: {name: q7-planted}\n";
    let q7 = with_garbage("q7", role);
    case("Q7 cluster-scoped garbage, a cluster-scoped manifest", q7.compare(&[], &[]), 2, &[]);
    q7.remove("ns");
    case("Q7 and no cluster-scoped manifest", q7.compare(&[], &[]), 0, &[]);

    let q8 = with_garbage("q8", &cm("x"));
    kubectl("annotate configmap x -n q8 qbec.io/component-");
    case("Q8 no component, -c web", q8.compare(&["-c", "web"], &["--component", "web"]), 0, &[]);
    case("Q8 no component, -C web", q8.compare(&["-C", "web"], &["--exclude-component", "web"]), 1, &[]);
    case("Q8 no component, no filter", q8.compare(&[], &[]), 1, &[]);

    let q10 = with_garbage("q10", &cm("x"));
    case("Q10 -k ConfigMaps", q10.compare(&["-k", "ConfigMaps"], &["--kind", "ConfigMaps"]), 1, &[]);
    let q11 = with_garbage("q11", &[&cm("x"), &*role.replace("q7", "q11")].concat());
    case("Q11 -p", q11.compare(&["-p", "q11"], &["--include-namespace", "q11"]), 1, &[]);
    let cluster_objects = ["-p", "q11", "--include-cluster-objects"];
    let ours = ["--include-namespace", "q11", "--include-cluster-objects"];
    case("Q11 -p with cluster objects", q11.compare(&cluster_objects, &ours), 3, &[]);

    let other = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: q26-second}\n";
    let cm_in = |namespace: &str| cm("x").replace("{name: x}", &format!("{{name: x, namespace: {namespace}}}"));
    let q26 = with_garbage("q26", &[&*other.replace("second", "gone"), &cm_in("q26-gone")].concat());
    q26.component("second", &[other, &cm_in("q26-second")].concat()).apply(&[]);
    q26.configure("  clusterScopedLists: true\n");
    let everywhere = q26.compare(&[], &["--cluster-scoped-lists"]);
    case("seed: clusterScopedLists sees a vanished namespace", everywhere, 2, &[]);
    q26.configure("");
    case("seed: without it, it is missed", q26.compare(&[], &[]), 0, &[("Namespace/q26-gone", "cascade")]);
    table.tell("qbec-scope.txt");
}

#[test]
fn kinds_and_versions() {
    let _cluster = cluster();
    let mut table = Table::default();
    let crds = ["v1", "v1beta1", "v1alpha1"].map(|version| {
        format!(
            "  - {{name: {version}, served: true, storage: STORED, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
        )
    });
    let crd = |kind: &str, versions: &[String]| {
        let mut list = versions.concat().replacen("STORED", "true", 1);
        list = list.replace("STORED", "false");
        let plural = format!("{}s", kind.to_lowercase());
        format!(
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.mixed.example.com}}\n\
             spec:\n  group: mixed.example.com\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n{list}"
        )
    };
    plant(&[crd("A", &crds[..1]), crd("B", &crds[1..])].concat());
    kubectl("wait --for=condition=Established crd --all --timeout=30s");
    let q12 = new_app("q12");
    q12.component("b", "apiVersion: mixed.example.com/v1alpha1\nkind: B\nmetadata: {name: b}\n").apply(&[]);
    let recorded = snapshot(&cluster(), "q12");
    let wrong = (0..10).filter(|_| !q12.dry_run(&recorded, &[]).is_empty()).count();
    assert_eq!(rows(&q12.plan(&[])).len(), 0, "Q12");
    table.note(
        "Q12 two served versions, none preferred",
        &format!("qbec deletes a live object in {wrong} of 10 runs; ours never"),
    );

    let hpa = |version: &str| {
        format!(
            "apiVersion: autoscaling/{version}\nkind: HorizontalPodAutoscaler\nmetadata: {{name: web}}\n\
             spec: {{maxReplicas: 2, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}}}\n"
        )
    };
    let q13 = new_app("q13");
    q13.component("hpa", &hpa("v1")).apply(&[]);
    let same = q13.compare(&[], &[]);
    expect("Q13", &same, 0, &[]);
    table.add("Q13 an older version that is served", &same);
    q13.component("hpa", &hpa("v2beta2"));
    let version = q13.compare(&[], &[]);
    expect("Q14 version", &version, 0, &[("HorizontalPodAutoscaler/web", "desired")]);
    let warning = "the cluster does not serve horizontalpodautoscaler.autoscaling in version v2beta2";
    assert!(q13.plan(&[]).stderr.contains(warning), "{}", q13.plan(&[]).stderr);
    table.add("Q14 a version that is served no more", &version);

    let q14 = new_app("q14");
    let ingress = |api: &str| {
        format!(
            "apiVersion: {api}\nkind: Ingress\nmetadata: {{name: web}}\nspec: {{defaultBackend: {{service: {{name: a, port: {{number: 1}}}}}}}}\n"
        )
    };
    q14.component("i", &ingress("networking.k8s.io/v1")).apply(&[]).component("i", &ingress("extensions/v1beta1"));
    let group = q14.compare(&[], &[]);
    expect("Q14 group", &group, 0, &[("Ingress/web", "desired")]);
    table.add("Q14 a group that is served no more", &group);

    let q27 = with_garbage("q27", &cm("x"));
    q27.component("new", "apiVersion: later.example.com/v1\nkind: Later\nmetadata: {name: l}\n");
    let unknown = q27.compare(&[], &[]);
    expect("seed: unknown kind", &unknown, 1, &[]);
    assert!(q27.plan(&[]).stderr.contains("the cluster does not serve later.later.example.com"));
    table.add("seed: a kind that does not exist yet", &unknown);
    table.tell("qbec-kinds.txt");
}

#[test]
fn deleting_whole_applications_and_namespaces() {
    let _cluster = cluster();
    let mut table = Table::default();
    let q16 = new_app("q16");
    q16.component("web", &cm("keep")).apply(&[]);
    kubectl("annotate configmap keep -n q16 directives.qbec.io/delete-policy=never directives.qbec.io/apply-order=10");
    let recorded = snapshot(&cluster(), "q16");
    let theirs = super::app::uids(&recorded, &q16.deleted(&["delete", "-n", "dev"]));
    // A plan of everything for which the scope still is that of the manifests: only the namespace's is left.
    q16.remove("web").component("ns", "apiVersion: v1\nkind: Namespace\nmetadata: {name: q16-other}\n");
    let run = q16.plan(&[]);
    let difference = test_support::comparison::compare(&recorded, &theirs, &run);
    expect(
        "Q16",
        &difference,
        0,
        &[(
            "Namespace/q16",
            "cascade: it would also delete configmap/keep -n q16, which directives.qbec.io/delete-policy=never protects",
        )],
    );
    table.add("Q16 protection comes after its namespace", &difference);

    let q9 = with_garbage("q9", &cm("x"));
    let refused = q9.qbec(&["apply", "-n", "dev", "-c", "old"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("bad component reference"));
    let recorded = snapshot(&cluster(), "q9");
    let theirs = super::app::uids(&recorded, &q9.deleted(&["delete", "-n", "dev", "-c", "old"]));
    let difference = test_support::comparison::compare(&recorded, &theirs, &q9.plan(&["--component", "old"]));
    expect("Q9", &difference, 1, &[]);
    table.add("Q9 a component that is gone, as qbec delete -c", &difference);

    let q20 = app("q20");
    q20.remove("web").remove("ns");
    let refused = q20.plan(&[]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("the manifests contain no object"), "{}", refused.stderr);
    let difference = q20.compare(&[], &["--allow-empty"]);
    expect("Q20", &difference, 1, &[]);
    table.add("Q20 no manifest left: refused without --allow-empty", &difference);

    let q21 = with_garbage("q21", &cm("x"));
    let renamed = q21.renamed("q21b");
    renamed.apply(&[]);
    let run = renamed.plan(&[]);
    assert_eq!(rows(&run).len(), 0, "Q21: {run:?}");
    assert!(run.stderr.contains("the same namespaces contain 1 object of app q21, environment dev"), "{}", run.stderr);
    let old = renamed.renamed("q21").plan(&[]);
    assert_eq!(rows(&old).values().filter(|judged| judged.is_ok()).count(), 1, "under its old name it can be planned");
    table.note("Q21 renamed application", "0 and 0; its garbage is unreachable for qbec, named by ours");
    table.tell("qbec-deleting.txt");
}

#[test]
fn the_inventory_groups_by_application_environment_tag_and_component() {
    let _cluster = cluster();
    let app = new_app("census");
    app.component("web", &[cm("web"), cm("web-b")].concat()).component("mail", &cm("mail")).apply(&[]);
    app.component("pr", &cm("pr")).apply(&["-c", "pr", "--app-tag", "pr-1"]).remove("pr");
    app.component("p", &cm("p")).apply_to("prod", &["-c", "p"]).remove("p");
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n";
    app.component("secret", secret).apply(&["-c", "secret"]);
    let original = kubectl("get configmap mail -n census -o yaml");
    let own = ["  uid:", "  resourceVersion:", "  creationTimestamp:"];
    let lines: Vec<&str> = original.lines().filter(|line| !own.iter().any(|key| line.starts_with(key))).collect();
    plant(&lines.join("\n").replace("name: mail", "name: copy"));
    plant(&cm("bare").replace("{name: bare}", &format!("{{name: bare, namespace: census, {}}}", labels("census"))));
    kubectl("label configmap web-b -n census qbec.io/tag=");
    let say = |output: &str| {
        let args = ["inventory", "--by", "qbec", "-n", "census", "--no-headers", "-o", output];
        let run = test_support::gitops::gitops(&cluster(), &args);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(!run.stdout.contains("hunter2") && !run.stdout.contains("aHVudGVyMg"), "no content of a Secret");
        run.stdout
    };
    let words =
        |line: &str| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
    let rows: Vec<String> = say("table").lines().map(words).collect();
    let expected = [
        "census|dev|<none>|<none>|0|0|1",
        "census|dev|<none>|mail|1|1|0",
        "census|dev|<none>|secret|1|0|0",
        "census|dev|<none>|web|1|0|0",
        "census|dev|\"\"|web|1|0|0|qbec cannot select an empty tag",
        "census|dev|pr-1|pr|1|0|0",
        "census|prod|<none>|p|1|0|0",
    ];
    assert_eq!(rows, expected);
    let wide = say("wide");
    let of = |name: &str| wide.lines().map(words).find(|line| line.contains(&format!("|{name}|"))).unwrap();
    assert!(of("copy").contains("|copied|") && of("copy").ends_with("last-applied names another object"), "{wide}");
    assert!(
        of("bare").contains("|unproven|") && of("mail").starts_with("census|dev|<none>|mail|census|ConfigMap|"),
        "{wide}"
    );
    let json: serde_json::Value = serde_json::from_str(&say("json")).unwrap();
    assert_eq!(json["labelReport"]["qbec"].as_array().unwrap().len(), expected.len());
}

#[test]
fn q24_a_tag_that_is_too_long_is_refused_before_anything_is_asked() {
    let _cluster = cluster();
    let app = with_garbage("q24", &cm("x"));
    let tag = "x".repeat(70);
    let theirs = app.qbec(&["apply", "-n", "dev", "--show-details=false", "--app-tag", &tag]);
    let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
    assert_eq!(theirs.status.code(), Some(1), "{said}");
    assert!(said.contains("list errors:") && said.contains("must be no more than 63"), "{said}");
    let ours = app.plan(&["--app-tag", &tag]);
    assert_eq!(ours.code, 2, "{ours:?}");
    assert!(ours.stderr.contains("tag has 70 characters, and a label value at most 63"), "{}", ours.stderr);
    let whole = "x".repeat(63);
    expect("63 characters", &app.compare(&["--app-tag", &whole], &["--app-tag", &whole]), 0, &[]);
}

#[test]
fn types_that_cannot_be_listed_make_the_plan_incomplete() {
    let _cluster = cluster();
    let q15 = with_garbage("q15", &cm("x"));
    plant(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: all, namespace: q15}\n\
         rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: q15-get, namespace: default}\n\
         rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get]}]\n",
    );
    kubectl("create rolebinding bob -n q15 --role=all --user=bob");
    kubectl("create rolebinding q15-bob -n default --role=q15-get --user=bob");
    q15.remove("ns").component("d", &cm("d").replace("{name: d}", "{name: d, namespace: default}"));
    let q15 = q15.of_user("bob");
    let theirs = q15.qbec(&["apply", "-n", "dev", "--show-details=false"]);
    assert!(String::from_utf8_lossy(&theirs.stderr).contains("not authorized to list"), "qbec ignores it: {theirs:?}");
    let ours = q15.plan(&["-n", "q15"]);
    assert_eq!(ours.code, 5, "{}", ours.stderr);
    assert!(ours.stdout.contains("\"complete\": false"), "{}", ours.stdout);
    let refused = q15.gitops(&["prune", "qbec", "-f", &q15.rendered(), "-n", "q15", "--yes", "--max-percent=100"]);
    assert_eq!(refused.code, 6, "{}", refused.stderr);
    assert!(refused.stderr.contains("the plan is incomplete"), "{}", refused.stderr);
}
