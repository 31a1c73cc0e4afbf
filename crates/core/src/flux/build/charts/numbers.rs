//! Whole numbers at paths of the values. Helm has integers from `--set` only, and every user of the machine can read the arguments of a
//! process: those of Secrets are made integers by a template.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::archive::ChartFiles;
use super::values::overlay_at;
use crate::private::Private;

/// Number of folders of the template. Helm renders first what is in the most folders.
///
/// Source: Helm v4.2.2 `pkg/engine/engine.go`, `sortTemplates`.
const FOLDERS: usize = 40;

/// Adds a template to a chart that makes the numbers at these paths integers before anything else is rendered. Returns the values that it
/// changes, in YAML.
pub(super) fn set_by_template(files: &mut ChartFiles, numbers: &BTreeMap<Vec<String>, i64>) -> Option<Private<String>> {
    let (mut values, mut template) = (Map::new(), String::new());
    for (path, number) in numbers {
        let (name, parents) = path.split_last()?;
        overlay_at(&mut values, path, json!(number));
        let steps: String = parents.iter().map(|parent| format!(" {parent:?}")).collect();
        template += &format!("{{{{- $_ := set (index .Values{steps}) {name:?} (int64 {number}) }}}}");
    }
    if template.is_empty() {
        return None;
    }
    let file = format!("templates/{}numbers.yaml", "numbers/".repeat(FOLDERS));
    files.insert(file, template.into_bytes().into());
    Some(Private::new(Value::Object(values).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_makes_the_numbers_integers() {
        let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        let numbers = BTreeMap::from([(path("a.b.c-d"), 3), (path("a.b.e"), -4), (path("f"), 5)]);
        let mut files = ChartFiles::new();
        let values = set_by_template(&mut files, &numbers).unwrap();
        assert_eq!(values.reveal(), r#"{"a":{"b":{"c-d":3,"e":-4}},"f":5}"#);
        let (file, template) = files.iter().next().unwrap();
        assert_eq!(file.matches('/').count(), FOLDERS + 1);
        let expected = "{{- $_ := set (index .Values \"a\" \"b\") \"c-d\" (int64 3) }}\
                        {{- $_ := set (index .Values \"a\" \"b\") \"e\" (int64 -4) }}\
                        {{- $_ := set (index .Values) \"f\" (int64 5) }}";
        assert_eq!(std::str::from_utf8(template).unwrap(), expected);
        assert!(set_by_template(&mut files, &BTreeMap::new()).is_none());
    }
}
