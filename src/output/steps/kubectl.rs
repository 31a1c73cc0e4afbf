//! Commands of kubectl that people type beside a step.

use std::collections::BTreeMap;

use gitops_core::flux::handover::{FIELD_MANAGER, Hold};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::text::shell_word;

/// Returns an object as kubectl's arguments name it, for a shell.
pub(crate) fn kubectl_name(id: &ObjectId) -> String {
    let shown = id.shown();
    let name = shell_word(&format!("{}/{}", shown.group_kind(), shown.name));
    if shown.namespace.is_empty() { name } else { format!("{name} -n {}", shell_word(&shown.namespace)) }
}

/// Returns the command that shows that an object has a setting.
pub(crate) fn shows_hold(object: &ObjectId, hold: Hold) -> String {
    let field = hold.field();
    format!("kubectl get {} -o jsonpath='{{{}}}' # {}", kubectl_name(object), field.json_path(), field.value)
}

/// Returns the commands that wait until objects are gone, one for those of one type in one namespace.
pub(crate) fn waits_for_deletion<'i>(gone: impl IntoIterator<Item = &'i ObjectId>) -> Vec<String> {
    let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for id in gone.into_iter().map(ObjectId::shown) {
        groups.entry((id.group_kind().to_string(), id.namespace.to_string())).or_default().push(shell_word(&id.name));
    }
    let commands = groups.into_iter().map(|((kind, namespace), names)| {
        let place = if namespace.is_empty() { String::new() } else { format!(" -n {}", shell_word(&namespace)) };
        format!("kubectl wait --for=delete {kind} {}{place} --timeout=10m", names.join(" "))
    });
    commands.collect()
}

/// Returns the command that sets or removes a setting of an object.
pub(crate) fn patches_hold(object: &ObjectId, hold: Hold, sets: bool) -> String {
    let patch = shell_word(&hold.field().merge_patch(sets));
    format!("kubectl patch {} --type merge --field-manager {FIELD_MANAGER} -p {patch}", kubectl_name(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server accepts any name of a Role without `/` and `%`.
    #[test]
    fn the_name_of_an_object_is_one_word_of_a_script() {
        let role = ObjectId::new("rbac.authorization.k8s.io", "Role", "shop", "a'; touch `pwd`; #");
        let name = r"'role.rbac.authorization.k8s.io/a'\''; touch `pwd`; #' -n shop";
        assert_eq!(kubectl_name(&role), name);
        let patches = [true, false].map(|sets| patches_hold(&role, Hold::Keep, sets));
        for command in patches.iter().chain([&shows_hold(&role, Hold::Keep)]) {
            assert!(command.contains(name), "{command}");
        }
        assert_eq!(kubectl_name(&ObjectId::new("", "ConfigMap", "shop", "a")), "configmap/a -n shop");
    }

    #[test]
    fn objects_of_one_type_and_namespace_are_waited_for_together() {
        let object = |kind: &str, namespace: &str, name: &str| ObjectId::new("", kind, namespace, name);
        let gone = [object("Namespace", "", "b"), object("ConfigMap", "shop", "m"), object("Namespace", "", "a")];
        let commands = [
            "kubectl wait --for=delete configmap m -n shop --timeout=10m",
            "kubectl wait --for=delete namespace b a --timeout=10m",
        ];
        assert_eq!(waits_for_deletion(&gone), commands);
    }
}
