//! Git source of a running fluxd, from the arguments of its container.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 6.4.

use std::collections::HashMap;

use serde_json::Value;

use crate::kubernetes::object::list_at;

use super::git_source::GitSource;

/// Relevant flags of one fluxd container, each with its values in order.
pub(crate) struct FluxdArgs(HashMap<String, Vec<String>>);

const WANTED: [&str; 5] = ["git-url", "git-branch", "git-path", "k8s-allow-namespace", "k8s-namespace-whitelist"];

impl FluxdArgs {
    /// Returns the flags of the first container that has `--git-url`, or an error if the Deployment alone
    /// does not determine them.
    pub(crate) fn find(content: &Value) -> Option<Result<Self, String>> {
        let containers = content.pointer("/spec/template/spec/containers")?.as_array()?;
        containers.iter().find_map(|container| {
            let words = list_at(container, "/command").iter().chain(list_at(container, "/args"));
            let args: Vec<&str> = words.filter_map(Value::as_str).collect();
            let is_fluxd = args.iter().any(|arg| *arg == "--git-url" || arg.starts_with("--git-url="));
            is_fluxd.then(|| Self::parse(&args, container))
        })
    }

    fn parse(args: &[&str], container: &Value) -> Result<Self, String> {
        let mut flags: HashMap<String, Vec<String>> = HashMap::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let Some(flag) = arg.strip_prefix("--") else { continue };
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            if !WANTED.contains(&name) {
                continue;
            }
            let value = match value.or_else(|| rest.next().copied()) {
                Some(value) => expand(value, container)?,
                None => return Err(format!("flag --{name} has no value")),
            };
            flags.entry(name.to_owned()).or_default().push(value);
        }
        Ok(Self(flags))
    }

    fn last(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.last().map(String::as_str)
    }

    /// Returns the source that this fluxd applies.
    pub(crate) fn source(&self) -> Result<GitSource, String> {
        let mut paths = vec![];
        for value in self.0.get("git-path").into_iter().flatten() {
            paths.extend(csv(value).ok_or_else(|| format!("--git-path={value} is not a list"))?);
        }
        let url = self.last("git-url").unwrap_or_default().to_owned();
        Ok(GitSource { url, branch: self.last("git-branch").unwrap_or("master").to_owned(), paths })
    }

    /// Returns the namespaces that fluxd is limited to, or `None` for all.
    pub(crate) fn namespaces(&self) -> Option<Vec<&str>> {
        let lists = ["k8s-allow-namespace", "k8s-namespace-whitelist"].into_iter().filter_map(|name| self.0.get(name));
        let all: Vec<&str> = lists.flatten().flat_map(|list| list.split(',')).filter(|name| !name.is_empty()).collect();
        (!all.is_empty()).then_some(all)
    }
}

/// Expands `$(VAR)` as the kubelet does, from plain values only: the URL's user name is hashed, and may come from a Secret.
fn expand(text: &str, container: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out += &rest[..dollar];
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            out += &variable(name, container)?;
            rest = after;
        } else {
            out.push('$');
        }
    }
    Ok(out + rest)
}

fn variable(name: &str, container: &Value) -> Result<String, String> {
    let entry =
        list_at(container, "/env").iter().rfind(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    let hidden = format!("its arguments need the variable {name}, which is not a plain value");
    match entry {
        Some(entry) if entry.get("valueFrom").is_some() => Err(hidden),
        Some(entry) => match entry.get("value").and_then(Value::as_str).unwrap_or_default() {
            nested if nested.contains("$(") => Err(hidden),
            plain => Ok(plain.to_owned()),
        },
        None if !list_at(container, "/envFrom").is_empty() => Err(hidden),
        None => Ok(format!("$({name})")),
    }
}

/// Parses one CSV record: `,` separates, double quotes quote, spaces stay; the empty text is the empty list.
fn csv(text: &str) -> Option<Vec<String>> {
    let mut fields = vec![];
    let mut rest = text;
    if text.is_empty() {
        return Some(fields);
    }
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (field, after) = rest.split_once(',').map_or((rest, None), |(field, after)| (field, Some(after)));
            if field.contains('"') {
                return None;
            }
            fields.push(field.to_owned());
            match after {
                Some(after) => rest = after,
                None => return Some(fields),
            }
            continue;
        };
        let mut field = String::new();
        let mut inner = quoted;
        let after = loop {
            let (part, after) = inner.split_once('"')?;
            field += part;
            match after.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    inner = more;
                }
                None => break after,
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(container: Value) -> Option<Result<GitSource, String>> {
        let content = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}, container]}}}});
        Some(FluxdArgs::find(&content)?.and_then(|args| args.source()))
    }

    #[test]
    fn git_path_is_a_csv_list_that_accumulates() {
        let rows: [(&[&str], &[&str]); 8] = [
            (&["--git-path=a,b"], &["a", "b"]),
            (&["--git-path=a", "--git-path=b"], &["a", "b"]),
            (&["--git-path", "a"], &["a"]),
            (&["--git-path="], &[]),
            (&["--git-path=a, b"], &["a", " b"]),
            (&["--git-path=\"x,y\",z"], &["x,y", "z"]),
            (&["--git-path=a,"], &["a", ""]),
            (&["--git-path=\"a\"\"b\""], &["a\"b"]),
        ];
        for (args, paths) in rows {
            let mut all = vec!["--git-url=u"];
            all.extend(args);
            assert_eq!(source(json!({"args": all})).unwrap().unwrap().paths, paths, "{args:?}");
        }
        for broken in ["--git-path=\"a", "--git-path=a\"b", "--git-path=\"a\"b", "--git-path"] {
            assert!(source(json!({"args": ["--git-url=u", broken]})).unwrap().is_err(), "{broken}");
        }
    }

    #[test]
    fn a_deployment_without_git_url_is_no_fluxd() {
        assert!(source(json!({"args": ["--git-branch=main"]})).is_none());
        assert!(source(json!({"args": 7})).is_none());
        assert!(FluxdArgs::find(&Value::Null).is_none());
        let defaults = source(json!({"command": ["fluxd", "--git-url", "u"]})).unwrap().unwrap();
        assert_eq!((&*defaults.url, &*defaults.branch), ("u", "master"));
    }

    fn url_with(url: &str, extra: Value) -> Result<String, String> {
        let mut container = json!({"args": [format!("--git-url={url}")]});
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        source(container).unwrap().map(|source| source.url)
    }

    #[test]
    fn variables_are_expanded_from_plain_values_only() {
        let plain = json!({"env": [{"name": "U", "value": "me"}]});
        assert_eq!(url_with("https://$(U)@h/r", plain.clone()).as_deref(), Ok("https://me@h/r"));
        assert_eq!(url_with("$$(U)$x", plain).as_deref(), Ok("$(U)$x"));
        assert_eq!(url_with("https://$(U)@h", json!({})).as_deref(), Ok("https://$(U)@h"));
        let secret = json!({"env": [{"name": "U", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
        assert!(url_with("https://$(U)@h/r", secret).unwrap_err().contains('U'));
        assert!(url_with("https://$(U)@h/r", json!({"envFrom": [{"secretRef": {"name": "s"}}]})).is_err());
    }
}
