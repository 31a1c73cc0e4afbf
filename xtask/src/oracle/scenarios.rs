//! Scenarios: a repository, an edit and the expected rows of the plan. Numbers in names are those of
//! docs/reference/kustomize-controller.md 8.

/// A repository, an edit of it, and the expected rows of the plan.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Unique name for the command line.
    pub name: String,
    /// Objects to apply with kubectl before the repository is published.
    pub cluster: Vec<String>,
    /// Files of the repository. The Kustomization `root` builds `./root`.
    pub before: Vec<String>,
    /// kubectl commands to run after the repository is published.
    pub live: Vec<String>,
    /// Edit to plan and then publish.
    pub after: Vec<String>,
    /// Additional flags of `prune --plan`.
    pub flags: &'static [&'static str],
    /// Flags of kustomize-controller. Scenarios with the same flags share a cluster.
    pub controller: &'static [&'static str],
    /// Further sources of the same repository, as `KIND/NAME`.
    pub sources: &'static [&'static str],
    /// The plan says that it is incomplete.
    pub incomplete: bool,
    /// The plan may say that it is incomplete, as in a random repository.
    pub may_be_incomplete: bool,
    /// Its Kustomizations reconcile on request, not at short intervals, so that more scenarios can run at the same time.
    pub is_on_request: bool,
    /// What the controller must have done to objects, as `ACTION KIND/NAME`, where the plan has no row.
    pub happens: Vec<String>,
    /// Rows that the plan must contain, as `ACTION KIND/NAME`.
    pub expect: Vec<String>,
}

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) cluster: &'static [&'static str],
    pub(super) before: &'static [&'static str],
    pub(super) live: &'static [&'static str],
    pub(super) after: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
    pub(super) controller: &'static [&'static str],
    pub(super) sources: &'static [&'static str],
    pub(super) incomplete: bool,
    pub(super) happens: &'static [&'static str],
    pub(super) expect: &'static [&'static str],
}

pub(super) const BASE: Row = Row {
    name: "",
    cluster: &[],
    before: &[],
    live: &[],
    after: &[],
    flags: &[],
    controller: &[],
    sources: &[],
    incomplete: false,
    happens: &[],
    expect: &[],
};

/// Returns every scenario of the table.
pub fn all() -> Vec<Scenario> {
    ROWS.iter()
        .chain(super::rules::ROWS)
        .chain(super::containers::ROWS)
        .chain(super::controllers::ROWS)
        .chain(super::dependencies::ROWS)
        .map(Row::scenario)
        .collect()
}

