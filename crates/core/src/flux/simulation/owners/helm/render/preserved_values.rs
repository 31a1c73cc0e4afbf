//! Upgrades with `upgrade.preserveValues`: Helm merges the new values over those of the last release, and the defaults
//! of its chart take the place of those of the new chart.
//!
//! Source: Helm v4.2.2 `pkg/action/upgrade.go`, `reuseValues`. The values of the last release are in its record, a
//! Secret that is not read. They are those of the spec if helm-controller recorded the same digest of both.

use serde_json::Value;

use super::rendering::Version;
use crate::flux::build::charts::values::Values;
use crate::kubernetes::object::{Resource, flag_at, list_at};

/// Returns true if an upgrade with this spec preserves the values of the last release.
pub(crate) fn preserves(spec: &Value) -> bool {
    flag_at(spec, "/upgrade/preserveValues")
}

/// Returns true if the last release has the values that helm-controller tried last; `None` if that is not recorded.
pub(crate) fn has_attempted_values(live: &Resource) -> Option<bool> {
    let [latest, attempted] = ["/status/history/0/configDigest", "/status/lastAttemptedConfigDigest"]
        .map(|field| live.text(field).unwrap_or_default());
    (!latest.is_empty() && !attempted.is_empty()).then_some(latest == attempted)
}

/// Fails if the values of the last release, or the defaults with which it was rendered, are not those of the deployed
/// chart and of the spec.
pub(crate) fn check_deployed(live: &Resource) -> Result<(), String> {
    if has_attempted_values(live) != Some(true) {
        return Err(
            "upgrade.preserveValues keeps values of its last release that its spec does not have, and Helm's record of it is \
             not read"
                .to_owned(),
        );
    }
    let history = list_at(&live.content, "/status/history");
    let is_first = history.last().and_then(|entry| entry.get("version")).and_then(Value::as_i64) == Some(1);
    let charts = history.iter().map(|entry| entry.get("chartVersion"));
    if is_first && charts.clone().zip(charts.skip(1)).all(|(newer, older)| newer == older) {
        return Ok(());
    }
    Err("upgrade.preserveValues keeps the defaults of an earlier version of its chart, which is not read".to_owned())
}

/// Returns a version as an upgrade of a release with these values renders it.
///
/// Fails if Helm merges the values in a way that is not followed here.
pub(crate) fn preserved(old: &Version, new: Version) -> Result<Version, String> {
    let Some(defaults) = old.chart.own_defaults() else {
        return Err(
            "upgrade.preserveValues merges the values of its chart, which has subcharts or cannot be read".to_owned()
        );
    };
    let before = old.values.merged();
    let is_plain = [&defaults, &before, &new.values.merged()].into_iter().all(|values| !has_null(values));
    if !is_plain {
        return Err("upgrade.preserveValues merges values that are null".to_owned());
    }
    let mut coalesced = Values::default();
    coalesced.add_text(defaults.to_string());
    coalesced.add_text(before.to_string());
    let mut values = Values { is_private: old.values.is_private, ..Values::default() };
    values.add_text(before.to_string());
    values.append(&new.values);
    Ok(Version { chart: new.chart.with_defaults(&coalesced.merged()), values })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::build::charts::Chart;
    use crate::private::Private;
    use crate::testing::{Build, object};

    fn version(defaults: &str, values: &str) -> Version {
        let files = [("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"), ("values.yaml", defaults)]
            .map(|(at, text)| (at.to_owned(), text.as_bytes().into()))
            .into_iter()
            .collect();
        let chart = Chart::packed(std::sync::Arc::new(files)).unwrap();
        let values = Values { texts: vec![Private::new(values.to_owned())], ..Values::default() };
        Version { chart, values }
    }

    #[test]
    fn new_values_override_the_last_ones_and_these_the_defaults_of_the_last_chart() {
        let old = version("{a: 1, b: {c: 1, d: 1}, e: 1}", "{b: {c: 2}, f: 2}");
        let new = preserved(&old, version("{a: 9, g: 9}", "{b: {d: 3}}")).unwrap();
        assert_eq!(new.values.merged(), json!({"b": {"c": 2, "d": 3}, "f": 2}));
        let defaults = json!({"a": 1, "b": {"c": 2, "d": 1}, "e": 1, "f": 2});
        assert_eq!(new.chart.own_defaults(), Some(defaults), "the defaults of the new chart are gone");
        assert!(preserved(&version("on: 1", "{}"), version("", "{}")).is_err(), "Go reads the key as true");
        let null = preserved(&old, version("", "{b: null}"));
        assert_eq!(null.err().as_deref(), Some("upgrade.preserveValues merges values that are null"));
    }

    #[test]
    fn the_deployed_values_are_known_if_the_digests_are_equal_and_the_chart_was_never_another_one() {
        let release = |attempted: &str, versions: Value| {
            let status = json!({"lastAttemptedConfigDigest": attempted, "history": versions});
            let live = object("helm.toolkit.fluxcd.io", "HelmRelease", "shop", "app");
            check_deployed(&live.with_content(json!({"status": status})))
        };
        let entry = |version: i64, chart: &str| json!({"version": version, "chartVersion": chart, "configDigest": "a"});
        assert_eq!(release("a", json!([entry(2, "1.0.0"), entry(1, "1.0.0")])), Ok(()));
        assert!(release("b", json!([entry(1, "1.0.0")])).unwrap_err().contains("that its spec does not have"));
        for earlier in [json!([entry(2, "2.0.0"), entry(1, "1.0.0")]), json!([entry(3, "1.0.0"), entry(2, "1.0.0")])] {
            assert!(release("a", earlier).unwrap_err().contains("an earlier version of its chart"));
        }
    }
}
