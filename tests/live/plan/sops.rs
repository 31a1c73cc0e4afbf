//! Plans of a tree that SOPS encrypts, compared with the effect of the real controller, which has the key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::flux::{kustomization, publish, settled};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use test_support::tree_plan::document;
use xtask::controlplane::bin;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

/// A checkout, its namespace, and the Kustomization `apps` of its root.
struct Site {
    namespace: &'static str,
    tree: PathBuf,
}

impl Site {
    /// Applies the first files, with the key of the fixtures where `decrypts`.
    fn new(namespace: &'static str, files: &[(&str, &str)], decrypts: bool) -> Self {
        let site = Self { namespace, tree: folder(namespace) };
        files.iter().for_each(|(name, content)| site.write(name, content));
        init(&site.tree);
        let cluster = &cluster();
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let key = format!("--from-file={}", fixtures().join("test-only.agekey").display());
        cluster.kubectl(&["create", "secret", "generic", "keys", "-n", namespace, &key]).unwrap();
        cluster.publish(&format!("GitRepository/{namespace}/src"), &site.tree).unwrap();
        let decryption =
            if decrypts { ", decryption: {provider: sops, secretRef: {name: keys}}" } else { ", force: false" };
        let manifest = kustomization(namespace, "apps", "./", decryption);
        cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
        site
    }

    fn ready(self) -> Self {
        settled(&cluster(), self.namespace, "apps");
        self
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.tree.join(name), content).unwrap();
    }

    fn plan(&self, more: &[&str]) -> Run {
        self.plan_of(&self.tree, more)
    }

    fn plan_of(&self, tree: &Path, more: &[&str]) -> Run {
        let source = format!("--source=GitRepository/{}/src={}", self.namespace, tree.display());
        let kustomize = format!("--kustomize={}", bin("kustomize").display());
        let fixed = ["prune", "--plan", "-n", self.namespace, &source, &kustomize];
        gitops(&cluster(), &[&fixed, more].concat())
    }

    /// Commits, publishes and waits until it is applied.
    fn publish(&self) {
        commit(&self.tree);
        publish(&cluster(), self.namespace, &self.tree);
    }

    /// `Kind/name` of what the Kustomization has.
    fn owned(&self) -> BTreeSet<String> {
        let label =
            format!("kustomize.toolkit.fluxcd.io/name=apps,kustomize.toolkit.fluxcd.io/namespace={}", self.namespace);
        let list = ["get", "secrets,configmaps,deployments", "-n", self.namespace, "-l", &label, "-o", "json"];
        let list: Value = serde_json::from_str(&cluster().kubectl(&list).unwrap()).unwrap();
        let name =
            |item: &Value| format!("{}/{}", item["kind"].as_str().unwrap(), item["metadata"]["name"].as_str().unwrap());
        list["items"].as_array().unwrap().iter().map(name).collect()
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sops")
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(fixtures().join(name)).unwrap()
}

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i, envFrom: [{secretRef: {name: env}}]}]}
";

/// Every way in which the controller decrypts: files of generators, patches, manifests.
fn everything(namespace: &str) -> Vec<(&'static str, String)> {
    let file = format!(
        "namespace: {namespace}\nresources: [secret.yaml, settings.yaml, deployment.yaml]\n\
         secretGenerator:\n- {{name: env, envs: [password.env]}}\n\
         - {{name: files, files: [config.yaml, config.json, config.ini, token.bin]}}\n\
         - {{name: fixed, envs: [password.env], options: {{disableNameSuffixHash: true}}}}\n\
         configMapGenerator:\n- {{name: text, files: [config.yaml]}}\n- {{name: plain, literals: [a=b]}}\n\
         patches: [{{path: patch.yaml}}]\n"
    );
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";
    let mut files = vec![("kustomization.yaml", file), ("settings.yaml", settings.to_owned())];
    files.push(("deployment.yaml", DEPLOYMENT.to_owned()));
    for name in ["secret.yaml", "password.env", "config.yaml", "config.json", "config.ini", "token.bin", "patch.yaml"] {
        files.push((name, fixture(name)));
    }
    files
}