impl Row {
    fn scenario(&self) -> Scenario {
        Scenario {
            name: self.name.to_owned(),
            cluster: owned(self.cluster),
            before: owned(self.before),
            live: owned(self.live),
            after: owned(self.after),
            flags: self.flags,
            controller: self.controller,
            sources: self.sources,
            incomplete: self.incomplete,
            may_be_incomplete: false,
            is_on_request: false,
            happens: owned(self.happens),
            expect: owned(self.expect),
        }
    }
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

const ROWS: &[Row] = &[
    Row {
        name: "removed-file",
        before: &["root/a.yaml: cm a", "root/b.yaml: cm b"],
        after: &["-root/b.yaml", "root/c.yaml: cm c"],
        expect: &["delete configmap/b", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "01-path-without-manifests",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["-p/a.yaml", "p/README.md:: hello"],
        expect: &["delete configmap/a", "delete configmap/b"],
        ..BASE
    },
    Row { name: "02-path-missing", before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"], after: &["-p"], ..BASE },
    Row {
        name: "03-empty-kustomization-file",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        after: &["p/kustomization.yaml:: "],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "05-protected-by-one-of-two-owners",
        before: &[
            "root/k.yaml: ks a ./a interval=1h | ks b ./b interval=1h dependsOn=a",
            "a/a.yaml: cm a | cm m prune=disabled",
            "b/b.yaml: cm b | cm m",
        ],
        live: &["patch kustomization a -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}"],
        after: &["root/k.yaml: ks a ./a interval=1h | ks b ./b interval=1h", "b/b.yaml: cm b"],
        expect: &["delete configmap/m"],
        ..BASE
    },
    Row {
        name: "06-protected-and-removed-in-one-commit",
        before: &["root/a.yaml: cm a | cm b"],
        after: &["root/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "06-protected-earlier",
        before: &["root/a.yaml: cm a prune=disabled | cm b"],
        after: &["root/a.yaml: cm b"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "guard-in-any-case",
        before: &["root/a.yaml: cm a prune=Disabled | cm b label:kustomize.toolkit.fluxcd.io/prune=DISABLED | cm c"],
        after: &["root/a.yaml: cm c"],
        expect: &["keep configmap/a", "keep configmap/b"],
        ..BASE
    },
    Row {
        name: "07-suspended-child-removed",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        live: &["patch kustomization k -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}"],
        after: &["-root/k.yaml", "root/x.yaml: cm x"],
        expect: &["delete kustomization.kustomize.toolkit.fluxcd.io/k", "keep configmap/a"],
        ..BASE
    },
    Row {
        name: "08-child-without-prune-removed",
        before: &["root/k.yaml: ks k ./p prune=false", "p/a.yaml: cm a", "root/x.yaml: cm x"],
        after: &["-root/k.yaml"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "08-child-with-policy-delete-removed",
        before: &["root/k.yaml: ks k ./p prune=false deletionPolicy=Delete", "p/a.yaml: cm a", "root/x.yaml: cm x"],
        after: &["-root/k.yaml"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "08-child-with-policy-orphan-removed",
        before: &["root/k.yaml: ks k ./p deletionPolicy=Orphan", "p/a.yaml: cm a", "root/x.yaml: cm x"],
        after: &["-root/k.yaml"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "09-child-and-grandchild-removed",
        before: &[
            "root/k.yaml: ks k ./p",
            "p/g.yaml: ks g ./q",
            "p/a.yaml: cm a",
            "q/b.yaml: cm b",
            "root/x.yaml: cm x",
        ],
        after: &["-root/k.yaml", "-p", "-q"],
        expect: &["delete configmap/a", "delete configmap/b"],
        ..BASE
    },
    Row {
        name: "10-prune-off-and-removed-in-one-commit",
        before: &["root/k.yaml: ks k ./p prune=false", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "11-moved-from-parent-to-new-child",
        before: &["root/a.yaml: cm a", "root/x.yaml: cm x"],
        after: &["-root/a.yaml", "root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        expect: &["recreate configmap/a"],
        ..BASE
    },
    Row {
        name: "12-child-renamed",
        before: &["root/k.yaml: ks old ./p", "p/a.yaml: cm a"],
        after: &["root/k.yaml: ks new ./p"],
        expect: &["recreate configmap/a"],
        ..BASE
    },
    Row {
        name: "12-child-renamed-and-its-child-no-longer-orphans",
        before: &["root/k.yaml: ks old ./p", "p/g.yaml: ks g ./q deletionPolicy=Orphan", "q/a.yaml: cm a"],
        after: &["root/k.yaml: ks new ./p", "p/g.yaml: ks g ./q"],
        expect: &["recreate configmap/a"],
        ..BASE
    },
    Row {
        name: "13-path-changed-old-directory-stays",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b", "q/z.yaml: cm z"],
        after: &["root/k.yaml: ks k ./q", "p/a.yaml: cm b", "q/z.yaml: cm a | cm b"],
        expect: &["recreate configmap/a"],
        ..BASE
    },
    Row {
        name: "path-changed-old-directory-gone",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./q", "-p", "q/z.yaml: cm a"],
        expect: &["delete configmap/b"],
        ..BASE
    },
    Row {
        name: "mistyped-path",
        before: &["root/k.yaml: ks k ./aps", "aps/a.yaml: cm a | cm b", "typo/README.md:: x"],
        after: &["root/k.yaml: ks k ./typo"],
        expect: &["delete configmap/a", "delete configmap/b"],
        ..BASE
    },
    Row {
        name: "mistyped-path-that-is-missing",
        before: &["root/k.yaml: ks k ./aps", "aps/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./nowhere"],
        ..BASE
    },
    Row {
        name: "14-forced-and-invalid",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: svc web force=enabled | cm a | cm b"],
        after: &["p/a.yaml: svc web force=enabled port=99999 | cm b | cm c"],
        expect: &["delete service/web", "keep configmap/a"],
        ..BASE
    },
    Row {
        name: "14-forced-by-the-kustomization",
        before: &["root/k.yaml: ks k ./p force=true", "p/a.yaml: deploy web | cm a | cm b"],
        after: &["p/a.yaml: deploy web selects=other | cm b | cm c"],
        expect: &["recreate deployment.apps/web", "delete configmap/a", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "15-immutable-without-force",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: deploy web | cm a | cm b"],
        after: &["p/a.yaml: deploy web selects=other | cm b | cm c | ns @-early"],
        expect: &["unknown deployment.apps/web", "keep configmap/a", "create namespace/@-early"],
        ..BASE
    },
    Row {
        name: "15-dependants-of-what-is-refused",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p dependsOn=d | ks free ./f",
            "d/a.yaml: deploy web",
            "p/a.yaml: cm a | cm b",
            "f/a.yaml: cm x | cm y",
        ],
        after: &["d/a.yaml: deploy web selects=other", "p/a.yaml: cm b", "f/a.yaml: cm x"],
        expect: &["delete configmap/y"],
        ..BASE
    },
    Row {
        name: "15-refused-with-the-old-spec-too",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: deploy web | cm a | cm b"],
        after: &[
            "root/k.yaml: ks k ./q",
            "p/a.yaml: deploy web selects=other | cm b",
            "q/a.yaml: deploy web selects=other | cm b",
        ],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "15-refused-in-a-new-namespace",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/n.yaml: ns @-new | svc bad ns=@-new port=99999"],
        expect: &["keep configmap/a", "create namespace/@-new", "unknown service/bad"],
        ..BASE
    },
    Row {
        name: "refused-by-a-policy",
        cluster: &["policy @-held op=UPDATE deny=held", "binding @-held"],
        before: &["root/k.yaml: ks k ./p | ks d ./d dependsOn=k", "p/a.yaml: cm a | cm b", "d/x.yaml: cm x | cm y"],
        after: &["p/a.yaml: cm b v=held", "d/x.yaml: cm x"],
        expect: &["unknown configmap/b", "keep configmap/a"],
        ..BASE
    },
    Row {
        name: "deletion-refused-by-a-policy",
        cluster: &["policy @-kept op=DELETE deny=held", "binding @-kept"],
        before: &[
            "root/k.yaml: ks k ./p | ks d ./d dependsOn=k",
            "p/a.yaml: cm held | cm b | cm c",
            "d/x.yaml: cm x | cm y",
        ],
        after: &["p/a.yaml: cm b", "d/x.yaml: cm x"],
        expect: &["keep configmap/held", "delete configmap/c"],
        ..BASE
    },
    Row {
        name: "service-account-that-may-not-delete",
        cluster: &["sa team", "role team verbs=get,list,create,patch", "bind team"],
        before: &["root/k.yaml: ks k ./p serviceAccountName=team", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b | cm c"],
        expect: &["keep configmap/a", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "service-account-that-may-not-create",
        cluster: &["sa team", "role team verbs=get,list,create,patch,delete", "bind team"],
        before: &["root/k.yaml: ks k ./p serviceAccountName=team", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/r.yaml: cr @-role"],
        expect: &["keep configmap/a", "unknown clusterrole.rbac.authorization.k8s.io/@-role"],
        ..BASE
    },
    Row {
        name: "16-object-without-namespace",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b ns=none", "p/n.yaml: ns @-early"],
        expect: &["create namespace/@-early"],
        ..BASE
    },
    Row {
        name: "16-unknown-kind",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b | widget w"],
        ..BASE
    },
    Row {
        name: "namespace-that-does-not-exist",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b ns=@-none"],
        ..BASE
    },
    Row {
        name: "17-namespace-removed-with-others-objects",
        before: &[
            "root/ns.yaml: ns @-shop",
            "root/k.yaml: ks k ./p dependsOn=root2",
            "root/r.yaml: ks root2 ./r",
            "r/x.yaml: cm x",
            "p/a.yaml: cm a ns=@-shop | cm out",
        ],
        after: &["-root/ns.yaml"],
        expect: &["delete namespace/@-shop", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "18-target-namespace-renames-namespace",
        before: &["root/k.yaml: ks k ./p targetNamespace=@-target", "p/ns.yaml: ns whatever", "p/a.yaml: cm a"],
        after: &["-p/ns.yaml"],
        expect: &["delete namespace/@-target"],
        ..BASE
    },
    Row {
        name: "19-cluster-role-names",
        before: &["root/a.yaml: cr @:colon:x | cr @__under | cr @_one", "root/x.yaml: cm x"],
        after: &["-root/a.yaml"],
        expect: &[
            "delete clusterrole.rbac.authorization.k8s.io/@:colon:x",
            "keep clusterrole.rbac.authorization.k8s.io/@__under",
        ],
        ..BASE
    },
    Row {
        name: "24-definition-removed-with-others-resources",
        before: &["root/crd.yaml: crd @.example.com", "root/k.yaml: ks k ./p", "p/w.yaml: widget w | cm a"],
        after: &["-root/crd.yaml", "p/w.yaml: cm a"],
        expect: &["delete widget.@.example.com/w"],
        ..BASE
    },
    Row {
        name: "25-depends-on-something-removed",
        before: &[
            "root/d.yaml: ks d ./d",
            "root/k.yaml: ks k ./p dependsOn=d",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["-root/d.yaml", "p/a.yaml: cm b"],
        expect: &["delete configmap/x"],
        ..BASE
    },
    Row {
        name: "26-suspended-parent",
        before: &["root/m.yaml: ks m ./m", "m/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b", "q/z.yaml: cm z"],
        live: &["patch kustomization m -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}"],
        after: &["m/k.yaml: ks k ./q", "p/a.yaml: cm b | cm c"],
        expect: &["delete configmap/a", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "27-child-suspended-by-flux",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        live: &["patch kustomization k -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}"],
        after: &["p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "29-manifest-becomes-a-symlink",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b", "p/c.yaml: cm c", "r/x.yaml: cm a | cm b"],
        after: &["-p/a.yaml", "p/a.yaml -> ../r/x.yaml"],
        expect: &["delete configmap/a", "delete configmap/b"],
        ..BASE
    },
    Row {
        name: "29-listed-manifest-becomes-a-symlink",
        before: &[
            "root/k.yaml: ks k ./p",
            "p/kustomization.yaml:: resources: [a.yaml, c.yaml]",
            "p/a.yaml: cm a | cm b",
            "p/c.yaml: cm c | cm d",
            "r/x.yaml: cm a",
        ],
        after: &["-p/a.yaml", "p/a.yaml -> ../r/x.yaml", "p/c.yaml: cm c"],
        ..BASE
    },
    Row {
        name: "30-local-config",
        before: &["root/a.yaml: cm a | cm b"],
        after: &["root/a.yaml: cm a note:config.kubernetes.io/local-config=true | cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "30-patch-delete",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b", "p/kustomization.yaml:: resources: [a.yaml]"],
        after: &[
            "p/kustomization.yaml:: resources: [a.yaml];;patches:;;- patch: |;;    apiVersion: v1;;    kind: ConfigMap;;    metadata: {name: a, namespace: @};;    $patch: delete",
        ],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "31-values-file-in-plain-directory",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/values.yaml:: replicas: 2"],
        ..BASE
    },
    Row {
        name: "33-variables-become-empty",
        cluster: &["cm vars v=x"],
        before: &["root/k.yaml: ks k ./p from=vars", "p/a.yaml: cm a-${v} | cm b"],
        live: &["patch configmap vars -n @ --type=json -p [{\"op\":\"remove\",\"path\":\"/data/v\"}]"],
        after: &["p/c.yaml: cm c"],
        ..BASE
    },
    Row {
        name: "variables-change-in-the-same-commit",
        before: &["root/a.yaml: cm vars v=x", "root/k.yaml: ks k ./p from=vars", "p/a.yaml: cm a-${v} | cm b"],
        after: &["root/a.yaml: cm vars v=y"],
        expect: &["delete configmap/a-x", "create configmap/a-y"],
        ..BASE
    },
    Row {
        name: "variables-change-and-something-else-goes",
        before: &[
            "root/k.yaml: ks v ./v | ks k ./p from=vars",
            "v/v.yaml: cm vars v=x",
            "p/a.yaml: cm a-${v} | cm b | cm c-${v} prune=disabled",
        ],
        after: &["v/v.yaml: cm vars v=y", "p/a.yaml: cm a-${v}"],
        expect: &["delete configmap/a-x", "delete configmap/b", "keep configmap/c-x", "create configmap/a-y"],
        ..BASE
    },
    Row {
        name: "variables-of-a-dependency-change",
        before: &[
            "root/k.yaml: ks v ./v | ks k ./p from=vars dependsOn=v",
            "v/v.yaml: cm vars v=x",
            "p/a.yaml: cm a-${v} | cm b",
        ],
        after: &["v/v.yaml: cm vars v=y", "p/a.yaml: cm a-${v} | cm c-${v} prune=disabled"],
        expect: &["delete configmap/a-x", "create configmap/a-y", "create configmap/c-y"],
        ..BASE
    },
    Row {
        name: "variables-come-with-their-user",
        before: &["root/x.yaml: cm x"],
        after: &["root/a.yaml: cm vars v=x", "root/k.yaml: ks k ./p from=vars", "p/a.yaml: cm a-${v}"],
        expect: &["create configmap/a-x"],
        ..BASE
    },
    Row {
        name: "variables-go",
        before: &["root/a.yaml: cm vars v=x | cm x", "root/k.yaml: ks k ./p from=vars", "p/a.yaml: cm a-${v} | cm b"],
        after: &["root/a.yaml: cm x"],
        expect: &["delete configmap/vars"],
        ..BASE
    },
    Row {
        name: "variables-of-its-own",
        cluster: &["cm vars v=x"],
        before: &["root/k.yaml: ks k ./p from=vars", "p/a.yaml: cm a-${v} | cm vars v=x"],
        after: &["p/a.yaml: cm a-${v} | cm vars v=y"],
        expect: &["delete configmap/a-x", "create configmap/a-y"],
        ..BASE
    },
    Row {
        name: "variables-unset-by-the-change",
        before: &["root/k.yaml: ks v ./v | ks k ./p from=vars", "v/v.yaml: cm vars v=x", "p/a.yaml: cm a-${v} | cm b"],
        after: &[
            "-v/v.yaml",
            "v/v.yaml:: apiVersion: v1;;kind: ConfigMap;;metadata: {name: vars, namespace: @};;data: {w: x}",
        ],
        ..BASE
    },
    Row {
        name: "substituted-name-changes",
        before: &["root/k.yaml: ks k ./p var:v=x", "p/a.yaml: cm a-${v} | cm b"],
        after: &["root/k.yaml: ks k ./p var:v=y"],
        expect: &["delete configmap/a-x", "create configmap/a-y"],
        ..BASE
    },
    Row {
        name: "variable-unset-under-strict",
        before: &["root/k.yaml: ks k ./p var:v=x", "p/a.yaml: cm a-${v} | cm b"],
        after: &["p/a.yaml: cm a-${v}-${w}"],
        ..BASE
    },
    Row {
        name: "34-if-not-present-removed",
        before: &["root/a.yaml: cm a ssa=IfNotPresent | cm b"],
        after: &["root/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "34-if-not-present-foreign",
        cluster: &["cm a"],
        before: &["root/a.yaml: cm a ssa=IfNotPresent | cm b"],
        after: &["root/a.yaml: cm b"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "34-ignore-in-git-only",
        cluster: &["cm a"],
        before: &["root/a.yaml: cm a ssa=Ignore | cm b | cm never ssa=Ignore"],
        after: &["root/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "reconcile-disabled-live",
        before: &["root/a.yaml: cm a | cm b"],
        live: &["annotate configmap a -n @ kustomize.toolkit.fluxcd.io/reconcile=disabled"],
        after: &["root/a.yaml: cm b"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "35-foreign-object-adopted-and-removed",
        cluster: &["cm a"],
        before: &["root/a.yaml: cm a | cm b"],
        after: &["root/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "41-name-that-is-no-label",
        before: &["root/x.yaml: cm x"],
        after: &[
            "root/k.yaml: ks a-name-of-a-kustomization-that-is-longer-than-sixty-three-characters ./p",
            "p/a.yaml: cm a | ns @-early",
        ],
        expect: &[
            "create kustomization.kustomize.toolkit.fluxcd.io/a-name-of-a-kustomization-that-is-longer-than-sixty-three-characters",
        ],
        ..BASE
    },
    Row {
        name: "42-flux-kustomization-as-kustomization-file",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/kustomization.yaml: ks z ./z"],
        ..BASE
    },
    Row {
        name: "label-edited-away",
        before: &["root/a.yaml: cm a | cm b"],
        live: &["label configmap a -n @ --overwrite --field-manager=someone kustomize.toolkit.fluxcd.io/name=other"],
        after: &["root/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "common-metadata-overwrites-the-label",
        before: &["root/k.yaml: ks k ./p common=nobody", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b"],
        expect: &["keep configmap/a"],
        ..BASE
    },
    Row {
        name: "new-nested-children",
        before: &["root/x.yaml: cm x"],
        after: &["root/k.yaml: ks k ./p", "p/g.yaml: ks g ./q", "q/n.yaml: ns @-deep", "q/a.yaml: cm a ns=@-deep"],
        expect: &["create namespace/@-deep", "create configmap/a"],
        ..BASE
    },
    Row {
        name: "name-prefix-added",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a", "p/g.yaml: ks g ./q", "q/b.yaml: cm b"],
        after: &["root/k.yaml: ks k ./p namePrefix=new-"],
        expect: &["delete configmap/a", "create configmap/new-a", "recreate configmap/b"],
        ..BASE
    },
    Row {
        name: "dependent-moved-to-its-dependency",
        before: &[
            "root/a.yaml: ks a ./a dependsOn=b",
            "root/b.yaml: ks b ./b",
            "a/a.yaml: cm a | cm m",
            "b/b.yaml: cm b",
        ],
        after: &["a/a.yaml: cm a", "b/b.yaml: cm b | cm m"],
        expect: &["keep configmap/m"],
        ..BASE
    },
    Row {
        name: "dependency-gives-to-its-dependent",
        before: &[
            "root/a.yaml: ks a ./a dependsOn=b",
            "root/b.yaml: ks b ./b",
            "a/a.yaml: cm a",
            "b/b.yaml: cm b | cm m",
        ],
        after: &["a/a.yaml: cm a | cm m", "b/b.yaml: cm b"],
        expect: &["recreate configmap/m"],
        ..BASE
    },
    Row {
        name: "two-owners-one-drops",
        before: &[
            "root/a.yaml: ks a ./a",
            "root/b.yaml: ks b ./b dependsOn=a",
            "a/a.yaml: cm a | cm m",
            "b/b.yaml: cm b | cm m",
        ],
        after: &["a/a.yaml: cm a"],
        ..BASE
    },
    Row {
        name: "child-and-everything-it-needs-becomes-invalid",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/broken.yaml:: a: [b"],
        ..BASE
    },
    Row {
        name: "duplicate-object",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/c.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "new-child-of-a-child-that-goes",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        after: &["-root/k.yaml", "p/c.yaml: ks c ./q", "q/b.yaml: cm b prune=disabled", "q/d.yaml: cm d"],
        expect: &["create configmap/b"],
        ..BASE
    },
    Row {
        name: "component-removed",
        before: &[
            "root/k.yaml: ks k ./p components=../c",
            "p/a.yaml: cm a",
            "c/kustomization.yaml:: apiVersion: kustomize.config.k8s.io/v1alpha1;;kind: Component;;resources: [b.yaml]",
            "c/b.yaml: cm b",
        ],
        after: &["root/k.yaml: ks k ./p"],
        expect: &["delete configmap/b"],
        ..BASE
    },
    Row {
        name: "generated-name-changes",
        before: &["root/kustomization.yaml:: namespace: @;;configMapGenerator: [{name: gen, literals: [a=1]}]"],
        after: &["root/kustomization.yaml:: namespace: @;;configMapGenerator: [{name: gen, literals: [a=2]}]"],
        ..BASE
    },
    Row {
        name: "deployment-removed-with-dependents",
        before: &["root/a.yaml: cm a | deploy web"],
        after: &["root/a.yaml: cm a"],
        expect: &["delete deployment.apps/web"],
        ..BASE
    },
    Row {
        name: "seed-six-applications-with-namespaces",
        before: &[
            "root/apps.yaml: ks apps ./apps",
            "apps/one.yaml: ks one ./one",
            "apps/two.yaml: ks two ./two",
            "apps/three.yaml: ks three ./three",
            "one/a.yaml: ns @-one | cm a ns=@-one",
            "two/a.yaml: ns @-two | cm a ns=@-two",
            "three/a.yaml: ns @-three | cm a ns=@-three",
            "aps/README.md:: a typo",
        ],
        after: &["root/apps.yaml: ks apps ./aps"],
        expect: &["delete namespace/@-one", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "self-managed-root-removed",
        before: &["root/self.yaml: ks root ./root", "root/a.yaml: cm a", "root/k.yaml: ks k ./p", "p/b.yaml: cm b"],
        after: &["-root/self.yaml"],
        expect: &["delete kustomization.kustomize.toolkit.fluxcd.io/root", "delete configmap/a", "delete configmap/b"],
        ..BASE
    },
    Row {
        name: "self-managed-root-changes-its-path",
        before: &["root/self.yaml: ks root ./root", "root/a.yaml: cm a | cm b"],
        after: &["root/self.yaml: ks root ./new", "new/self.yaml: ks root ./new", "new/a.yaml: cm b | cm c"],
        expect: &["delete configmap/a", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "source-ignored-by-kustomization",
        before: &[
            "root/k.yaml: ks k ./p",
            "p/kustomization.yaml:: resources: [a.yaml, b.yaml]",
            "p/a.yaml: cm a",
            "p/b.yaml: cm b",
        ],
        after: &["p/kustomization.yaml:: resources: [b.yaml]"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "lenient-root-file",
        before: &[
            "root/k.yaml: ks k ./p",
            "p/kustomization.yaml:: resources: [a.yaml];;unknownField: 1;;commonLabels: {x: true}",
            "p/a.yaml: cm a",
        ],
        after: &["p/kustomization.yaml:: Resources: [b.yaml];;unknownField: 1", "p/b.yaml: cm b"],
        expect: &["delete configmap/a", "create configmap/b"],
        ..BASE
    },
    Row {
        name: "reference-out-of-the-artifact",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/kustomization.yaml:: resources: [a.yaml, ../../x.yaml]"],
        ..BASE
    },
    Row {
        name: "22-service-account-removed-with-its-child",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a", "root/x.yaml: cm x | sa s"],
        after: &["-root/k.yaml", "root/x.yaml: cm x"],
        expect: &["delete configmap/a", "delete serviceaccount/s"],
        ..BASE
    },
    Row {
        name: "namespace-with-a-kustomization-removed",
        before: &[
            "root/ns.yaml: ns @-team",
            "root/k.yaml: ks k ./p ns=@-team source=@",
            "p/a.yaml: cm a",
            "root/x.yaml: cm x",
        ],
        after: &["-root/ns.yaml", "-root/k.yaml"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "10-prune-switched-off-with-the-removal",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./p prune=false", "p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "suspended-with-the-removal",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./p suspend=true", "p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "prune-switched-on-with-the-removal",
        before: &["root/k.yaml: ks k ./p prune=false", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./p", "p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "moved-between-siblings",
        before: &["root/k.yaml: ks a ./a | ks b ./b", "a/a.yaml: cm x | cm m", "b/b.yaml: cm y"],
        after: &["a/a.yaml: cm x", "b/b.yaml: cm y | cm m"],
        ..BASE
    },
    Row {
        name: "moved-from-child-to-parent",
        before: &["root/k.yaml: ks a ./a", "a/a.yaml: cm x | cm m"],
        after: &["a/a.yaml: cm x", "root/m.yaml: cm m"],
        ..BASE
    },
    Row {
        name: "name-suffix-and-grandchildren",
        before: &["root/k.yaml: ks k ./p", "p/g.yaml: ks g ./q", "q/h.yaml: ks h ./r", "r/a.yaml: cm a"],
        after: &["root/k.yaml: ks k ./p nameSuffix=-v2"],
        expect: &["recreate configmap/a"],
        ..BASE
    },
    Row {
        name: "target-namespace-changes",
        before: &["root/ns.yaml: ns @-one | ns @-two", "root/k.yaml: ks k ./p targetNamespace=@-one", "p/a.yaml: cm a"],
        after: &["root/k.yaml: ks k ./p targetNamespace=@-two"],
        expect: &["delete configmap/a -n @-one", "create configmap/a -n @-two"],
        ..BASE
    },
    Row {
        name: "dependency-becomes-broken",
        before: &["root/k.yaml: ks d ./d | ks k ./p dependsOn=d", "d/x.yaml: cm x", "p/a.yaml: cm a | cm b"],
        after: &["d/x.yaml:: broken: [", "p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "dependency-that-does-not-exist",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./p dependsOn=nobody"],
        ..BASE
    },
    Row {
        name: "namespace-moved-between-kustomizations-in-order",
        before: &["root/k.yaml: ks a ./a | ks b ./b dependsOn=a", "a/a.yaml: cm x | ns @-n", "b/b.yaml: cm y ns=@-n"],
        after: &["a/a.yaml: cm x", "b/b.yaml: cm y ns=@-n | ns @-n"],
        ..BASE
    },
    Row {
        name: "substitution-disabled-on-one-object",
        before: &["root/k.yaml: ks k ./p var:v=x", "p/a.yaml: cm a-${v} | cm b v=${v} substitute=disabled"],
        after: &["root/k.yaml: ks k ./p var:v=z"],
        expect: &["delete configmap/a-x", "create configmap/a-z"],
        ..BASE
    },
    Row {
        name: "parents-substitution-reaches-the-childs-path",
        before: &[
            "root/m.yaml: ks m ./m var:env=dev",
            "m/k.yaml: ks k ./${env}",
            "dev/a.yaml: cm a",
            "prod/b.yaml: cm b",
        ],
        after: &["root/m.yaml: ks m ./m var:env=prod"],
        expect: &["delete configmap/a", "create configmap/b"],
        ..BASE
    },
    Row {
        name: "patched-name",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./p patch=[{op:~replace,~path:~/metadata/labels,~value:~{x:~y}}]"],
        ..BASE
    },
    Row {
        name: "hidden-directories-are-built",
        before: &["root/k.yaml: ks k ./p", "p/.hidden/a.yaml: cm a", "p/b.yaml: cm b", "p/c.json:: {}"],
        after: &["-p/.hidden"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "nested-kustomization-file-takes-over",
        before: &["root/k.yaml: ks k ./p", "p/sub/a.yaml: cm a", "p/sub/b.yaml: cm b", "p/c.yaml: cm c"],
        after: &["p/sub/kustomization.yaml:: resources: [b.yaml]"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "unknown-field-in-a-nested-file",
        before: &["root/k.yaml: ks k ./p", "p/sub/a.yaml: cm a", "p/c.yaml: cm c"],
        after: &["p/sub/kustomization.yaml:: resources: [];;unknown: 1"],
        ..BASE
    },
];
