//! `guard` on servers without policies and on recorded clusters, and plans that it approves.

use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::referrer::Referrer;
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::plan::file::PlanFile;
use gitops_core::plan::{Action, Actor, Change, PinnedObject, Plan, ReasonCode};
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, gitops_as, gitops_without_kubeconfig};
use test_support::objects::{Build, object, snapshot};

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/v1";
const POLICY: (&str, &str, &str, bool) =
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false);

/// A recorded cluster with a controller, and an owner with a service account.
fn recorded() -> Snapshot {
    let types =
        [POLICY, (KUSTOMIZE, "Kustomization", "kustomizations", true), ("apps/v1", "Deployment", "deployments", true)];
    let mut recorded = snapshot(&types, vec![object("apps/v1", "Deployment", "flux/kustomize-controller")]);
    recorded.cluster.uid = "here".to_owned();
    let owner = object(KUSTOMIZE, "Kustomization", "shop/apps");
    recorded.objects.push(owner.clone());
    recorded.resources.push(owner.with_content(json!({"spec": {"serviceAccountName": "team"}})));
    recorded.normalise();
    recorded
}

fn guard(recorded: &Snapshot, more: &[&str]) -> Run {
    let folder = Folder::new("guard");
    let file = folder.write("cluster.json", serde_json::to_vec(recorded).unwrap());
    gitops_without_kubeconfig(folder.path(), &[&["guard", "--snapshot", file.to_str().unwrap()], more].concat())
}

#[test]
fn a_server_before_1_30_is_refused_with_its_version() {
    let (folder, api) = (Folder::new("guard"), FakeApi::start());
    let beta = ("admissionregistration.k8s.io/v1beta1", POLICY.1, POLICY.2, POLICY.3);
    api.serve_types(&[("v1", "ConfigMap", "configmaps", true), beta]);
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", vec![])]);
    let policies = Answer::list("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", vec![]);
    api.on("GET /apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies", [policies]);
    api.on("GET /version", [Answer::json(json!({"gitVersion": "v1.29.3"}))]);
    for words in [&["guard", "--for-user", "flux"][..], &["guard", "--check", "--for-user", "flux"]] {
        let run = gitops_as(&api.kubeconfig(&folder), words);
        let what = "does not serve ValidatingAdmissionPolicy in admissionregistration.k8s.io/v1";
        assert!(run.code == 1 && run.stderr.contains(&format!("this API server (v1.29.3) {what}")), "{run}");
        assert!(run.stdout.is_empty() && run.stderr.contains("since 1.30"), "{run}");
    }
}

#[test]
fn a_recording_of_an_old_or_unread_server_is_refused_before_anything_is_planned() {
    let old =
        Snapshot { kube_version: "v1.29.3".to_owned(), ..snapshot(&[("v1", "ConfigMap", "configmaps", true)], vec![]) };
    let folder = Folder::new("guard-old");
    let file = folder.write("cluster.json", serde_json::to_vec(&old).unwrap());
    for words in [&["guard"][..], &["plan", ".", "-o", "vap"]] {
        let run = gitops_without_kubeconfig(folder.path(), &[words, &["--snapshot", file.to_str().unwrap()]].concat());
        let message = "error: the API server of this recording (v1.29.3) does not serve ValidatingAdmissionPolicy";
        assert!(run.code == 1 && run.stdout.is_empty() && run.stderr.contains(message), "{run}");
    }
    let mut unread = old;
    unread.gaps.push(Gap {
        kind: GapKind::StaleGroup,
        subject: "admissionregistration.k8s.io/v1".to_owned(),
        namespace: None,
        message: "no answer".to_owned(),
    });
    let run = guard(&unread, &[]);
    let message = "whether the API server has admission policies is not known: no answer";
    assert!(run.code == 1 && run.stderr.contains(message), "{run}");
}