fn borrowed<'a>(files: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    files.iter().map(|(name, content)| (*name, content.as_str())).collect()
}

/// `action certainty Kind/name` to the code of the reason.
fn rows(run: &Run) -> BTreeMap<String, String> {
    let text = |row: &Value, pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let row = |row: &Value| {
        let name = format!("{}/{}", text(row, "/object/kind"), text(row, "/object/name"));
        let reason = text(row, "/reason/code").to_owned();
        (format!("{} {} {name}", text(row, "/action"), text(row, "/certainty")), reason)
    };
    document(run)["changes"].as_array().unwrap().iter().map(row).collect()
}

fn expected(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(row, why)| ((*row).to_owned(), (*why).to_owned())).collect()
}

const DIFF: [&str; 4] = ["--diff", "--max-percent=100", "-o", "json"];
const JSON: [&str; 2] = ["-o", "json"];

#[test]
fn a_generated_secret_keeps_its_name_until_its_encrypted_content_changes() {
    let _cluster = cluster();
    let files = everything("sops-hash");
    let site = Site::new("sops-hash", &borrowed(&files), true).ready();
    let name = |kind: &str, base: &str, owned: &BTreeSet<String>| {
        let found: Vec<&String> = owned.iter().filter(|name| name.starts_with(&format!("{kind}/{base}-"))).collect();
        assert_eq!(found.len(), 1, "{owned:?}");
        found[0].clone()
    };

    // Nothing changed: nothing is said to go, and the dry-runs send nothing that is encrypted.
    let (quiet, diff) = (site.plan(&JSON), site.plan(&DIFF));
    assert_eq!((quiet.code, rows(&quiet)), (0, BTreeMap::new()), "{quiet:?}");
    assert_eq!((diff.code, rows(&diff)), (0, BTreeMap::new()), "{diff:?}");
    assert!(diff.stderr.contains("not compared, as they are encrypted"), "{}", diff.stderr);
    let owner = &document(&quiet)["owners"][0];
    assert_eq!(owner["fidelity"], "unknown");
    assert!(owner["reason"]["detail"].as_str().unwrap().starts_with("6 objects encrypted"), "{owner}");

    // One more recipient is no new content.
    let before = site.owned();
    site.write("password.env", &fixture("password-recipients.env"));
    let recipients = site.plan(&JSON);
    assert_eq!((recipients.code, rows(&recipients)), (0, BTreeMap::new()), "{recipients:?}");
    site.publish();
    assert_eq!(site.owned(), before);

    // A new value: the old one goes, and no name is invented for the new one.
    let old = name("Secret", "env", &before);
    site.write("password.env", &fixture("password-changed.env"));
    let changed = site.plan(&DIFF);
    let new = "create race Secret/env-??????????".to_owned();
    let both = expected(&[(&format!("delete race {old}"), "renamed"), (&new, "renamed")]);
    assert_eq!(rows(&changed), both, "{changed:?}");
    let listed = document(&changed);
    let mut not_compared = listed["notCompared"].as_array().unwrap().iter();
    assert!(not_compared.any(|id| id["kind"] == "Deployment" && id["name"] == "web"), "{listed}");
    assert_eq!(site.plan(&JSON).code, 0, "one of nine is within the limits");
    site.publish();
    let after = site.owned();
    assert!(!after.contains(&old) && name("Secret", "env", &after) != old, "{after:?}");
    let rest = |owned: &BTreeSet<String>| -> Vec<String> {
        owned.iter().filter(|name| !name.starts_with("Secret/env-")).cloned().collect()
    };
    assert_eq!(rest(&after), rest(&before));

    // Encrypted anew, the same plain text: that is the other end of the race.
    site.write("password.env", &fixture("password.env"));
    site.publish();
    let plain = site.owned();
    assert_eq!(plain, before, "the hash is one of the plain text");
    site.write("password.env", &fixture("password-rotated.env"));
    assert_eq!(rows(&site.plan(&DIFF)), both);
    site.publish();
    assert_eq!(site.owned(), plain);

    // Without the last applied revision it is not known.
    let bare = folder("sops-bare");
    for (name, content) in &files {
        std::fs::write(bare.join(name), content).unwrap();
    }
    let uncompared = site.plan_of(&bare, &JSON);
    let unknown = ["ConfigMap/text", "Secret/env", "Secret/files"].map(|object| {
        let (kind, base) = object.split_once('/').unwrap();
        (format!("unknown certain {}", name(kind, base, &plain)), "hash-unknown".to_owned())
    });
    assert_eq!((uncompared.code, rows(&uncompared)), (0, unknown.into()), "{uncompared:?}");
}

