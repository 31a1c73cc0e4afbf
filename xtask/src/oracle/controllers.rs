//! Scenarios of flags of the controller.

use super::scenarios::{BASE, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "flag-default-service-account",
        controller: &["--default-service-account=team"],
        cluster: &["sa team", "role team verbs=get,list,create,patch", "bind team"],
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b | cm c"],
        expect: &["keep configmap/a", "create configmap/c"],
        ..BASE
    },
    Row {
        name: "flag-override-manager",
        controller: &["--override-manager=Lens"],
        before: &["root/m.yaml: ks m ./m interval=1h", "m/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        live: &["patch kustomization k -n @ --type=merge --field-manager=Lens -p {\"spec\":{\"suspend\":true}}"],
        after: &["p/a.yaml: cm b"],
        expect: &["delete configmap/a"],
        ..BASE
    },
    Row {
        name: "flag-custom-apply-stage-kinds",
        controller: &["--custom-apply-stage-kinds=rbac.authorization.k8s.io/Role"],
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b ns=none | role early verbs=get | sa late"],
        expect: &["create role.rbac.authorization.k8s.io/early"],
        ..BASE
    },
    Row {
        name: "flag-watch-label-selector",
        controller: &["--watch-label-selector=!shard"],
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        live: &["label kustomization k -n @ --field-manager=flux shard=b"],
        after: &["p/a.yaml: cm b | cm c"],
        ..BASE
    },
    Row {
        name: "flag-without-the-gate-of-external-artifacts",
        controller: &["--feature-gates=ExternalArtifact=false"],
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &[
            "root/k.yaml: ks k ./q json:sourceRef={\"kind\":\"ExternalArtifact\",\"name\":\"made\"}",
            "-p",
            "q/a.yaml: cm b",
        ],
        ..BASE
    },
    Row {
        name: "flag-no-cross-namespace-refs",
        controller: &["--no-cross-namespace-refs"],
        cluster: &["ns @-team"],
        before: &["root/k.yaml: ks k ./p | ks t ./t ns=@-team source=@", "p/a.yaml: cm a | cm b", "t/t.yaml: cm t"],
        after: &["p/a.yaml: cm b", "t/t.yaml: cm u"],
        expect: &["delete configmap/a"],
        ..BASE
    },
];
