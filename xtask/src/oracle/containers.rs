//! Scenarios of namespaces and definitions that go, of forced deletions, and of stages and cycles.

use super::scenarios::{BASE, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "namespace-goes-before-a-dependant",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p dependsOn=d",
            "d/x.yaml: cm x | ns @-shop",
            "p/a.yaml: cm in ns=@-shop | cm a",
        ],
        after: &["d/x.yaml: cm x", "p/a.yaml: cm in ns=@-shop"],
        expect: &["delete namespace/@-shop", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "namespace-goes-before-a-dependant-creates-in-it",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p dependsOn=d",
            "d/x.yaml: cm x | ns @-shop",
            "p/a.yaml: cm in ns=@-shop | cm a",
        ],
        after: &["d/x.yaml: cm x", "p/a.yaml: cm in ns=@-shop | cm new ns=@-shop"],
        expect: &["delete namespace/@-shop", "keep configmap/a"],
        ..BASE
    },
    Row {
        name: "namespace-goes-after-its-user",
        cluster: &["ns @-shop"],
        before: &[
            "root/k.yaml: ks d ./d dependsOn=k | ks k ./p",
            "d/x.yaml: cm x | ns @-shop",
            "p/a.yaml: cm in ns=@-shop | cm a",
        ],
        after: &["d/x.yaml: cm x", "p/a.yaml: cm in ns=@-shop"],
        expect: &["delete namespace/@-shop", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "namespace-goes-while-it-is-used",
        before: &["root/k.yaml: ks d ./d | ks k ./p", "d/x.yaml: cm x | ns @-shop", "p/a.yaml: cm in ns=@-shop | cm a"],
        after: &["d/x.yaml: cm x", "p/a.yaml: cm in ns=@-shop"],
        expect: &["delete namespace/@-shop", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "definition-goes-before-a-dependant",
        before: &[
            "root/k.yaml: ks d ./d | ks k ./p dependsOn=d",
            "d/x.yaml: cm x | crd @.example.com",
            "p/a.yaml: widget w | cm a",
        ],
        after: &["d/x.yaml: cm x", "p/a.yaml: widget w"],
        expect: &["delete widget.@.example.com/w", "delete configmap/a"],
        ..BASE
    },
    Row {
        name: "definition-goes-with-a-new-resource",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: crd @.example.com | widget w | cm a"],
        after: &["p/a.yaml: widget w | widget new | cm b"],
        expect: &["delete widget.@.example.com/w", "delete configmap/a", "create configmap/b"],
        ..BASE
    },
    Row {
        name: "namespace-moves-into-a-kustomization-that-is-in-it",
        before: &[
            "root/n.yaml: ns @-shop",
            "root/x.yaml: cm x",
            "root/m.yaml: ks m ./m",
            "m/k.yaml: ks k ./p ns=@-shop source=@",
            "p/a.yaml: cm a",
        ],
        after: &["-root/n.yaml", "p/a.yaml: cm a | cm new | ns @-shop"],
        expect: &["delete namespace/@-shop", "create configmap/new"],
        ..BASE
    },
    Row {
        name: "definition-goes-beside-a-dropped-resource",
        before: &[
            "root/c.yaml: crd @.example.com",
            "root/k.yaml: ks k ./p",
            "p/a.yaml: widget w | widget dropped | cm a",
        ],
        after: &["-root/c.yaml", "root/x.yaml: cm x", "p/a.yaml: widget w | widget new"],
        expect: &["delete widget.@.example.com/w", "delete widget.@.example.com/dropped"],
        ..BASE
    },
    Row {
        name: "namespace-that-is-terminating",
        before: &[
            "root/k.yaml: ks k ./p json:retryInterval=\"1h\"",
            "p/a.yaml: ns @-shop | cm in ns=@-shop finalizer=example.com/hold | cm a | cm b",
        ],
        live: &[
            "patch kustomization k -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":true}}",
            "patch configmap in -n @-shop --type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}",
            "delete namespace @-shop --wait=false",
            "patch kustomization k -n @ --type=merge --field-manager=flux -p {\"spec\":{\"suspend\":false}}",
        ],
        after: &["p/a.yaml: ns @-shop | cm in ns=@-shop | cm b"],
        ..BASE
    },
    Row {
        name: "version-of-the-inventory-is-not-served",
        cluster: &["crd @.example.com versions=v1,v2"],
        before: &["root/k.yaml: ks k ./p", "p/w.yaml: widget w", "p/a.yaml: cm a"],
        live: &[
            "patch crd widgets.@.example.com --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/versions/0/served\",\"value\":false}]",
        ],
        after: &["-p/w.yaml"],
        expect: &["keep widget.@.example.com/w"],
        ..BASE
    },
    Row {
        name: "version-of-the-inventory-goes-with-the-definition",
        before: &[
            "root/k.yaml: ks k ./p",
            "p/c.yaml: crd @.example.com versions=v1,v2",
            "p/w.yaml: widget w",
            "p/a.yaml: cm a",
        ],
        after: &["p/c.yaml: crd @.example.com versions=-v1,v2", "-p/w.yaml"],
        expect: &["keep widget.@.example.com/w"],
        ..BASE
    },
    Row {
        name: "cycle-delays-every-kustomization-of-the-source",
        before: &[
            "root/k.yaml: ks k ./p",
            "root/c.yaml: ks c1 ./c dependsOn=c2 | ks c2 ./c2 dependsOn=c1",
            "p/a.yaml: cm a | cm b",
            "q/z.yaml: cm z",
            "c/c.yaml: cm c1",
            "c2/c.yaml: cm c2",
        ],
        after: &["root/k.yaml: ks k ./q", "p/a.yaml: cm b", "q/z.yaml: cm a | cm b", "c/c.yaml: cm d1"],
        ..BASE
    },
    Row {
        name: "forced-beside-an-object-that-fails",
        before: &["root/k.yaml: ks k ./p force=true", "p/a.yaml: deploy web | cm a | cm b"],
        after: &["p/a.yaml: deploy web selects=other | cm b | cm c ns=@-none"],
        expect: &["delete deployment.apps/web"],
        ..BASE
    },
    Row {
        name: "forced-and-held-by-a-finalizer",
        before: &["root/k.yaml: ks k ./p force=true", "p/a.yaml: deploy web finalizer=example.com/hold | cm a | cm b"],
        live: &[
            "patch deployment web -n @ --type=merge --field-manager=someone -p {\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}",
        ],
        after: &["p/a.yaml: deploy web selects=other | cm b"],
        expect: &["delete deployment.apps/web", "keep configmap/a"],
        ..BASE
    },
    Row {
        name: "class-before-an-object-that-fails",
        before: &["root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b ns=none | cr @-early | class @-class | sa late"],
        expect: &["create clusterrole.rbac.authorization.k8s.io/@-early", "create runtimeclass.node.k8s.io/@-class"],
        ..BASE
    },
    Row {
        name: "kind-of-the-first-stage-in-another-group",
        before: &["root/crd.yaml: crd @.example.com", "root/k.yaml: ks k ./p", "p/a.yaml: cm a | cm b"],
        after: &["p/a.yaml: cm b ns=none | widget w | ns @-early"],
        expect: &["create namespace/@-early"],
        ..BASE
    },
    Row {
        name: "owner-reference-of-kubectl-is-taken-over",
        before: &["root/k.yaml: ks k ./p interval=1h", "p/a.yaml: cm owner | cm kept | cm x"],
        live: &[
            "patch configmap kept -n @ --type=merge --field-manager=kubectl-edit -p {\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"owner\",\"uid\":\"uid(configmap/owner)\"}]}}",
        ],
        after: &["p/a.yaml: cm kept v=2 | cm x"],
        expect: &["delete configmap/owner"],
        ..BASE
    },
    Row {
        name: "parent-waits-and-its-child-does-not",
        before: &[
            "root/k.yaml: ks slow ./s json:wait=true json:timeout=\"5s\" json:retryInterval=\"1h\" | ks m ./m dependsOn=slow",
            "root/d.yaml: ks d ./d",
            "s/x.yaml: cm s",
            "m/k.yaml: ks k ./p dependsOn=d",
            "d/x.yaml: cm d",
            "p/a.yaml: cm a | cm b",
            "q/z.yaml: cm z",
        ],
        after: &["s/x.yaml: cm s | deploy never", "m/k.yaml: ks k ./q dependsOn=d", "p/a.yaml: cm b"],
        ..BASE
    },
];