#[test]
fn a_new_generated_secret_has_no_name_yet_and_a_removed_one_goes() {
    let _cluster = cluster();
    let file =
        |more: &str| format!("namespace: sops-new\nsecretGenerator:\n- {{name: a, envs: [password.env]}}\n{more}");
    let first = [("kustomization.yaml", file("")), ("password.env", fixture("password.env"))];
    let site = Site::new("sops-new", &borrowed(&first), true).ready();
    let old = site.owned().into_iter().next().unwrap();
    site.write("token.bin", &fixture("token.bin"));
    site.write("kustomization.yaml", &file("- {name: b, files: [token.bin]}\n"));
    assert_eq!(rows(&site.plan(&JSON)), expected(&[("create certain Secret/b-??????????", "in-build")]));
    site.publish();
    assert_eq!(site.owned().len(), 2);
    site.write("kustomization.yaml", &file("").replace("name: a", "name: c"));
    let plan = site.plan(&["--max-percent=100", "-o", "json"]);
    let other = site.owned().into_iter().find(|name| name.contains("/b-")).unwrap();
    let gone = [format!("delete certain {old}"), format!("delete certain {other}")];
    let all =
        [(&*gone[0], "not-in-build"), (&gone[1], "not-in-build"), ("create certain Secret/c-??????????", "in-build")];
    assert_eq!(rows(&plan), expected(&all), "{plan:?}");
    site.publish();
    let after = site.owned();
    assert!(after.len() == 1 && after.first().unwrap().starts_with("Secret/c-"), "{after:?}");
}

#[test]
fn wholly_encrypted_files_are_applied_and_no_identity_is_guessed() {
    let _cluster = cluster();
    let plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: sops-whole}\n";
    let files = [("whole.yaml", fixture("whole.yaml")), ("plain.yaml", plain.to_owned())];
    let site = Site::new("sops-whole", &borrowed(&files), true).ready();
    assert!(site.owned().contains("Secret/whole"), "{:?}", site.owned());
    for quiet in [site.plan(&JSON), site.plan(&DIFF)] {
        assert_eq!((quiet.code, rows(&quiet)), (0, BTreeMap::new()), "{quiet:?}");
    }
    site.write("plain.yaml", &plain.replace("name: plain", "name: moved"));
    let moved = site.plan(&["--max-percent=100", "-o", "json"]);
    let both = [("create certain ConfigMap/moved", "in-build"), ("delete certain ConfigMap/plain", "not-in-build")];
    assert_eq!(rows(&moved), expected(&both), "{moved:?}");
    site.publish();
    site.write("whole.yaml", &fixture("whole-changed.yaml"));
    let changed = site.plan(&JSON);
    let both = [
        ("unknown certain ??????????/??????????", "identity-unknown"),
        ("unknown certain Secret/whole", "identity-unknown"),
    ];
    assert_eq!((changed.code, rows(&changed)), (0, expected(&both)), "{changed:?}");
    // Without what was applied last either may be it; at most one stays, so both count.
    let bare = folder("sops-whole-bare");
    std::fs::write(bare.join("whole.yaml"), fixture("whole.yaml")).unwrap();
    let gone = [
        ("delete race ConfigMap/moved", "not-in-build"),
        ("delete race Secret/whole", "not-in-build"),
        ("unknown certain ??????????/??????????", "identity-unknown"),
    ];
    let uncompared = site.plan_of(&bare, &JSON);
    assert_eq!((uncompared.code, rows(&uncompared)), (6, expected(&gone)), "{uncompared:?}");
    site.publish();
    let after = site.owned();
    assert!(after.contains("Secret/other") && !after.contains("Secret/whole"), "{after:?}");
}