#[test]
fn a_recorded_cluster_has_its_controllers_and_their_accounts() {
    let run = guard(&recorded(), &["-o", "json", "--for-user", "far", "--kinds", "volumes"]);
    assert_eq!(run.code, 0, "{run}");
    let list: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (Some("List"), Some(9)), "{run}");
    let condition = &list["items"][1]["spec"]["matchConditions"][0]["expression"];
    let users = ["far", "system:serviceaccount:flux:kustomize-controller", "system:serviceaccount:shop:team"];
    let users = users.map(|user| format!("\"{user}\"")).join(",\n  ");
    assert_eq!(*condition, format!("request.userInfo.username in [\n  {users}\n]"));
    assert!(run.stderr.contains("renew no Lease") && !run.stderr.contains("forgets"), "{run}");
    let yaml = guard(&recorded(), &["--controller-version", "1.8.3"]);
    assert_eq!((yaml.code, yaml.stdout.matches("---\n").count()), (0, 9), "{yaml}");
    assert!(yaml.stderr.contains("kustomize-controller 1.8.3 forgets an object that it may not delete"), "{yaml}");
    for (words, message) in [
        (&["--kinds", "pods"][..], "it must be one of namespaces, crds, volumes, owners, statefulsets"),
        (&["--controller-version", "x"], "invalid value \"x\" for --controller-version <VERSION>: it is no version"),
        (&["--check"], "cannot be used with"),
    ] {
        let run = guard(&recorded(), words);
        assert!(run.code == 2 && run.stderr.contains(message), "{run}");
    }
    let nobody = guard(&snapshot(&[POLICY], vec![]), &[]);
    assert!(nobody.code == 1 && nobody.stderr.contains("there is nobody to guard against"), "{nobody}");
}

#[test]
fn a_recording_has_the_account_of_a_controller_with_another_name() {
    let run = |pods: Value| {
        let mut renamed = recorded();
        let template = json!({"metadata": {"labels": {"app": "k"}}, "spec": pods});
        let content = json!({"spec": {"template": template}});
        let deployment = object("apps/v1", "Deployment", "flux/kustomize-controller").with_content(content);
        renamed.referrers = Some(Referrer::of_live(&deployment).into_iter().collect());
        guard(&renamed, &[])
    };
    for (pods, account) in [
        (json!({"serviceAccountName": "flux-applier"}), "flux-applier"),
        (json!({"serviceAccountName": "default"}), "default"),
        (json!({}), "default"),
    ] {
        let run = run(pods);
        assert!(run.stdout.contains(&format!("system:serviceaccount:flux:{account}\"")) && run.code == 0, "{run}");
        assert!(!run.stdout.contains("serviceaccount:flux:kustomize-controller"), "{run}");
    }
}

#[test]
fn only_a_plan_of_the_same_cluster_is_approved() {
    let folder = Folder::new("guard-plans");
    let plan = |uid: &str| {
        let cluster = ClusterIdentity { uid: uid.to_owned(), ..ClusterIdentity::default() };
        let file = folder.write(&format!("{uid}.json"), serde_json::to_vec(&Plan::new(cluster)).unwrap());
        file.to_str().unwrap().to_owned()
    };
    let run = guard(&recorded(), &["--approve", &plan("here")]);
    assert!(run.code == 0 && run.stdout.contains("kubectl-gitops/plan: sha256:"), "{run}");
    let run = guard(&recorded(), &["--approve", &plan("there")]);
    assert!(run.code == 6 && run.stderr.contains("is of another cluster") && run.stdout.is_empty(), "{run}");
    // A plan file that was edited no longer has its digest.
    let file = folder.path().join("edited.json");
    let plan =
        PlanFile { plan: Plan::new(ClusterIdentity { uid: "here".to_owned(), ..Default::default() }), execution: None };
    let (text, _) = plan.to_text().unwrap();
    std::fs::write(&file, text.replace("\"complete\": true", "\"complete\": false")).unwrap();
    let edited = guard(&recorded(), &["--approve", file.to_str().unwrap()]);
    assert!(
        edited.code == 1 && edited.stderr.contains("it was edited or damaged") && edited.stdout.is_empty(),
        "{edited}"
    );
    // The name of one object with the uid of another approves neither.
    let owner = recorded().objects.iter().find(|object| &*object.id.kind == "Kustomization").cloned().unwrap();
    let mut misnamed = Plan::new(ClusterIdentity { uid: "here".to_owned(), ..Default::default() });
    let other = PinnedObject { uid: "another".to_owned(), ..PinnedObject::from(&owner) };
    misnamed.add_changes([Change::new(
        Action::Delete,
        other,
        None,
        Actor::KustomizeController,
        ReasonCode::NotInBuild,
    )]);
    let file = folder.write("misnamed.json", PlanFile { plan: misnamed, execution: None }.to_text().unwrap().0);
    let run = guard(&recorded(), &["--approve", file.to_str().unwrap()]);
    assert!(run.code == 6 && run.stderr.contains("does not exist with that uid") && run.stdout.is_empty(), "{run}");
    let missing = guard(&recorded(), &["--approve", "/none.json"]);
    assert!(missing.code == 1 && missing.stderr.contains("cannot read plan /none.json"), "{missing}");
    assert!(!missing.stderr.contains("--show"), "{missing}");
}
