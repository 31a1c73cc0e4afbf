//! Formats of texts that the server checks. It ignores all others.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/validation/formats.go`, and `kube-openapi/pkg/validation/strfmt`.

use std::net::{Ipv4Addr, Ipv6Addr};

use chrono::NaiveDate;

use crate::bounds::compile_pattern;
use crate::kubernetes::object::parse_time;

const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID3: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID4: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID5: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const HEX_COLOR: &str = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
const SHORT_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LONG_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A time without a leap second.
const PLAIN_TIME: &str = r"^[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";
/// A duration with one number or more, all with units, as most are.
const PLAIN_DURATION: &str = r"^([0-9]{1,9}(\.[0-9]+)?(ns|us|ms|s|m|h))+$";
/// A host name without symbols and letters beyond ASCII, which the server allows too.
const HOST: &str =
    r"^([a-zA-Z0-9](-?[a-zA-Z0-9]{0,62})?|([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63})$";
/// An address on the web with nothing to escape.
const PLAIN_URI: &str = r"^[a-z][a-z0-9+.-]*://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~/-]*)?$";

/// What is known about a text and a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    Unknown,
}

impl Verdict {
    fn of(has_format: bool) -> Self {
        if has_format { Self::Yes } else { Self::No }
    }

    fn yes_if(self, holds: bool) -> Self {
        if holds { Self::Yes } else { self }
    }

    fn no_if(self, holds: bool) -> Self {
        if holds { Self::No } else { self }
    }
}

/// Returns true if the server checks a format of texts, in one of its versions.
pub(super) fn is_checked(format: &str) -> bool {
    const CHECKED: [&str; 27] = [
        "bsonobjectid",
        "byte",
        "cidr",
        "creditcard",
        "date",
        "datetime",
        "duration",
        "email",
        "hexcolor",
        "hostname",
        "ipv4",
        "ipv6",
        "isbn",
        "isbn10",
        "isbn13",
        "k8slongname",
        "k8sshortname",
        "mac",
        "password",
        "rgbcolor",
        "ssn",
        "uri",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "",
    ];
    CHECKED.contains(&&*format.replace('-', ""))
}

/// Returns how a text has a format.
pub(super) fn has_format(text: &str, format: &str) -> Verdict {
    let matches = |pattern: &str| compile_pattern(pattern).is_ok_and(|pattern| pattern.is_match(text));
    match format.replace('-', "").as_str() {
        "" | "password" => Verdict::Yes,
        "uuid" => Verdict::of(matches(UUID)),
        "uuid3" => Verdict::of(matches(UUID3)),
        "uuid4" => Verdict::of(matches(UUID4)),
        "uuid5" => Verdict::of(matches(UUID5)),
        "hexcolor" => Verdict::of(matches(HEX_COLOR)),
        "byte" => Verdict::of(matches(BASE64)),
        "date" => Verdict::of(text.len() == 10 && NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()),
        "datetime" => {
            let is_plain = matches(PLAIN_TIME) && parse_time(text).is_some();
            Verdict::Unknown.yes_if(is_plain).no_if(!text.contains(['t', 'T']))
        }
        "ipv4" => Verdict::Unknown.yes_if(text.parse::<Ipv4Addr>().is_ok()).no_if(!text.contains('.')),
        "ipv6" => Verdict::Unknown.yes_if(text.parse::<Ipv6Addr>().is_ok()).no_if(!text.contains(':')),
        "cidr" => Verdict::Unknown.yes_if(is_cidr(text)).no_if(!text.contains('/')),
        "duration" => {
            Verdict::Unknown.yes_if(matches(PLAIN_DURATION)).no_if(!text.contains(|c: char| c.is_ascii_digit()))
        }
        "hostname" if !text.chars().all(|c| c.is_ascii_alphanumeric() || "-._ ".contains(c)) => Verdict::Unknown,
        "hostname" => Verdict::of(text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(HOST)),
        "uri" => Verdict::Unknown.yes_if(matches(PLAIN_URI)).no_if(!text.contains([':', '/'])),
        "k8sshortname" => Verdict::Unknown.yes_if(text.len() <= 63 && matches(SHORT_NAME)),
        "k8slongname" => Verdict::Unknown.yes_if(text.len() <= 253 && matches(LONG_NAME)),
        _ if is_checked(format) => Verdict::Unknown,
        _ => Verdict::Yes,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    let is_address = address.parse::<Ipv4Addr>().is_ok() || address.parse::<Ipv6Addr>().is_ok();
    is_address && !length.starts_with('+') && length.parse::<u8>().is_ok_and(|length| length <= most)
}
