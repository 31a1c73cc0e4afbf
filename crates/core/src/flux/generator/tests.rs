//! Artifacts of small sources. What is expected was read in source-watcher; `tests/live/plan/generators.rs` compares it
//! with the real one.

use serde_json::{Value, json};

use super::spec::GeneratorSpec;
use super::*;
use crate::flux::source::options::SourceOptions;

fn source(files: &[(&str, &str)]) -> SourceContent {
    SourceContent::Known(Arc::new(Artifact::pack(
        &files.iter().copied().collect(),
        &SourceOptions { filter: crate::flux::source::options::IgnoreFilter::Nothing, ..Default::default() },
    )))
}

const FILES: [(&str, &str); 8] = [
    ("README.md", "read"),
    ("apps/a.yaml", "a: 1"),
    ("apps/web/b.yaml", "b: 1"),
    ("apps/web/test/t.yaml", "t: 1"),
    ("apps/db/c.yaml", "c: 1"),
    ("base/values.yaml", "x: 1\nm: {z: 1}\n"),
    ("overlay/values.yaml", "m: {w: 2}\n"),
    ("logo.png", "image"),
];

/// Returns the files of the artifact of some copy operations, or the reason why there is none.
fn copied(copy: &Value) -> Result<Vec<String>, Stop> {
    let spec = json!({"artifacts": [{"name": "app", "copy": copy}]});
    let spec = GeneratorSpec::read(&spec, "shop");
    let contents =
        [("repo".to_owned(), source(&FILES)), ("oci".to_owned(), SourceContent::Unchanged("not given".into()))];
    let generation = generate(&spec, &contents.into(), |_| false);
    if let Some(stop) = generation.stop {
        return Err(stop);
    }
    let [(_, Made::New(artifact, _))] = &generation.artifacts[..] else { panic!("{generation:?}") };
    Ok(artifact.files().map(|(at, content)| format!("{at}={}", String::from_utf8_lossy(content))).collect())
}

/// Returns the paths that one operation copies, separated by spaces.
fn paths(from: &str, to: &str, exclude: &[&str]) -> String {
    match copied(&json!([{"from": from, "to": to, "exclude": exclude}])) {
        Ok(files) => files.iter().map(|file| file.split('=').next().unwrap()).collect::<Vec<_>>().join(" "),
        Err(Stop::Fails(why)) => format!("fails: {why}"),
        Err(Stop::Unknown(why)) => format!("unknown: {why}"),
    }
}

#[test]
fn files_and_directories_are_copied_as_cp_does() {
    let web = "web/b.yaml web/test/t.yaml";
    let rows = [
        ("@repo/apps/a.yaml", "@artifact/", "a.yaml".to_owned()),
        ("@repo/apps/a.yaml", "@artifact/x.yaml", "x.yaml".to_owned()),
        ("@repo/apps/a.yaml/", "@artifact/d/", "d/a.yaml".to_owned()),
        ("@repo/apps/web", "@artifact/", web.to_owned()),
        ("@repo/apps/web/", "@artifact/d", "d/web/b.yaml d/web/test/t.yaml".to_owned()),
        ("@repo/apps/../apps/web", "@artifact/", web.to_owned()),
        ("@repo/apps/**", "@artifact/", format!("a.yaml db/c.yaml {web}")),
        ("@repo/apps/*", "@artifact/", "apps/a.yaml apps/db/c.yaml apps/web/b.yaml apps/web/test/t.yaml".to_owned()),
        ("@repo/apps/**/*.yaml", "@artifact/", "apps/db/c.yaml apps/web/b.yaml".to_owned()),
        ("@repo/apps/w?b", "@artifact/d/", "d/apps/web/b.yaml d/apps/web/test/t.yaml".to_owned()),
        ("@repo/apps/[a-d]*", "@artifact/", "apps/a.yaml apps/db/c.yaml".to_owned()),
        // Files that source-controller ignores by default are not packed.
        ("@repo/*.*", "@artifact/", "README.md".to_owned()),
    ];
    for (from, to, expected) in rows {
        assert_eq!(paths(from, to, &[]), expected, "{from} {to}");
    }
}

