//! The table of `get`.

use chrono::{DateTime, Utc};

use super::duration;
use super::table::{Columns, Table};
use gitops_core::flux::suspension::view::FluxObject;

/// Number of hexadecimal digits of a hash in a revision.
const HASH_DIGITS: usize = 8;

/// Returns a table with one row for each object, with its context if the objects are of several clusters. A wide table has more columns, and those of end and link if an object has
/// one.
pub fn table(items: &[FluxObject<'_>], now: DateTime<Utc>, wide: bool) -> Table {
    let has_contexts = items.iter().any(|item| item.context.is_some());
    let has_end = items.iter().filter_map(|item| item.suspension.as_ref()).any(|one| one.until.is_some());
    let has_link = items.iter().filter_map(|item| item.suspension.as_ref()).any(|one| one.link.is_some());
    Columns::new()
        .with_if(has_contexts, "CONTEXT", |item: &FluxObject<'_>| or_none(item.context))
        .with("NAMESPACE", |item| item.object.namespace.to_string())
        .with("KIND", |item| item.object.kind.to_string())
        .with("NAME", |item| item.object.name.to_string())
        .with("REVISION", |item| or_none(item.revision.map(shorten_hashes).as_deref()))
        .with("SUSPENDED", FluxObject::suspended)
        .with("READY", |item| or_none(item.ready))
        .with("AGE", |item| duration::age(item.created, now))
        .with_if(wide, "BY", |item| or_none(item.suspended_by()))
        .with_if(wide, "SINCE", |item| {
            item.suspension.as_ref().map_or("<none>".to_owned(), |one| duration::age(one.since, now))
        })
        .with_if(wide, "REASON", |item| or_none(item.suspension.as_ref().and_then(|one| one.message)))
        .with_if(wide, "LAST-RECONCILED", |item| {
            or_none(item.last_reconciled.map(|time| duration::human(now - time)).as_deref())
        })
        .with_if(wide, "SOURCE", |item| {
            let sources = item.sources.iter().map(|id| format!("{}/{}/{}", id.kind, id.namespace, id.name));
            or_none(Some(&sources.collect::<Vec<_>>().join(",")))
        })
        .with_if(wide && has_end, "UNTIL", |item| until_cell(item, now))
        .with_if(wide && has_link, "LINK", |item| or_none(item.suspension.as_ref().and_then(|one| one.link)))
        // The last column, because it is long.
        .with("MESSAGE", message)
        .table(items)
}

/// Returns the time until the end of a suspension, or since then.
fn until_cell(item: &FluxObject<'_>, now: DateTime<Utc>) -> String {
    match item.until() {
        None => "<none>".to_owned(),
        Some(until) if until > now => format!("in {}", duration::human(until - now)),
        Some(until) => format!("EXPIRED {} ago", duration::human(now - until)),
    }
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
    use crate::output::table::Look;
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
        let text = table(&items, noon(), true).render(Look::whole(true));
        let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(header[header.len() - 3..], ["UNTIL", "LINK", "MESSAGE"]);
        for (line, expected) in text.lines().skip(1).zip(["in 90m", "EXPIRED 4m ago", "<none>"]) {
            assert!(line.contains(expected), "{expected}: {text}");
        }
        assert!(!table(&items[2..], noon(), true).render(Look::whole(true)).contains("UNTIL"));
        assert!(!table(&items, noon(), false).render(Look::whole(true)).contains("UNTIL"));
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
            table(&items, now, false).render(Look::whole(true)),
            "NAMESPACE   KIND            NAME   REVISION   SUSPENDED    READY   AGE   MESSAGE\n\
             shop        Kustomization   apps   <none>     annotation   False   11m   no…\n"
        );
        assert_eq!(
            table(&items, now, true).render(Look::whole(false)),
            "shop   Kustomization   apps   <none>   annotation   False   11m   ada   10m   drill^[[2J   <none>   Bucket/shop/b   no…\n"
        );
    }
}
