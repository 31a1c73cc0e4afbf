//! The table of truth: every object of the test's namespaces, what it is, and whose.

use std::collections::BTreeSet;

/// Namespace, kind and name, status, owners as `SYSTEM:NAMESPACE/KIND/NAME`.
///
/// `-` is no namespace, `*` in its place every namespace of the table; a name that ends in `-*` was made up by a
/// controller. Custom resource definitions and what is the cluster's own beyond namespaces are left out.
pub(crate) const TABLE: &str = "
*          ServiceAccount/default            system
*          ConfigMap/kube-root-ca.crt        system

# In nine namespaces Kubernetes copies the labels of the Service web to its Endpoints and slices, and an operator those of
# the Widget shop to child and, with the annotations, to twin.

# Flux: cm-2 left the source while pruning was off; the Kustomization gone was deleted with deletionPolicy Orphan.
-          Namespace/flux                    unmanaged
flux       Kustomization/apps                unmanaged
flux       GitRepository/src                 unmanaged
flux       GitRepository/gone                unmanaged
flux       OCIRepository/nested              unmanaged
flux       ConfigMap/cm-0                    managed      flux:flux/Kustomization/apps
flux       ConfigMap/cm-1                    managed      flux:flux/Kustomization/apps
flux       ConfigMap/cm-2                    leaked       flux:flux/Kustomization/apps
flux       ConfigMap/left-behind             orphaned     flux:flux/Kustomization/gone
flux       Deployment/web                    managed      flux:flux/Kustomization/apps
flux       ReplicaSet/web-*                  controlled
flux       Pod/web-*                         controlled
flux       Service/web                       managed      flux:flux/Kustomization/apps
flux       Widget/shop                       managed      flux:flux/Kustomization/apps
flux       EndpointSlice/web-*               controlled
flux       Endpoints/web                     copied       flux:flux/Kustomization/apps
flux       ConfigMap/child                   copied       flux:flux/Kustomization/apps
flux       Secret/child                      copied       flux:flux/Kustomization/apps
flux       ConfigMap/twin                    copied       flux:flux/Kustomization/apps
# A HelmRelease that Flux applies, over a Helm release: one owner each, no conflict.
flux       HelmRelease/nested                managed      flux:flux/Kustomization/apps
flux       ConfigMap/nested                  managed      flux:flux/HelmRelease/nested
flux       Secret/sh.helm.release.v1.nested.v1   system
-          Namespace/shared                  unmanaged
shared     Kustomization/shared              unmanaged
shared     GitRepository/shared              unmanaged

# HelmRelease: kept left the chart, and Helm was told to keep it; hook is in no record on purpose. The HelmReleases freed
# and gone were deleted while suspended; of freed the Helm release lives on, of gone nothing does.
-          Namespace/release                 unmanaged
release    HelmRelease/web                   unmanaged
release    OCIRepository/web                 unmanaged
release    OCIRepository/freed               unmanaged
release    OCIRepository/gone                unmanaged
release    ConfigMap/listed                  managed      flux:release/HelmRelease/web
release    ConfigMap/hook                    managed      flux:release/HelmRelease/web
release    ConfigMap/kept                    leaked       flux:release/HelmRelease/web
release    ConfigMap/freed                   managed      helm:release/Release/freed
release    ConfigMap/gone                    orphaned     flux:release/HelmRelease/gone
release    Service/web                       managed      flux:release/HelmRelease/web
release    Widget/shop                       managed      flux:release/HelmRelease/web
release    EndpointSlice/web-*               controlled
release    Endpoints/web                     copied       flux:release/HelmRelease/web
release    ConfigMap/child                   copied       flux:release/HelmRelease/web
release    Secret/child                      copied       flux:release/HelmRelease/web
release    ConfigMap/twin                    copied       flux:release/HelmRelease/web
release    Secret/sh.helm.release.v1.web.v1      system
release    Secret/sh.helm.release.v1.web.v2      system
release    Secret/sh.helm.release.v1.freed.v1    system

# Helm: its record is a Secret, which is not read, so kept, which left the chart, and twin, which never was in it, are called
# managed. Helm marks no hooks, and its label without its annotations is no mark. The release removed was uninstalled
# except for spared.
-          Namespace/helm                    unmanaged
helm       ConfigMap/listed                  managed      helm:helm/Release/plain
helm       ConfigMap/kept                    managed      helm:helm/Release/plain
helm       ConfigMap/hook                    unmanaged
helm       ConfigMap/spared                  orphaned     helm:helm/Release/removed
helm       ConfigMap/both                    conflict     argocd:argocd/Application/web + helm:helm/Release/plain
helm       Service/web                       managed      helm:helm/Release/plain
helm       Widget/shop                       managed      helm:helm/Release/plain
helm       EndpointSlice/web-*               controlled
helm       Endpoints/web                     system
helm       ConfigMap/child                   unmanaged
helm       Secret/child                      unmanaged
helm       ConfigMap/twin                    managed      helm:helm/Release/plain
helm       Secret/sh.helm.release.v1.plain.v1    system
helm       Secret/sh.helm.release.v1.plain.v2    system

