//! Random repositories in which a value of a Secret reaches every field that a plan reads, to prove that no output shows it.
//!
//! The same change is planned twice: with the value of the Secret, and with a value of a ConfigMap in its place. The second
//! one must be shown, or the search for the first one proves nothing.

mod change;
mod kustomizations;
mod objects;
mod planning;
mod rarer;
mod releases;
mod sets;
mod sources;

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use change::{Change, Way};
pub use planning::Planned;
use planning::{Server, planned};

use crate::testing::Dice;
use crate::text::hex;

/// Number of characters of a form of the value that no output may show.
const PREFIX: usize = 6;

/// A change that is planned with a secret value, with another secret value, and with a public one in its place.
pub struct LeakCase {
    pub secret: String,
    pub private: Planned,
    /// The plan with another secret value: no output may differ. `None` if they differ by what is documented, or because the
    /// answers of the server depend on the length.
    pub twin: Option<Planned>,
    pub public_value: String,
    pub public: Planned,
    /// The cluster has the value already, and the change removes it.
    pub is_live: bool,
    /// Names of the ways on which the value reaches the plan.
    pub ways: Vec<&'static str>,
}

impl LeakCase {
    /// Makes the case with a number. Cases with the same number are equal.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = ways().len();
        let first = number as usize % count;
        let mut chosen = vec![first];
        if dice.roll(2) > 0 {
            chosen.push(dice.roll(count));
        }
        let form = FORMS[dice.roll(FORMS.len())];
        let is_before = dice.one_in(3);
        let server = [Server::Accepts, Server::Accepts, Server::QuotesSome, Server::QuotesValues][dice.roll(4)];
        Self::of(&mut dice, &chosen, form, is_before, server)
    }

    /// Makes the case of a number, in which live objects hold the value, and answers of the API server quote them.
    pub fn of_live(number: u64) -> Self {
        let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
        let chosen = [number as usize % ways().len(), dice.roll(ways().len())];
        let chosen = &chosen[..1 + dice.roll(2)];
        let form = FORMS[dice.roll(FORMS.len())];
        let server = if dice.one_in(3) { Server::QuotesLive } else { Server::Compares };
        let is_before = !dice.one_in(4);
        Self::of(&mut dice, chosen, form, is_before, server)
    }

    /// Makes the cases with one way: the API server accepts everything, or says what it makes of each object, or it quotes what
    /// holds the value. In one of them the value must reach an output; that of the second case is a name that every field accepts.
    pub fn of_way(way: usize) -> [Self; 3] {
        [(Server::Accepts, &ENDINGS[..]), (Server::Compares, &[""]), (Server::QuotesValues, &ENDINGS)]
            .map(|(server, endings)| Self::with(&mut Dice(way as u64 + 1), &[way], "${VALUE}", false, server, endings))
    }

    /// Makes the cases in which the cluster has the value already on two ways, in a form: one for each behaviour of the API server.
    #[cfg(test)]
    pub(crate) fn of_deployed(ways: [usize; 2], form: usize) -> [Self; 4] {
        [Server::Accepts, Server::Compares, Server::QuotesSome, Server::QuotesValues]
            .map(|server| Self::of(&mut Dice(ways[0] as u64 + 1), &ways, FORMS[form], true, server))
    }

    fn of(dice: &mut Dice, chosen: &[usize], form: &str, is_before: bool, server: Server) -> Self {
        Self::with(dice, chosen, form, is_before, server, &ENDINGS)
    }

    /// Makes a case whose values may end with one of these texts.
    fn with(dice: &mut Dice, chosen: &[usize], form: &str, is_before: bool, server: Server, endings: &[&str]) -> Self {
        let all = ways();
        let letters = b"bcdfghjklmnpqrstvwxz";
        // A password can be no YAML, and formats escape its signs. Its beginning is searched for.
        let ending = endings[if dice.one_in(3) { dice.roll(endings.len()) } else { 0 }];
        let [secret, other, public_value] = [(); 3].map(|()| word(dice, letters) + ending);
        let planned = |variable: &str, secret: &str| {
            let mut change = Change::new();
            for way in chosen {
                (all[*way].1)(&mut change, &form.replace("VALUE", variable));
            }
            // The cluster has the value already, and the change removes it or changes something beside it.
            if is_before {
                std::mem::swap(&mut change.before, &mut change.after);
                change.templates.swap(0, 1);
            }
            planned(&change, secret, &public_value, server)
        };
        let (private, public) = (planned("PASSWORD", &secret), planned("OPEN", &secret));
        // The mask of a letter tells it (docs/safety.md, secrets of the cluster). A server that refuses manifests with the value
        // accepts those with a changed form, which a value without the letter does not have.
        let is_accepted_alike = matches!(server, Server::Accepts | Server::Compares | Server::QuotesLive)
            || (server == Server::QuotesValues && form != CHANGED);
        // A name that begins or ends with what the changed form writes is not valid.
        let is_cut = |value: &str| form == CHANGED && (value.starts_with('b') || value.ends_with('b'));
        let is_alike = is_accepted_alike && form != LETTER && is_cut(&secret) == is_cut(&other);
        let twin = is_alike.then(|| planned("PASSWORD", &other));
        let ways: Vec<&str> = chosen.iter().map(|way| all[*way].0).collect();
        let is_live = is_before || ways.iter().any(|way| way.starts_with("removed"));
        Self { secret, private, twin, public_value, public, is_live, ways }
    }

    /// Returns true if the way leads to an output: the plans with the public value in place of the secret one show it where
    /// the plans with the secret one do not.
    pub fn shows_the_public_value(&self) -> bool {
        let texts = [&self.public, &self.private].map(|planned| {
            let plans =
                [&planned.plan, &planned.back].map(|plan| serde_json::to_string_pretty(plan).unwrap_or_default());
            plans.join("\n") + &planned.searches
        });
        let fixed: BTreeSet<&str> = texts[1].lines().collect();
        let forms = forms(&self.public_value);
        let mut more = texts[0].lines().filter(|line| !fixed.contains(line));
        more.any(|line| forms.iter().any(|form| line.contains(form.as_str())))
    }

    /// Returns the number of ways.
    pub fn number_of_ways() -> usize {
        ways().len()
    }

    /// Returns the texts that no output may hold: forms of the secret value and their beginnings. What the names of live
    /// objects show already is left out.
    pub fn forbidden(&self) -> BTreeSet<String> {
        let ids = self.private.snapshot.ids();
        let shown: Vec<String> =
            ids.map(|id| format!("{} {} {} {}", id.group, id.kind, id.namespace, id.name)).collect();
        let mut forms = forms(&self.secret);
        forms.retain(|form| !shown.iter().any(|name| name.contains(form.as_str())));
        forms
    }
}