#[test]
fn an_encrypted_secret_without_decryption_is_refused_where_its_data_cannot_be_data() {
    let _cluster = cluster();
    let inside = |fixture: String, namespace: &str| {
        fixture.replace("metadata:\n", &format!("metadata:\n    namespace: {namespace}\n"))
    };
    let site = Site::new("sops-none", &[("secret.yaml", &inside(fixture("secret-data.yaml"), "sops-none"))], false);
    let path = "jsonpath={.status.conditions[*].message}";
    let said = || cluster().kubectl(&["get", "kustomization", "apps", "-n", "sops-none", "-o", path]);
    let refused = || Ok(said()?.contains("configuring decryption is required"));
    cluster().wait_for("the refusal", LIMIT, refused).unwrap_or_else(|error| panic!("{error}: {:?}", said()));
    let plan = site.plan(&JSON);
    let owner = &document(&plan)["owners"][0];
    assert_eq!(owner["outcome"], "blocked", "{plan:?}");
    assert!(
        owner["reason"]["detail"].as_str().unwrap().contains("is encrypted and spec.decryption is not set"),
        "{owner}"
    );
    assert!(rows(&plan).is_empty() && site.owned().is_empty());

    // As text it is applied unchanged, and objects that left the build are pruned.
    let plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: sops-text}\n";
    let site = Site::new("sops-text", &[("plain.yaml", plain)], false).ready();
    site.write("secret.yaml", &inside(fixture("secret.yaml"), "sops-text"));
    std::fs::remove_file(site.tree.join("plain.yaml")).unwrap();
    let both = [("create certain Secret/plain-name", "in-build"), ("delete certain ConfigMap/plain", "not-in-build")];
    for more in [&DIFF[..], &DIFF[1..]] {
        assert_eq!(rows(&site.plan(more)), expected(&both), "{more:?}");
    }
    site.publish();
    assert_eq!(site.owned(), BTreeSet::from(["Secret/plain-name".to_owned()]));
    let value =
        ["get", "secret", "plain-name", "-n", "sops-text", "-o", "go-template={{.data.password | base64decode}}"];
    assert!(cluster().kubectl(&value).unwrap().starts_with("ENC[AES256_GCM,"), "the encrypted text is what is applied");
    let quiet = site.plan(&DIFF);
    assert_eq!((quiet.code, rows(&quiet)), (0, BTreeMap::new()), "{quiet:?}");
}

#[test]
fn a_patch_that_hides_what_it_patches_makes_the_plan_incomplete() {
    let _cluster = cluster();
    let file = "namespace: sops-patch\nresources: [settings.yaml]\npatches: [{path: patch.yaml}]\n";
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";
    let patch = fixture("whole-patch.yaml");
    let files = [("kustomization.yaml", file), ("settings.yaml", settings), ("patch.yaml", &*patch)];
    let site = Site::new("sops-patch", &files, true).ready();
    let value = ["get", "configmap", "settings", "-n", "sops-patch", "-o", "jsonpath={.data.extra}"];
    assert_eq!(cluster().kubectl(&value).unwrap(), "one", "the controller builds it");
    let plan = site.plan(&JSON);
    assert_eq!((plan.code, rows(&plan)), (5, BTreeMap::new()), "{plan:?}");
    let gap = &document(&plan)["gaps"][0];
    assert!(gap["message"].as_str().unwrap().contains("the target of the patch patch.yaml is encrypted"), "{gap}");
}
