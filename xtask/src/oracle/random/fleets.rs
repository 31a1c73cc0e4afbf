//! Layouts with several Kustomizations or many objects, as fleets have them.

use super::{Edit, Random, Repository};

/// Fields that a parent sets in all its children, as a JSON patch.
const PATCHES: [&str; 9] = [
    r#"{"op":"add","path":"/spec/prune","value":false}"#,
    r#"{"op":"add","path":"/spec/deletionPolicy","value":"Orphan"}"#,
    r#"{"op":"add","path":"/spec/deletionPolicy","value":"WaitForTermination"}"#,
    r#"{"op":"add","path":"/spec/force","value":true}"#,
    r#"{"op":"add","path":"/spec/namePrefix","value":"patched-"}"#,
    r#"{"op":"add","path":"/spec/commonMetadata","value":{"labels":{"team":"a"}}}"#,
    r#"{"op":"add","path":"/spec/postBuild","value":{"substitute":{"v":"z"}}}"#,
    r#"{"op":"add","path":"/spec/timeout","value":"40s"}"#,
    r#"{"op":"add","path":"/spec/interval","value":"2h"}"#,
];

/// Returns the option of a parent with this patch of all its children.
fn patch(text: &str) -> String {
    let text = format!("[{text}]").replace('"', "\\\"");
    format!("json:patches=[{{\"target\":{{\"kind\":\"Kustomization\"}},\"patch\":\"{text}\"}}]")
}

/// A parent that patches all its children.
pub(super) fn patched_children(random: &mut Random, repository: &mut Repository) {
    let parent = repository.pick(random);
    for _ in 0..1 + random.below(2) {
        let number = repository.apps.len();
        let objects = vec![format!("cm o{number}"), format!("deploy p{number}"), format!("cm q{number}")];
        repository.add(parent, vec![], objects);
    }
    let child = repository.apps.len() - 1;
    let first = patch(random.pick(&PATCHES));
    repository.apps[parent].options.push(first.clone());
    repository.edits.extend([
        Edit::Option(parent, first.clone(), patch(random.pick(&PATCHES))),
        Edit::Option(parent, first.clone(), patch(random.pick(&PATCHES))),
        Edit::Option(parent, first, String::new()),
        Edit::Object(child, format!("cm q{child}"), String::new()),
    ]);
}

/// One Kustomization for each of several applications, below a parent that patches all of them.
pub(super) fn one_for_each_application(random: &mut Random, repository: &mut Repository) {
    let patches = patch(random.pick(&PATCHES));
    let parent = repository.add(0, vec![patches.clone()], vec!["cm of-all".into()]);
    for _ in 0..4 + random.below(3) {
        let number = repository.apps.len();
        let at = repository.add(parent, vec![], vec![format!("cm o{number}"), format!("sa o{number}-user")]);
        repository.edits.push(Edit::Object(at, format!("cm o{at}"), format!("cm o{at} v=2")));
    }
    let last = repository.apps.len() - 1;
    repository.edits.extend([
        Edit::Option(parent, patches, patch(random.pick(&PATCHES))),
        Edit::Object(last, format!("sa o{last}-user"), String::new()),
    ]);
}

/// A Namespace that several Kustomizations list, each with an object in it.
pub(super) fn shared_namespace(random: &mut Random, repository: &mut Repository) {
    let namespace = "ns @-shared".to_owned();
    let mut last = 0;
    for _ in 0..2 + random.below(2) {
        let number = repository.apps.len();
        let parent = random.below(number);
        let objects =
            vec![namespace.clone(), format!("cm in{number} ns=@-shared"), format!("sa also{number} ns=@-shared")];
        last = repository.add(parent, vec![], objects);
        repository.edits.extend([
            Edit::Object(last, format!("cm in{last} ns=@-shared"), String::new()),
            Edit::Object(last, format!("cm in{last} ns=@-shared"), format!("cm later{last} ns=@-shared")),
        ]);
    }
    if random.one_in(3) {
        repository.edits.push(Edit::Object(last, namespace, String::new()));
    }
}

/// Many resources of a kind that a definition of the repository serves, as releases and external secrets are.
pub(super) fn many_resources(random: &mut Random, repository: &mut Repository) {
    if repository.has("crd ") {
        return;
    }
    let definition = "crd @.example.com".to_owned();
    let home = random.pick(&[0, repository.apps.len() - 1]);
    repository.apps[home].objects.push(definition.clone());
    for _ in 0..1 + random.below(2) {
        let number = repository.apps.len();
        let objects: Vec<String> = (0..4 + random.below(5)).map(|count| format!("widget w{number}-{count}")).collect();
        let depends = format!("dependsOn={}", repository.apps[home].name);
        let options = if home > 0 { vec![depends] } else { vec![] };
        let at = repository.add(0, options, objects);
        repository.edits.extend([
            Edit::Object(at, format!("widget w{at}-1"), String::new()),
            Edit::Object(at, format!("widget w{at}-2"), format!("widget later{at}")),
            Edit::Object(at, String::new(), format!("widget new{at}")),
        ]);
    }
    repository.edits.extend([
        Edit::Object(home, definition.clone(), String::new()),
        Edit::Object(home, definition, "crd @.example.com versions=v1,v2".into()),
    ]);
}