#[test]
fn excluded_files_and_directories_are_left_out() {
    let rows: [(&str, &[&str], &str); 6] = [
        ("@repo/apps/**", &["**/test/**"], "a.yaml db/c.yaml web/b.yaml"),
        ("@repo/apps/web", &["test"], "web/b.yaml"),
        ("@repo/apps/web", &["test/**"], "web/b.yaml"),
        ("@repo/apps/**", &["web/**", "a.*"], "db/c.yaml"),
        ("@repo/apps/a.yaml", &["*.yaml"], ""),
        ("@repo/apps/*", &["*"], "fails: every file of @repo that matches \"apps/*\" is excluded"),
    ];
    for (from, exclude, expected) in rows {
        assert_eq!(paths(from, "@artifact/", exclude), expected, "{from} {exclude:?}");
    }
}

#[test]
fn source_watcher_fails_where_nothing_is_copied_or_a_path_leads_out() {
    let fails = [
        ("@repo/none", "@artifact/"),
        ("@repo/none/*.yaml", "@artifact/"),
        ("@repo/./apps/*", "@artifact/"),
        ("@repo/apps//*", "@artifact/"),
        ("@repo/apps/*/", "@artifact/"),
        ("@repo/../apps/a.yaml", "@artifact/"),
        ("@repo//etc/passwd", "@artifact/"),
        ("@repo/../*", "@artifact/"),
        ("@repo/apps/a.yaml", "@artifact/../x"),
        ("@repo/apps/a.yaml", "@artifact/../"),
        ("@repo/apps/web", "@artifact/../../x"),
        ("@repo/apps/**", "@artifact//tmp/"),
        ("@repo/apps/[", "@artifact/"),
        ("@other/apps", "@artifact/"),
    ];
    for (from, to) in fails {
        assert!(paths(from, to, &[]).starts_with("fails: "), "{from} {to}: {}", paths(from, to, &[]));
    }
    assert!(paths("@repo/apps", "@artifact/", &["[a"]).starts_with("fails: "));
}

#[test]
fn what_is_not_computed_is_unknown() {
    assert_eq!(paths("@oci/x", "@artifact/", &[]), "unknown: not given");
    let extract = copied(&json!([{"from": "@repo/a.tgz", "to": "@artifact/", "strategy": "Extract"}]));
    assert!(matches!(extract, Err(Stop::Unknown(_))));
    assert!(paths("@repo/apps/a.yaml", "@artifact/x/../y", &[]).starts_with("unknown: "));
    let many = "{a,b}".repeat(15);
    assert!(paths("@repo/apps", "@artifact/", &[&many]).contains("exclude-alternatives"));
    assert!(paths("@repo/apps", "@artifact/", &[&"a".repeat(1025)]).contains("exclude-length"));
}

#[test]
fn a_later_operation_replaces_or_merges_what_is_there() {
    let base = json!({"from": "@repo/base/values.yaml", "to": "@artifact/v.yaml"});
    let with = |strategy: &str| {
        let overlay = json!({"from": "@repo/overlay/values.yaml", "to": "@artifact/v.yaml", "strategy": strategy});
        copied(&json!([base.clone(), overlay])).unwrap()
    };
    assert_eq!(with("Overwrite"), ["v.yaml=m: {w: 2}\n"]);
    assert_eq!(with("Merge"), ["v.yaml=m:\n  w: 2\n  z: 1\nx: 1\n"]);
    let on_directory =
        json!([{"from": "@repo/apps/web", "to": "@artifact/"}, {"from": "@repo/apps/a.yaml", "to": "@artifact/web"}]);
    assert_eq!(copied(&on_directory).unwrap(), ["web/a.yaml=a: 1", "web/b.yaml=b: 1", "web/test/t.yaml=t: 1"]);
    let in_file =
        json!([{"from": "@repo/apps/a.yaml", "to": "@artifact/x"}, {"from": "@repo/apps/web", "to": "@artifact/x/"}]);
    assert!(matches!(copied(&in_file), Err(Stop::Fails(_))));
}

#[test]
fn merges_of_a_large_file_are_limited() {
    let large = format!("a: {}", "b".repeat(1 << 20));
    let merged = json!({"from": "@repo/v.yaml", "to": "@artifact/v.yaml", "strategy": "Merge"});
    let stop = |times: usize| {
        let spec = json!({"artifacts": [{"name": "a", "copy": vec![merged.clone(); times]}]});
        let contents = [("repo".to_owned(), source(&[("v.yaml", &large)]))].into();
        generate(&GeneratorSpec::read(&spec, "shop"), &contents, |_| false).stop
    };
    assert_eq!(stop(3), None);
    let stopped = stop(50);
    assert!(matches!(&stopped, Some(Stop::Unknown(why)) if why.contains("merge-size")), "{stopped:?}");
}

