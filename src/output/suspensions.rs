//! The table of `get`.

use chrono::{DateTime, SecondsFormat, Utc};

use super::duration;
use super::table::Table;
use gitops_core::flux::suspension::view::FluxObject;

/// Number of hexadecimal digits of a hash in a revision.
const HASH_DIGITS: usize = 8;

/// Columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// State of the objects.
    Default,
    /// Suspensions: by whom, since when, until when and why.
    Suspensions,
    /// Both, and more. End and link have columns if an object has them.
    Wide,
    /// The columns of `Wide` for programs: always the same, with absolute times.
    Records,
}

/// Returns a table with one row for each object, with its context if the objects are of several clusters.
pub fn table(items: &[FluxObject<'_>], now: DateTime<Utc>, columns: Columns) -> Table {
    let suspensions = || items.iter().filter_map(|item| item.suspension.as_ref());
    let is_record = columns == Columns::Records;
    let shown = Shown {
        columns,
        context: items.iter().any(|item| item.context.is_some()),
        until: is_record || suspensions().any(|one| one.until.is_some()),
        link: is_record || suspensions().any(|one| one.link.is_some()),
        now,
    };
    let mut table = Table::new(shown.titles());
    for item in items {
        table.row(shown.titles().into_iter().map(|title| shown.cell(title, item)));
    }
    table
}

/// Columns that a table has.
struct Shown {
    columns: Columns,
    context: bool,
    until: bool,
    link: bool,
    now: DateTime<Utc>,
}

impl Shown {
    /// Returns the titles. The message of an object is the last column because it is long.
    fn titles(&self) -> Vec<&'static str> {
        let age = if self.columns == Columns::Records { "CREATED" } else { "AGE" };
        let mut titles = vec!["CONTEXT"];
        titles.retain(|_| self.context);
        titles.extend(["NAMESPACE", "KIND", "NAME"]);
        match self.columns {
            Columns::Default => titles.extend(["REVISION", "SUSPENDED", "READY", age, "MESSAGE"]),
            Columns::Suspensions => titles.extend(["SUSPENDED", "BY", "SINCE", "UNTIL", "REASON"]),
            Columns::Wide | Columns::Records => {
                titles.extend(["REVISION", "SUSPENDED", "READY", age]);
                titles.extend(["BY", "SINCE", "REASON", "LAST-RECONCILED", "SOURCE"]);
                titles.extend(Some("UNTIL").filter(|_| self.until));
                titles.extend(Some("LINK").filter(|_| self.link));
                titles.push("MESSAGE");
            }
        }
        titles
    }

    fn cell(&self, title: &str, item: &FluxObject<'_>) -> String {
        let suspension = item.suspension.as_ref();
        match title {
            "CONTEXT" => or_none(item.context),
            "NAMESPACE" => item.object.namespace.to_string(),
            "KIND" => item.object.kind.to_string(),
            "NAME" => item.object.name.to_string(),
            "REVISION" => or_none(item.revision.map(shorten_hashes).as_deref()),
            "SUSPENDED" => item.suspended(),
            "READY" => or_none(item.ready),
            "AGE" | "CREATED" => self.time(item.created, "<unknown>"),
            "BY" => or_none(item.suspended_by()),
            "SINCE" => suspension.map_or("<none>".to_owned(), |one| self.time(one.since, "<unknown>")),
            "UNTIL" => self.end(item.until()),
            "REASON" => or_none(suspension.and_then(|one| one.message)),
            "LAST-RECONCILED" => self.time(item.last_reconciled, "<none>"),
            "SOURCE" => {
                let sources = item.sources.iter().map(|id| format!("{}/{}/{}", id.kind, id.namespace, id.name));
                or_none(Some(&*sources.collect::<Vec<_>>().join(",")))
            }
            "LINK" => or_none(suspension.and_then(|one| one.link)),
            _ => message(item),
        }
    }

    /// Returns the time since then, or the time itself for programs.
    fn time(&self, time: Option<DateTime<Utc>>, without: &str) -> String {
        match time {
            None => without.to_owned(),
            Some(time) if self.columns == Columns::Records => absolute(time),
            Some(time) => duration::human(self.now - time),
        }
    }

    /// Returns the time until the end of a suspension, or since then; or the end itself for programs.
    fn end(&self, until: Option<DateTime<Utc>>) -> String {
        match until {
            None => "<none>".to_owned(),
            Some(until) if self.columns == Columns::Records => absolute(until),
            Some(until) if until > self.now => format!("in {}", duration::human(until - self.now)),
            Some(until) => format!("EXPIRED {} ago", duration::human(self.now - until)),
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
        let text = table(&items, noon(), Columns::Wide).render(Look::whole(true));
        let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(header[header.len() - 3..], ["UNTIL", "LINK", "MESSAGE"]);
        for (line, expected) in text.lines().skip(1).zip(["in 90m", "EXPIRED 4m ago", "<none>"]) {
            assert!(line.contains(expected), "{expected}: {text}");
        }
        assert!(!table(&items[2..], noon(), Columns::Wide).render(Look::whole(true)).contains("UNTIL"));
        assert!(!table(&items, noon(), Columns::Default).render(Look::whole(true)).contains("UNTIL"));
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
            table(&items, now, Columns::Suspensions).render(Look::whole(true)),
            "NAMESPACE   KIND    NAME   SUSPENDED                  BY    SINCE   UNTIL    REASON\n\
             shop        Alert   apps   annotation, unverifiable   ada   10m     in 80m   drill\n"
        );
        let records = table(&items, now, Columns::Records);
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
            table(&items, now, Columns::Default).render(Look::whole(true)),
            "NAMESPACE   KIND            NAME   REVISION   SUSPENDED    READY   AGE   MESSAGE\n\
             shop        Kustomization   apps   <none>     annotation   False   11m   no…\n"
        );
        assert_eq!(
            table(&items, now, Columns::Wide).render(Look::whole(false)),
            "shop   Kustomization   apps   <none>   annotation   False   11m   ada   10m   drill^[[2J   <none>   Bucket/shop/b   no…\n"
        );
    }
}
