//! The table of `get`.

use chrono::{DateTime, SecondsFormat, Utc};

use super::text::duration;
use super::text::table::{Columns, Table};
use gitops_core::flux::suspension::view::FluxObject;

/// Number of hexadecimal digits of a hash in a revision.
const HASH_DIGITS: usize = 8;

/// Columns of the table of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// State of the objects.
    State,
    /// Suspensions: by whom, since when, until when and why.
    Suspensions,
    /// Both, and more. End and link have columns if an object has them.
    Wide,
    /// The columns of `Wide` for programs: always the same, with absolute times.
    Records,
}

/// Returns a table with one row for each object, with its context if the objects are of several clusters.
pub fn table(items: &[FluxObject<'_>], now: DateTime<Utc>, view: View) -> Table {
    let has_contexts = items.iter().any(|item| item.context.is_some());
    let has_end = items.iter().filter_map(|item| item.suspension.as_ref()).any(|one| one.until.is_some());
    let has_link = items.iter().filter_map(|item| item.suspension.as_ref()).any(|one| one.link.is_some());
    let is_record = view == View::Records;
    let is_wide = is_record || view == View::Wide;
    let has_state = view != View::Suspensions;
    let has_origin = view != View::State;
    let times = Times { now, is_absolute: is_record };
    Columns::new()
        .with_if(has_contexts, "CONTEXT", |item: &FluxObject<'_>| or_none(item.context))
        .with("NAMESPACE", |item| item.object.namespace.to_string())
        .with("KIND", |item| item.object.kind.to_string())
        .with("NAME", |item| item.object.name.to_string())
        .with_if(has_state, "REVISION", |item| or_none(item.revision.map(shorten_hashes).as_deref()))
        .with("SUSPENDED", FluxObject::suspended)
        .with_if(has_state, "READY", |item| or_none(item.ready))
        .with_if(has_state && !is_record, "AGE", |item| times.since(item.created, "<unknown>"))
        .with_if(is_record, "CREATED", |item| times.since(item.created, "<unknown>"))
        .with_if(has_origin, "BY", |item| or_none(item.suspended_by()))
        .with_if(has_origin, "SINCE", |item| {
            item.suspension.as_ref().map_or("<none>".to_owned(), |one| times.since(one.since, "<unknown>"))
        })
        .with_if(!has_state, "UNTIL", |item| times.until(item.until()))
        .with_if(has_origin, "REASON", |item| or_none(item.suspension.as_ref().and_then(|one| one.message)))
        .with_if(is_wide, "LAST-RECONCILED", |item| times.since(item.last_reconciled, "<none>"))
        .with_if(is_wide, "SOURCE", |item| {
            let sources = item.sources.iter().map(|id| format!("{}/{}/{}", id.kind, id.namespace, id.name));
            or_none(Some(&sources.collect::<Vec<_>>().join(",")))
        })
        .with_if(is_record || (is_wide && has_end), "UNTIL", |item| times.until(item.until()))
        .with_if(is_record || (is_wide && has_link), "LINK", |item| {
            or_none(item.suspension.as_ref().and_then(|one| one.link))
        })
        // The last column, because it is long.
        .with_if(has_state, "MESSAGE", message)
        .table(items)
}

/// Format of times: relative to now for people, absolute for programs.
struct Times {
    now: DateTime<Utc>,
    is_absolute: bool,
}

impl Times {
    fn since(&self, time: Option<DateTime<Utc>>, without: &str) -> String {
        match time {
            None => without.to_owned(),
            Some(time) if self.is_absolute => absolute(time),
            Some(time) => duration::human(self.now - time),
        }
    }

    /// Returns the time until the end of a suspension, or since then.
    fn until(&self, end: Option<DateTime<Utc>>) -> String {
        match end {
            None => "<none>".to_owned(),
            Some(end) if self.is_absolute => absolute(end),
            Some(end) if end > self.now => format!("in {}", duration::human(end - self.now)),
            Some(end) => format!("EXPIRED {} ago", duration::human(self.now - end)),
        }
    }
}

fn absolute(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn message(item: &FluxObject<'_>) -> String {
    match (item.deleted, item.deleting) {
        (true, _) => "DELETED".to_owned(),
        (false, Some(_)) => format!("being deleted; {}", item.message),
        (false, None) => item.message.to_owned(),
    }
}

fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("<none>").to_owned()
}

/// Shortens the hashes in a revision: `main@sha1:1234567890…` becomes `main@sha1:12345678`.
fn shorten_hashes(revision: &str) -> String {
    let mut text = String::new();
    for part in revision.split_inclusive([':', '@', '/']) {
        let digits = part.trim_end_matches([':', '@', '/']);
        let hash = (40..=128).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.push_str(if hash { &digits[..HASH_DIGITS] } else { digits });
        text.push_str(&part[digits.len()..]);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::text::table::Look;
    use gitops_core::flux::suspension::view::ObjectsById;
    use gitops_core::flux::suspension::{ANNOTATION, FIELD_MANAGER, LINK, SUSPENDED_BY, UNTIL};
    use gitops_core::testing::{flux_object, noon, owner_of};

    #[test]
    fn hashes_in_revisions_are_shortened() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        for (revision, expected) in [
            (format!("main@sha1:{hash}"), "main@sha1:01234567"),
            (format!("refs/heads/{hash}"), "refs/heads/01234567"),
            (format!("latest@sha256:{hash}{hash}"), "latest@sha256:01234567"),
            ("1.2.3".to_owned(), "1.2.3"),
            ("main@sha1:abc".to_owned(), "main@sha1:abc"),
        ] {
            assert_eq!(shorten_hashes(&revision), expected);
        }
    }

    #[test]
    fn end_and_link_have_columns_where_an_object_has_them() {
        let ends = |minutes: i64| (noon() + chrono::TimeDelta::minutes(minutes)).to_rfc3339();
        let (soon, over) = (ends(90), ends(-4));
        let object =
            |annotations: &[(&str, &str)]| flux_object("Alert", json!({"spec": {"suspend": true}}), annotations);
        let objects = [object(&[(UNTIL, &soon), (LINK, "https://inc/1")]), object(&[(UNTIL, &over)]), object(&[])];
        let items: Vec<_> = objects.iter().map(|full| FluxObject::new(full, &ObjectsById::new(), &[])).collect();
        let text = table(&items, noon(), View::Wide).render(Look::whole(true));
        let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(header[header.len() - 3..], ["UNTIL", "LINK", "MESSAGE"]);
        for (line, expected) in text.lines().skip(1).zip(["in 90m", "EXPIRED 4m ago", "<none>"]) {
            assert!(line.contains(expected), "{expected}: {text}");
        }
        assert!(!table(&items[2..], noon(), View::Wide).render(Look::whole(true)).contains("UNTIL"));
        assert!(!table(&items, noon(), View::State).render(Look::whole(true)).contains("UNTIL"));
    }

    #[test]
    fn suspensions_have_a_table_of_their_own_and_records_have_absolute_times() {
        let until = (noon() + chrono::TimeDelta::minutes(90)).to_rfc3339();
        let annotations = [(ANNOTATION, "drill"), (SUSPENDED_BY, "ada"), (UNTIL, &*until)];
        let mut full = flux_object("Alert", json!({}), &annotations);
        full.object.managed_fields = vec![owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION])];
        let items = [FluxObject::new(&full, &ObjectsById::new(), &[])];
        let now = noon() + chrono::TimeDelta::minutes(10);
        assert_eq!(
            table(&items, now, View::Suspensions).render(Look::whole(true)),
            "NAMESPACE   KIND    NAME   SUSPENDED                  BY    SINCE   UNTIL    REASON\n\
             shop        Alert   apps   annotation, unverifiable   ada   10m     in 80m   drill\n"
        );
        let records = table(&items, now, View::Records);
        let rows: Vec<Vec<String>> = records.records(true).map(<[String]>::to_vec).collect();
        for (title, expected) in [
            ("CREATED", "2026-01-02T12:00:00Z"),
            ("SINCE", "2026-01-02T12:00:00Z"),
            ("UNTIL", "2026-01-02T13:30:00Z"),
            ("LAST-RECONCILED", "<none>"),
            ("LINK", "<none>"),
        ] {
            let at = rows[0].iter().position(|column| column == title).unwrap();
            assert_eq!(rows[1][at], expected, "{title}");
        }
    }

    #[test]
    fn the_wide_table_has_user_time_and_message() {
        let ready = json!({"type": "Ready", "status": "False", "message": "no\nsuch path"});
        let content =
            json!({"spec": {"sourceRef": {"kind": "Bucket", "name": "b"}}, "status": {"conditions": [ready]}});
        let mut full = flux_object("Kustomization", content, &[(ANNOTATION, "drill\u{1b}[2J"), (SUSPENDED_BY, "ada")]);
        full.object.managed_fields = vec![owner_of(FIELD_MANAGER, false, 60, &[ANNOTATION])];
        let items = [FluxObject::new(&full, &ObjectsById::new(), &[])];
        let now = noon() + chrono::TimeDelta::minutes(11);
        assert_eq!(
            table(&items, now, View::State).render(Look::whole(true)),
            "NAMESPACE   KIND            NAME   REVISION   SUSPENDED    READY   AGE   MESSAGE\n\
             shop        Kustomization   apps   <none>     annotation   False   11m   no…\n"
        );
        assert_eq!(
            table(&items, now, View::Wide).render(Look::whole(false)),
            "shop   Kustomization   apps   <none>   annotation   False   11m   ada   10m   drill^[[2J   <none>   Bucket/shop/b   no…\n"
        );
    }
}