#[test]
fn an_artifact_with_the_name_of_a_source_is_built_on_top_of_it() {
    let generation = |copy: Value| {
        let spec = GeneratorSpec::read(&json!({"artifacts": [{"name": "app", "copy": copy}]}), "shop");
        generate(&spec, &[("app".to_owned(), source(&[("a/x", "1"), ("b", "2")]))].into(), |_| false)
    };
    let files = |generation: Generation| {
        let [(_, Made::New(artifact, _))] = &generation.artifacts[..] else { panic!("{generation:?}") };
        artifact.files().map(|(at, content)| format!("{at}={}", String::from_utf8_lossy(content))).collect::<Vec<_>>()
    };
    assert_eq!(files(generation(json!([{"from": "@app/a/x", "to": "@artifact/"}]))), ["a/x=1", "b=2", "x=1"]);
    // A file that is copied to itself is emptied first.
    assert_eq!(files(generation(json!([{"from": "@app/b", "to": "@artifact/"}]))), ["a/x=1", "b="]);
    let into_itself = generation(json!([{"from": "@app/a", "to": "@artifact/a/"}]));
    assert!(matches!(into_itself.stop, Some(Stop::Unknown(_))));
}

#[test]
fn a_path_pattern_makes_artifacts_for_each_directory() {
    let spec = json!({"pathPattern": "@repo/apps/{App}", "artifacts": [
        {"name": "app-{App}", "copy": [{"from": "@repo/apps/{App}/**", "to": "@artifact/{App}/"}]}]});
    let run = |files: &[(&str, &str)]| {
        generate(&GeneratorSpec::read(&spec, "shop"), &[("repo".to_owned(), source(files))].into(), |_| false)
    };
    let names = |generation: &Generation| {
        generation.artifacts.iter().map(|(artifact, _)| artifact.name.clone()).collect::<Vec<_>>()
    };
    let files = [("apps/Web/a.yaml", ""), ("apps/db/b.yaml", ""), ("apps/c.yaml", "")];
    assert_eq!(names(&run(&files)), ["app-web", "app-db"]);
    assert_eq!(names(&run(&[("other/a.yaml", "")])), [""; 0]);
    let twice = run(&[("apps/Web/a.yaml", ""), ("apps/web/a.yaml", "")]);
    assert!(matches!(&twice.stop, Some(Stop::Fails(why)) if why.contains("twice")), "{twice:?}");
    let invalid = run(&[("apps/a b/a.yaml", "")]);
    assert!(matches!(&invalid.stop, Some(Stop::Fails(why)) if why.contains("label")), "{invalid:?}");
}

#[test]
fn a_failure_keeps_the_artifacts_before_it() {
    let copy = |from: &str| json!([{"from": from, "to": "@artifact/"}]);
    let spec = json!({"artifacts": [{"name": "a", "copy": copy("@repo/apps")}, {"name": "b", "copy": copy("@repo/none")},
        {"name": "c", "copy": copy("@repo/apps")}]});
    let contents = [("repo".to_owned(), source(&FILES))].into();
    let generation = generate(&GeneratorSpec::read(&spec, "shop"), &contents, |_| false);
    assert_eq!(generation.artifacts.len(), 1);
    assert!(matches!(generation.stop, Some(Stop::Fails(_))));
}

#[test]
fn an_artifact_whose_sources_do_not_change_stays() {
    let spec = json!({"artifacts": [{"name": "a", "copy": [{"from": "@oci/x", "to": "@artifact/"}]}]});
    let contents = [("oci".to_owned(), SourceContent::Unchanged("not given".into()))].into();
    let run = |stays: bool| generate(&GeneratorSpec::read(&spec, "shop"), &contents, |_| stays);
    assert_eq!(run(true).artifacts[0].1, Made::Same);
    assert_eq!(run(false).stop, Some(Stop::Unknown("not given".to_owned())));
}

#[test]
fn copies_of_a_large_tree_are_limited() {
    let names: Vec<String> = (0..3000).map(|number| format!("d/{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let operation = json!({"from": "@repo/d", "to": "@artifact/", "exclude": vec!["x".repeat(1000); 100]});
    let spec = json!({"artifacts": [{"name": "a", "copy": [operation]}]});
    let generation =
        generate(&GeneratorSpec::read(&spec, "shop"), &[("repo".to_owned(), source(&files))].into(), |_| false);
    assert!(
        matches!(&generation.stop, Some(Stop::Unknown(why)) if why.contains("copy-steps")),
        "{:?}",
        generation.stop
    );
}
