//! The table of `get`.

use chrono::{DateTime, Utc};

use super::duration;
use super::table::Table;
use gitops_core::flux::suspension::view::FluxObject;

/// Number of hexadecimal digits of a hash in a revision.
const HASH_DIGITS: usize = 8;

/// Returns a table with one row for each object, with its context if the objects are of several clusters. A wide table has more columns, and those of end and link if an object has
/// one.
pub fn table(items: &[FluxObject<'_>], now: DateTime<Utc>, wide: bool) -> Table {
    let header = ["NAMESPACE", "KIND", "NAME", "REVISION", "SUSPENDED", "READY", "AGE"];
    let more = ["BY", "SINCE", "REASON", "LAST-RECONCILED", "SOURCE"].into_iter().filter(|_| wide);
    let suspensions = || items.iter().filter_map(|item| item.suspension.as_ref());
    let (until, link) = (suspensions().any(|one| one.until.is_some()), suspensions().any(|one| one.link.is_some()));
    let shown = [until && wide, link && wide];
    let contexts = items.iter().any(|item| item.context.is_some());
    let context = contexts.then_some("CONTEXT").into_iter();
    let header = context.chain(header).chain(more).chain(shown_cells(["UNTIL", "LINK"], shown)).chain(["MESSAGE"]);
    let mut table = Table::new(header);
    for item in items {
        let more = wide_cells(item, now).into_iter().filter(|_| wide);
        let details = [until_cell(item, now), or_none(item.suspension.as_ref().and_then(|one| one.link))];
        let details = shown_cells(details, shown);
        let context = contexts.then(|| or_none(item.context)).into_iter();
        table.row(context.chain(cells(item, now)).chain(more).chain(details).chain([message(item)]));
    }
    table
}

fn shown_cells<T>(cells: [T; 2], shown: [bool; 2]) -> impl Iterator<Item = T> {
    cells.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell))
}

/// Returns the time until the end of a suspension, or since then.
fn until_cell(item: &FluxObject<'_>, now: DateTime<Utc>) -> String {
    match item.until() {
        None => "<none>".to_owned(),
        Some(until) if until > now => format!("in {}", duration::human(until - now)),
        Some(until) => format!("EXPIRED {} ago", duration::human(now - until)),
    }
}

/// Returns the cells of every table, without the message, which is the last column because it is long.
fn cells(item: &FluxObject<'_>, now: DateTime<Utc>) -> [String; 7] {
    [
        item.object.namespace.to_string(),
        item.object.kind.to_string(),
        item.object.name.to_string(),
        or_none(item.revision.map(shorten_hashes).as_deref()),
        item.suspended(),
        or_none(item.ready),
        duration::age(item.created, now),
    ]
}

fn message(item: &FluxObject<'_>) -> String {
    match (item.deleted, item.deleting) {
        (true, _) => "DELETED".to_owned(),
        (false, Some(_)) => format!("being deleted; {}", item.message),
        (false, None) => item.message.to_owned(),
    }
}

fn wide_cells(item: &FluxObject<'_>, now: DateTime<Utc>) -> [String; 5] {
    let suspension = item.suspension.as_ref();
    let sources: Vec<_> = item.sources.iter().map(|id| format!("{}/{}/{}", id.kind, id.namespace, id.name)).collect();
    [
        or_none(item.suspended_by()),
        suspension.map_or("<none>".to_owned(), |suspension| duration::age(suspension.since, now)),
        or_none(suspension.and_then(|suspension| suspension.message)),
        or_none(item.last_reconciled.map(|time| duration::human(now - time)).as_deref()),
        or_none(Some(&*sources.join(","))),
    ]
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
