//! Paths inside an artifact: relative to its root, `/`-separated, without leading or trailing slash, empty for the root.

/// Joins a path to the artifact's root as `SecureJoin` does (docs/reference/kustomize-controller.md 3.2):
/// absolute paths and `..` are clamped at the root.
pub(crate) fn secure_join(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    segments.join("/")
}

/// Resolves a reference in a kustomization file of `directory`; `None` if it leaves the artifact.
pub(crate) fn resolve(directory: &str, reference: &str) -> Option<String> {
    if reference.starts_with('/') {
        return None;
    }
    let mut segments: Vec<&str> = directory.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in reference.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

/// Returns the directory of a path; empty for a path in the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns every directory above a path except the root, the nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(end, _)| &path[..end])
}

/// Joins a directory and a name.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_path_is_clamped_inside_the_root() {
        let rows = [
            ("", ""),
            ("./", ""),
            ("./clusters/prod", "clusters/prod"),
            ("/p/sub", "p/sub"),
            ("../../../p/sub", "p/sub"),
            ("a/../../b//c/", "b/c"),
        ];
        for (path, expected) in rows {
            assert_eq!(secure_join(path), expected, "{path}");
        }
    }

    #[test]
    fn a_reference_may_go_up_but_not_out() {
        assert_eq!(resolve("apps/web", "../base").as_deref(), Some("apps/base"));
        assert_eq!(resolve("apps/web", "../../base").as_deref(), Some("base"));
        assert_eq!(resolve("apps/web", "../../../etc"), None);
        assert_eq!(resolve("apps", "/etc/passwd"), None);
    }
}
