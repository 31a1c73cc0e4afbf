//! Scenarios of further sources and of dependencies: with an expression, of other sources, and in cycles.

use super::scenarios::{BASE, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "ready-expression-that-is-true-at-once",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p json:dependsOn=[{\"name\":\"d\",\"readyExpr\":\"dep.spec.prune==true\"}]",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm m",
        ],
        after: &["d/x.yaml: cm x | cm m", "p/a.yaml: cm a"],
        ..BASE
    },
    Row {
        name: "variables-of-a-dependency-whose-expression-is-true-at-once",
        before: &[
            "root/k.yaml: ks v ./v | ks k ./p from=vars json:dependsOn=[{\"name\":\"v\",\"readyExpr\":\"dep.spec.prune==true\"}]",
            "v/v.yaml: cm vars v=x",
            "p/a.yaml: cm a-${v} | cm b",
        ],
        after: &["v/v.yaml: cm vars v=y", "p/a.yaml: cm a-${v} | cm c-${v} prune=disabled"],
        expect: &["delete configmap/a-x", "create configmap/a-y", "create configmap/c-x", "create configmap/c-y"],
        ..BASE
    },
    Row {
        name: "cycle-with-an-expression-that-is-true-at-once",
        before: &[
            "root/k.yaml: ks c1 ./c1 json:dependsOn=[{\"name\":\"c2\",\"readyExpr\":\"dep.spec.prune==true\"}] | ks c2 ./c2 dependsOn=c1",
            "c1/a.yaml: cm a1 | cm b1",
            "c2/a.yaml: cm a2 | cm b2",
        ],
        after: &["c1/a.yaml: cm a1", "c2/a.yaml: cm a2"],
        expect: &["delete configmap/b1", "delete configmap/b2"],
        ..BASE
    },
    Row {
        name: "dependency-of-another-source-is-not-waited-for",
        sources: &["GitRepository/other"],
        before: &[
            "root/k.yaml: ks d ./d json:sourceRef={\"kind\":\"GitRepository\",\"name\":\"other\"} | ks k ./p dependsOn=d",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm m",
        ],
        after: &["d/x.yaml: cm x | cm m", "p/a.yaml: cm a"],
        ..BASE
    },
    Row {
        name: "dependency-of-another-source-becomes-broken",
        sources: &["GitRepository/other"],
        before: &[
            "root/k.yaml: ks d ./d json:sourceRef={\"kind\":\"GitRepository\",\"name\":\"other\"} | ks k ./p dependsOn=d",
            "d/x.yaml: cm x",
            "p/a.yaml: cm a | cm b",
        ],
        after: &["d/x.yaml:: broken: [", "p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "dependency-of-another-source-is-suspended",
        sources: &["GitRepository/other"],
        before: &[
            "root/k.yaml: ks d ./d json:sourceRef={\"kind\":\"GitRepository\",\"name\":\"other\"} | ks k ./p dependsOn=d",
            "d/x.yaml: cm x | cm y",
            "p/a.yaml: cm a | cm b",
        ],
        live: &["patch kustomization d -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}"],
        after: &["d/x.yaml: cm x", "p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "empty-directory-of-an-artifact-that-is-not-from-git",
        sources: &["OCIRepository/oci"],
        before: &[
            "root/k.yaml: ks k ./p json:sourceRef={\"kind\":\"OCIRepository\",\"name\":\"oci\"} | cm x",
            "p/a.yaml: cm a",
        ],
        after: &["-p/a.yaml", "p/"],
        incomplete: true,
        happens: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "missing-directory-of-an-artifact-that-is-not-from-git",
        sources: &["OCIRepository/oci"],
        before: &[
            "root/k.yaml: ks k ./p json:sourceRef={\"kind\":\"OCIRepository\",\"name\":\"oci\"} | cm x",
            "p/a.yaml: cm a",
        ],
        after: &["-p/a.yaml"],
        incomplete: true,
        happens: &["stays configmap/a"],
        ..BASE
    },
];