/// Ends of values in random cases.
const ENDINGS: [&str; 7] = ["", "\"&<'>|`", ": [", " #}}", "%2F+/=", "\\n{{ . }}", "\n- x: y"];

/// Expressions of envsubst for a variable.
const FORMS: [&str; 13] = [
    "${VALUE}",
    "${VALUE}",
    "x-${VALUE}",
    "${VALUE}-y",
    "${VALUE^^}",
    "${UNSET:-${VALUE}}",
    "${VALUE:0:8}",
    "${VALUE/zzz/y}",
    "a.${VALUE}.b",
    // Pieces that are too short to be searched for: the plan must not depend on them.
    "${VALUE:0:5}-x-${VALUE:5}",
    CHANGED,
    // The length and the first letter are parts of the value too.
    "n${#VALUE}",
    LETTER,
];

/// Expression that changes some values and leaves others as they are.
const CHANGED: &str = "${VALUE//b/-}";

/// Expression for the first letter of a variable.
const LETTER: &str = "${VALUE:0:1}";

/// Returns a word of letters that no other text has.
fn word(dice: &mut Dice, letters: &[u8]) -> String {
    let length = 12 + dice.roll(9);
    (0..length).map(|_| char::from(letters[dice.roll(letters.len())])).collect()
}

/// Returns the forms of a value, and the beginning of each.
pub fn forms(value: &str) -> BTreeSet<String> {
    let reversed: String = value.chars().rev().collect();
    let mut found = vec![value.to_owned(), value.to_uppercase(), reversed, hex(value.as_bytes())];
    found.push(hex(value.as_bytes()).to_uppercase());
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        found.extend([engine.encode(value), engine.encode(value.to_uppercase())]);
    }
    let beginnings: Vec<String> = found
        .iter()
        .map(|form| {
            // A few hexadecimal digits occur in every digest.
            let is_hex = form.bytes().all(|byte| byte.is_ascii_hexdigit());
            form.chars().take(if is_hex { 2 * PREFIX } else { PREFIX }).collect()
        })
        .collect();
    found.extend(beginnings);
    found.into_iter().collect()
}

fn ways() -> Vec<Way> {
    // Tests name some by their numbers, so that new ones come last.
    let ways = [releases::ways, sets::ways, kustomizations::ways, objects::ways, sources::ways, rarer::ways];
    ways.into_iter().flat_map(|ways| ways()).collect()
}
