//! Scenarios of single rules of the controller: what takes effect of a changed spec, what blocks, and what is refused.

use super::scenarios::{BASE, Row};

const SUSPEND_K: &str = "patch kustomization k -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}";

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "suspension-undone-by-git",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        live: &[SUSPEND_K],
        after: &["root/k.yaml: ks k ./p suspend=false", "p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "field-of-another-manager-survives-the-parent",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        live: &[
            "patch kustomization k -n @ --type=merge --field-manager=node-fetch -p {\"spec\":{\"namePrefix\":\"x-\"}}",
        ],
        after: &["root/k.yaml: ks k ./p interval=5s", "p/a.yaml: cm b"],
        expect: &["delete configmap/x-a"],
        ..BASE
    },
    Row {
        name: "variable-of-another-manager-survives-the-parent",
        before: &["root/k.yaml: ks k ./p var:v=x", "p/a.yaml: cm a-${v} | cm c-${w:=none} | cm b"],
        live: &[
            "patch kustomization k -n @ --type=merge --field-manager=Lens -p {\"spec\":{\"postBuild\":{\"substitute\":{\"w\":\"set\"}}}}",
        ],
        after: &["root/k.yaml: ks k ./p var:v=y"],
        expect: &["delete configmap/a-x", "create configmap/a-y"],
        ..BASE
    },
    Row {
        name: "field-of-kubectl-is-taken-over",
        before: &["root/k.yaml: ks k ./p interval=1h", "p/a.yaml: cm a | cm b"],
        live: &[
            "patch kustomization root -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}",
            "patch kustomization k -n @ --type=merge --field-manager=kubectl-edit -p {\"spec\":{\"namePrefix\":\"x-\"}}",
            "patch kustomization root -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":false,\"interval\":\"1h\"}}",
        ],
        after: &["root/k.yaml: ks k ./p interval=30m"],
        ..BASE
    },
    Row {
        name: "child-applied-only-if-absent-keeps-its-spec",
        before: &["root/k.yaml: ks k ./p ssa=IfNotPresent", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./q ssa=IfNotPresent", "p/a.yaml: cm b", "q/z.yaml: cm z"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "ignored-field-of-a-child-keeps-its-value",
        before: &[
            "root/m.yaml: ks m ./m json:ignore=[{\"paths\":[\"/spec/path\"],\"target\":{\"kind\":\"Kustom.*\"}}]",
            "m/k.yaml: ks k ./p",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["m/k.yaml: ks k ./q interval=5s", "p/a.yaml: cm b", "q/z.yaml: cm z"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "ignored-field-that-the-manifest-drops",
        before: &[
            "root/m.yaml: ks m ./m json:ignore=[{\"paths\":[\"/spec/force\"],\"target\":{\"kind\":\"Kustom.*\"}}]",
            "m/k.yaml: ks k ./p force=true",
            "m/c.yaml: cm c",
            "p/a.yaml: cm a",
        ],
        after: &["m/k.yaml: ks k ./p interval=5s", "-m/c.yaml"],
        ..BASE
    },
    Row {
        name: "service-account-missing",
        cluster: &["sa s", "grant @-s s"],
        before: &["root/k.yaml: ks k ./p serviceAccountName=s", "p/a.yaml: cm a | cm b"],
        live: &["delete serviceaccount s -n @"],
        after: &["p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "ready-expression-that-is-true-of-a-failing-dependency",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.spec.prune==true\"}]",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["d/x.yaml:: broken: [", "p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "ready-expression-that-is-false-of-a-ready-dependency",
        before: &["root/k.yaml: ks d ./d | ks k ./p", "d/x.yaml: cm x", "p/a.yaml: cm a | cm b"],
        after: &[
            "root/k.yaml: ks d ./d | ks k ./p json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.spec.path==self.spec.path\"}]",
        ],
        ..BASE
    },
    Row {
        name: "ready-expression-that-is-false-and-a-removal",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.metadata.labels['app']=='v1'\"}]",
            "root/kustomization.yaml:: resources: [k.yaml];;patches:;;- patch: |;;    [{op: add, path: /metadata/labels, value: {app: v1}}];;  target: {kind: Kustomization, name: d}",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        after: &[
            "root/kustomization.yaml:: resources: [k.yaml];;patches:;;- patch: |;;    [{op: add, path: /metadata/labels, value: {app: v2}}];;  target: {kind: Kustomization, name: d}",
            "p/a.yaml: cm b",
        ],
        ..BASE
    },
    Row {
        name: "ready-expression-of-the-status",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.status.conditions.filter(c,~c.type=='Ready').all(c,~c.status=='True')\"}]",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "ready-expression-that-does-not-compile",
        before: &["root/k.yaml: ks d ./d | ks k ./p", "d/x.yaml: cm x", "p/a.yaml: cm a | cm b"],
        after: &[
            "root/k.yaml: ks d ./d | ks k ./q json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.spec.prune==\"}]",
            "q/z.yaml: cm z",
        ],
        ..BASE
    },
    Row {
        name: "variables-of-nobody",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a substitute=disabled | cm b substitute=disabled"],
        after: &["root/k.yaml: ks k ./p from=none", "p/a.yaml: cm b substitute=disabled"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "resource-with-items-is-a-list",
        before: &["root/crd.yaml: crd @.example.com", "root/k.yaml: ks k ./p", "p/w.yaml: widget w | cm a"],
        after: &[
            "p/w.yaml:: apiVersion: @.example.com/v1;;kind: Widget;;metadata: {name: w, namespace: @};;items:;;- {apiVersion: v1, kind: ConfigMap, metadata: {name: z, namespace: @}}",
        ],
        expect: &["delete widget.@.example.com/w", "create configmap/z", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "dependency-checks-the-health-of-what-goes",
        before: &[
            "root/k.yaml: ks d ./d json:healthChecks=[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\",\"namespace\":\"@\"}] | ks k ./p dependsOn=d",
            "d/x.yaml: cm x | cm y",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["d/x.yaml: cm y", "p/a.yaml: cm b"],
        expect: &["delete configmap/x"],
        ..BASE
    },
    Row {
        name: "dependency-waits-for-a-deployment-that-never-starts",
        before: &[
            "root/k.yaml: ks d ./d json:wait=true json:timeout=\"3s\" | ks k ./p",
            "d/x.yaml: deploy web",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["root/k.yaml: ks d ./d json:wait=true json:timeout=\"3s\" | ks k ./p dependsOn=d", "p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "dependency-that-is-terminating",
        before: &[
            "root/d.yaml: ks d ./d",
            "root/k.yaml: ks k ./p dependsOn=d",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        live: &[
            "patch kustomization d -n @ --type=merge --field-manager=flux -p {\"metadata\":{\"finalizers\":[\"finalizers.fluxcd.io\",\"example.com/hold\"]}}",
            "delete kustomization d -n @ --wait=false",
        ],
        after: &["p/a.yaml: cm b"],
        ..BASE
    },
    Row {
        name: "secret-with-keys-is-missing",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &[
            "root/k.yaml: ks k ./q json:decryption={\"provider\":\"sops\",\"secretRef\":{\"name\":\"none\"}}",
            "-p",
            "q/a.yaml: cm b",
        ],
        ..BASE
    },
    Row {
        name: "version-that-is-not-served",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &[
            "p/a.yaml: cm b",
            "p/d.yaml:: apiVersion: apps/v1beta1;;kind: Deployment;;metadata: {name: web, namespace: @}",
        ],
        ..BASE
    },
    Row {
        name: "substituted-value-is-a-number",
        before: &[
            "root/k.yaml: ks k ./p var:n=x",
            "p/a.yaml: cm a",
            "p/b.yaml:: apiVersion: v1;;kind: ConfigMap;;metadata: {name: b, namespace: @};;data:;;  v: ${n}",
        ],
        after: &["root/k.yaml: ks k ./p var:n=0123", "p/a.yaml: cm c"],
        ..BASE
    },
    Row {
        name: "substituted-label-is-no-text",
        before: &[
            "root/k.yaml: ks k ./p var:n=x",
            "p/a.yaml: cm a",
            "p/b.yaml:: apiVersion: v1;;kind: ConfigMap;;metadata:;;  name: b;;  namespace: @;;  labels:;;    x: ${n};;    kustomize.toolkit.fluxcd.io/ssa: Ignore",
        ],
        after: &["root/k.yaml: ks k ./p var:n=yes", "-p/a.yaml"],
        ..BASE
    },
    Row {
        name: "suffix-that-looks-like-an-octal-number",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a", "p/kustomization.yaml:: resources: [a.yaml]"],
        after: &["p/kustomization.yaml:: resources: [a.yaml];;nameSuffix: -01"],
        ..BASE
    },
    Row {
        name: "removed-child-without-its-finalizer",
        before: &["root/k.yaml: ks k ./p interval=1h", "p/a.yaml: cm a", "root/x.yaml: cm x"],
        live: &["patch kustomization k -n @ --type=merge --field-manager=flux -p {\"metadata\":{\"finalizers\":null}}"],
        after: &["-root/k.yaml"],
        ..BASE
    },
    Row {
        name: "health-expression-that-does-not-compile",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &[
            "root/k.yaml: ks k ./q json:healthCheckExprs=[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"current\":\"x~+\"}]",
            "-p",
            "q/a.yaml: cm b",
        ],
        ..BASE
    },
    Row {
        name: "namespace-with-a-dot",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/n.yaml: ns @.dot"],
        ..BASE
    },
    Row {
        name: "service-that-begins-with-a-digit",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b", "p/n.yaml: svc web.one"],
        ..BASE
    },
    Row {
        name: "variable-of-a-child-is-a-number",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["root/k.yaml: ks k ./q json:postBuild={\"substitute\":{\"n\":5}}", "q/a.yaml: cm b", "-p"],
        ..BASE
    },
    Row {
        name: "owner-reference-to-nobody",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        after: &[
            "p/o.yaml:: apiVersion: v1;;kind: ConfigMap;;metadata: {name: o, namespace: @, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: 00000000-0000-0000-0000-000000000001}]}",
        ],
        ..BASE
    },
    Row {
        name: "owner-held-by-a-finalizer-keeps-its-dependents",
        before: &["root/a.yaml: cm a | deploy web finalizer=example.com/hold"],
        after: &["root/a.yaml: cm a"],
        expect: &["delete deployment.apps/web"],
        ..BASE
    },
    Row {
        name: "named-owner-has-a-new-child",
        before: &["root/x.yaml: cm x"],
        after: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a"],
        flags: &["kustomization/root", "-n", "@"],
        expect: &["create configmap/a"],
        ..BASE
    },
    Row {
        name: "named-owner-adopts-a-child",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b", "root/x.yaml: cm x"],
        live: &["label kustomization k -n @ --field-manager=someone kustomize.toolkit.fluxcd.io/name-"],
        after: &["p/a.yaml: cm b"],
        flags: &["kustomization/root", "-n", "@"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "owner-named-with-its-namespace",
        cluster: &["ns @-other", "ks k ./none ns=@-other suspend=true"],
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b"],
        flags: &["kustomization/k", "-n", "@"],
        expect: &["delete configmap/a"],
        ..BASE
    },
];