# kapp: the marks are the record, so nothing can leak. It let freed go itself; the record of the app lost was deleted.
-          Namespace/kapp                    unmanaged
kapp       ConfigMap/listed                  managed      kapp:kapp/App/shop
kapp       Deployment/web                    managed      kapp:kapp/App/shop
kapp       ReplicaSet/web-*                  controlled
kapp       Pod/web-*                         controlled
kapp       Service/web                       managed      kapp:kapp/App/shop
kapp       Widget/shop                       managed      kapp:kapp/App/shop
kapp       EndpointSlice/web-*               controlled
kapp       Endpoints/web                     copied       kapp:kapp/App/shop
kapp       ConfigMap/child                   copied       kapp:kapp/App/shop
kapp       Secret/child                      copied       kapp:kapp/App/shop
kapp       ConfigMap/twin                    copied       kapp:kapp/App/shop
kapp       ConfigMap/freed                   unmanaged
kapp       ConfigMap/of-lost                 orphaned     kapp:-/App/*
kapp       ConfigMap/both                    conflict     flux:shared/Kustomization/shared + kapp:kapp/App/shop
kapp       ConfigMap/shop                    system
kapp       ConfigMap/shop-change-*           system
kapp       ConfigMap/shop-change-*           system
kapp       ConfigMap/lost-change-*           system

# ApplySet: a copy of listed was applied in a namespace that the set does not look in; the parent lost was deleted. kubectl
# looks at ConfigMaps, so its next prune takes child along, but it does not look at Secrets.
-          Namespace/applyset                unmanaged
-          Namespace/elsewhere               unmanaged
applyset   ConfigMap/listed                  managed      applyset:applyset/Secret/set
elsewhere  ConfigMap/listed                  leaked       applyset:applyset/Secret/set
applyset   ConfigMap/of-lost                 orphaned     applyset:-/ApplySet/applyset-ZHNA22SFfZ5niW5bme_VgkEDMoKg8aI0CjCSe4fJtEw-v1
applyset   ConfigMap/both                    conflict     applyset:applyset/Secret/set + flux:shared/Kustomization/shared
applyset   Secret/set                        system
applyset   Service/web                       managed      applyset:applyset/Secret/set
applyset   Widget/shop                       managed      applyset:applyset/Secret/set
applyset   Deployment/web                    managed      applyset:applyset/Secret/set
applyset   ReplicaSet/web-*                  controlled
applyset   Pod/web-*                         controlled
applyset   EndpointSlice/web-*               controlled
applyset   Endpoints/web                     copied       applyset:applyset/Secret/set
applyset   ConfigMap/child                   managed      applyset:applyset/Secret/set
applyset   Secret/child                      copied       applyset:applyset/Secret/set
applyset   ConfigMap/twin                    copied       applyset:applyset/Secret/set

# qbec: the marks are the owner, so nothing can leak, and what no run can select any more is orphaned.
-          Namespace/qbec                    managed      qbec:-/App/qbec/dev
qbec       ConfigMap/listed                  managed      qbec:-/App/qbec/dev
qbec       ConfigMap/untagged                orphaned     qbec:-/App/qbec/dev/
qbec       Service/web                       managed      qbec:-/App/qbec/dev
qbec       Widget/shop                       managed      qbec:-/App/qbec/dev
qbec       Deployment/web                    managed      qbec:-/App/qbec/dev
qbec       ReplicaSet/web-*                  controlled
qbec       Pod/web-*                         controlled
qbec       EndpointSlice/web-*               controlled
qbec       Endpoints/web                     copied       qbec:-/App/qbec/dev
qbec       ConfigMap/child                   copied       qbec:-/App/qbec/dev
qbec       Secret/child                      copied       qbec:-/App/qbec/dev
qbec       ConfigMap/twin                    copied       qbec:-/App/qbec/dev

# Flux v1: drifted is of a path that fluxd no longer has; held has an owner reference, so fluxd never collects it.
-          Namespace/fluxd                   managed      flux-v1:fluxd/Deployment/fluxd
fluxd      ConfigMap/listed                  managed      flux-v1:fluxd/Deployment/fluxd
fluxd      ConfigMap/held                    leaked       flux-v1:fluxd/Deployment/fluxd
fluxd      ConfigMap/drifted                 orphaned     flux-v1:-/Source/unknown
fluxd      ConfigMap/both                    conflict     flux-v1:fluxd/Deployment/fluxd + qbec:-/App/qbec/dev
fluxd      Deployment/fluxd                  unmanaged
fluxd      ReplicaSet/fluxd-*                controlled
fluxd      Pod/fluxd-*                       controlled
fluxd      Service/web                       managed      flux-v1:fluxd/Deployment/fluxd
fluxd      Widget/shop                       managed      flux-v1:fluxd/Deployment/fluxd
fluxd      EndpointSlice/web-*               controlled
fluxd      Endpoints/web                     copied       flux-v1:-/Source/unknown
fluxd      ConfigMap/child                   copied       flux-v1:-/Source/unknown
fluxd      Secret/child                      copied       flux-v1:-/Source/unknown
fluxd      ConfigMap/twin                    copied       flux-v1:-/Source/unknown

# Argo CD: listed also has the labels of a Helm chart and of another application, which do not count; unmarked is in status.resources without a
# mark, copied has the mark of listed, hook is listed nowhere on purpose.
-          Namespace/argocd                  unmanaged
argocd     Application/web                   unmanaged
argocd     ConfigMap/listed                  managed      argocd:argocd/Application/web
argocd     ConfigMap/unmarked                managed      argocd:argocd/Application/web
argocd     ConfigMap/hook                    managed      argocd:argocd/Application/web
argocd     ConfigMap/leaked                  leaked       argocd:argocd/Application/web
argocd     ConfigMap/orphan                  orphaned     argocd:-/Application/gone
argocd     ConfigMap/copied                  copied       argocd:argocd/Application/web
argocd     Service/web                       managed      argocd:argocd/Application/web
argocd     Widget/shop                       managed      argocd:argocd/Application/web
argocd     EndpointSlice/web-*               controlled
argocd     Endpoints/web                     copied       argocd:argocd/Application/web
argocd     ConfigMap/child                   copied       argocd:argocd/Application/web
argocd     Secret/child                      copied       argocd:argocd/Application/web
argocd     ConfigMap/twin                    copied       argocd:argocd/Application/web

# cli-utils: people applied copies of a manifest; one of them in a way that leaves the same traces as cli-utils.
-          Namespace/cli-utils               unmanaged
cli-utils  ConfigMap/listed                  managed      cli-utils:cli-utils/ConfigMap/inventory
cli-utils  ConfigMap/leaked                  orphaned     cli-utils:-/Inventory/shop-1
cli-utils  ConfigMap/orphan                  orphaned     cli-utils:-/Inventory/gone-1
cli-utils  ConfigMap/applied-by-hand         copied       cli-utils:cli-utils/ConfigMap/inventory
cli-utils  ConfigMap/applied-on-the-server   unknown      cli-utils:cli-utils/ConfigMap/inventory
cli-utils  ConfigMap/both                    conflict     cli-utils:cli-utils/ConfigMap/inventory + flux:operator/ResourceSet/shop
cli-utils  ConfigMap/inventory               system

# flux-operator.
-          Namespace/operator                unmanaged
operator   ResourceSet/shop                  unmanaged
operator   FluxInstance/flux                 unmanaged
operator   ConfigMap/listed                  managed      flux:operator/ResourceSet/shop
operator   ConfigMap/leaked                  leaked       flux:operator/ResourceSet/shop
operator   ConfigMap/orphan                  orphaned     flux:operator/ResourceSet/gone
operator   ConfigMap/of-flux                 managed      flux:operator/FluxInstance/flux
operator   Service/web                       managed      flux:operator/ResourceSet/shop
operator   Widget/shop                       managed      flux:operator/ResourceSet/shop
operator   EndpointSlice/web-*               controlled
operator   Endpoints/web                     copied       flux:operator/ResourceSet/shop
operator   ConfigMap/child                   copied       flux:operator/ResourceSet/shop
operator   Secret/child                      copied       flux:operator/ResourceSet/shop
operator   ConfigMap/twin                    copied       flux:operator/ResourceSet/shop

-          Namespace/plain                   unmanaged
plain      ConfigMap/by-hand                 unmanaged
plain      Secret/by-hand                    unmanaged
-          Namespace/flux-system             unmanaged
";

/// One object: namespace, kind and name, status, owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) owners: Vec<String>,
}

/// The table, in order.
pub(crate) fn rows() -> Vec<Row> {
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (place, owners) = line.split_at(line.find(':').map_or(line.len(), |at| start_of_word(line, at)));
        let mut words = place.split_whitespace().map(str::to_owned);
        let mut word = || words.next().expect("three columns");
        let (namespace, name, status) = (word(), word(), word());
        let owners = owners.split(" + ").map(str::trim).filter(|owner| !owner.is_empty()).map(str::to_owned);
        Row { namespace, name, status, owners: owners.collect() }
    });
    let (everywhere, mut rows): (Vec<Row>, Vec<Row>) = rows.partition(|row| row.namespace == "*");
    let namespaces: BTreeSet<String> = rows.iter().map(|row| row.namespace.clone()).collect();
    for namespace in namespaces.into_iter().filter(|namespace| namespace != "-") {
        rows.extend(everywhere.iter().map(|row| Row { namespace: namespace.clone(), ..row.clone() }));
    }
    rows.sort();
    rows
}

fn start_of_word(line: &str, at: usize) -> usize {
    line[..at].rfind(' ').map_or(0, |space| space + 1)
}
