//! Random texts of each grammar: mostly valid, with all operators, and with characters at which readers differ.

use std::collections::BTreeMap;

use test_support::random::Random;

/// Characters of values: ASCII, letters that change their length or number with the case, symbols, a combining mark.
const CHARACTERS: [&str; 30] = [
    "a", "b", "A", "B", "ab", "a/b", "/", ".", "-", "_", "1", "0", " ", ":", "\n", "\"", "\\", "*", "?", "[a-c]", "é",
    "ß", "İ", "ŉ", "ǆ", "ᾳ", "€", "😀", "\u{301}", "%",
];

/// Names of variables that are set, and of some that are not.
const NAMES: [&str; 12] = ["A", "B", "C", "D", "E", "U", "a_b", "A1", "_", "é", "x²", "Ⅷ"];

/// A text to substitute.
pub(super) struct Substitution {
    pub(super) text: String,
    pub(super) variables: BTreeMap<&'static str, String>,
    pub(super) strict: bool,
}

/// Ignore files and the path that they may exclude.
#[derive(Debug)]
pub(super) struct IgnoredPath {
    /// Directory and text, in order of priority.
    pub(super) files: Vec<(String, String)>,
    pub(super) path: String,
    pub(super) is_directory: bool,
}

fn several(random: &mut Random, most: usize, part: impl Fn(&mut Random) -> String) -> String {
    (0..random.below(most + 1)).map(|_| part(random)).collect()
}

fn word(random: &mut Random, most: usize) -> String {
    several(random, most, |random| random.pick(&CHARACTERS).to_owned())
}

pub(super) fn substitution(random: &mut Random) -> Substitution {
    let mut variables = BTreeMap::from([("E", String::new())]);
    for name in ["A", "B", "C", "D", "a_b", "A1"] {
        variables.insert(name, word(random, 6));
    }
    variables.insert("D", random.below(9).to_string());
    let text = several(random, 5, |random| match random.below(6) {
        0 => random.pick(&["$", "$$", "$$$", "{", "}", "${", "$A", "\\", "\\$", "$${A}", "$$${A}", "\0"]).to_owned(),
        1 => word(random, 4),
        _ => call(random, 0),
    });
    Substitution { text, variables, strict: random.one_in(3) }
}

fn call(random: &mut Random, depth: usize) -> String {
    let known = if random.one_in(8) { NAMES.len() } else { 8 };
    let name = random.pick(&NAMES[..known]);
    if random.one_in(60) {
        return word(random, 3) + "${" + &word(random, 3) + "}";
    }
    let argument = |random: &mut Random| argument(random, depth);
    let number = |random: &mut Random| match random.below(8) {
        0 => argument(random),
        1 => "9223372036854775807".to_owned(),
        2 => "-9223372036854775808".to_owned(),
        3 => format!("+{}", random.below(5)),
        _ => format!("{}", random.below(12) as i64 - 4),
    };
    let body = match random.below(11) {
        0 | 1 => name.to_owned(),
        2 => format!("#{name}"),
        3 | 4 => {
            let known = if random.one_in(9) { 8 } else { 5 };
            let operator = random.pick(&[":-", ":=", ":?", ":+", "=", "-", "+", "?"][..known]);
            let arguments = several(random, 3, |random| argument(random));
            format!("{name}{operator}{arguments}")
        }
        5 => format!("{name}:{}", number(random)),
        6 => format!("{name}:{}:{}", number(random), number(random)),
        7 => format!("{name}{}", random.pick(&["^", "^^", ",", ",,", ",^", "^^^"])),
        8 | 9 => {
            let operator = random.pick(&["#", "##", "%", "%%"]);
            let pattern = if random.one_in(3) { argument(random) } else { pattern(random, 4) };
            format!("{name}{operator}{pattern}")
        }
        _ => {
            let operator = random.pick(&["/", "//", "/#", "/%"]);
            let separator = random.pick(&["/", "/", "/", "//", ""]);
            format!("{name}{operator}{}{separator}{}", argument(random), argument(random))
        }
    };
    let end = if random.one_in(60) { "" } else { "}" };
    format!("${{{body}{end}")
}

fn argument(random: &mut Random, depth: usize) -> String {
    match random.below(8) {
        0 | 1 if depth < 3 => call(random, depth + 1),
        2 => random.pick(&["$", "$$", "\\/", "\\\\", "$A", "$${A}", "'", "{"]).to_owned(),
        3 => String::new(),
        _ => word(random, 3).replace('}', ""),
    }
}

/// Returns a glob.
fn pattern(random: &mut Random, most: usize) -> String {
    several(random, most, |random| match random.below(9) {
        0 | 1 => "*".to_owned(),
        2 => "?".to_owned(),
        3 => random
            .pick(&["[a-c]", "[^a]", "[a-", "[]a]", "[^]", "[\\]a]", "[à-ü]", "[a*]", "[b-a]", "[", "]"])
            .to_owned(),
        4 => format!("\\{}", random.pick(&CHARACTERS)),
        5 if random.one_in(9) => "\\".to_owned(),
        _ => random.pick(&CHARACTERS).to_owned(),
    })
}

/// Returns a pattern, and a text that it often matches. None has a `/`, which is not matched in one step.
pub(super) fn glob(random: &mut Random) -> (String, String) {
    let pattern = pattern(random, 5).replace('/', "c");
    let text = if random.one_in(3) { word(random, 5) } else { matching(random, &pattern) };
    (pattern, text.replace('/', "c"))
}

/// Returns a text that a pattern without classes matches.
fn matching(random: &mut Random, pattern: &str) -> String {
    let mut text = String::new();
    for c in pattern.chars() {
        match c {
            '*' => text += &word(random, 2),
            '?' => text += random.pick(&["a", "é", "€"]),
            '[' => text.push('a'),
            '\\' => {}
            c => text.push(c),
        }
    }
    text
}

const DIRECTORIES: [&str; 8] = ["a", "b", "apps", ".git", ".github", "é", "x y", "a.b"];
const FILES: [&str; 10] = ["a", "b", "a.yaml", "x.jpg", ".sops.yaml", ".gitignore", "é.yaml", "b ", "#x", "!x"];

fn directory(random: &mut Random, most: usize) -> Vec<&'static str> {
    (0..random.below(most + 1)).map(|_| random.pick(&DIRECTORIES)).collect()
}

pub(super) fn ignored_path(random: &mut Random) -> IgnoredPath {
    let mut path = directory(random, 4);
    path.push(random.pick(&FILES));
    let files = (0..random.below(3))
        .map(|_| {
            // Often a directory above the path.
            let directory =
                if random.one_in(3) { directory(random, 2) } else { path[..random.below(path.len())].to_vec() };
            let below: Vec<&str> = path.get(directory.len()..).unwrap_or_default().to_vec();
            let text = several(random, 5, |random| line(random, &below));
            (directory.join("/"), text)
        })
        .collect();
    IgnoredPath { files, path: path.join("/"), is_directory: random.one_in(3) }
}

/// Returns one line of an ignore file: often the path with changes, so that it matches.
fn line(random: &mut Random, path: &[&str]) -> String {
    if random.one_in(12) {
        return random
            .pick(&["\n", "# x\n", "  \n", "/\n", "**\n", "!\n", "//\n", "**/\n", "\r\n", "!#x\n", "\u{a0}\n"])
            .to_owned();
    }
    let mut segments: Vec<String> = path.iter().map(|segment| (*segment).to_owned()).collect();
    while !segments.is_empty() && random.one_in(2) {
        segments.remove(random.below(segments.len()));
    }
    for segment in &mut segments {
        match random.below(8) {
            0 => *segment = "*".to_owned(),
            1 => *segment = "**".to_owned(),
            2 => *segment = pattern(random, 3),
            3 => *segment = segment.replacen('a', "?", 1),
            4 => *segment += random.pick(&["*", "**", "?", " ", "\\ "]),
            _ => {}
        }
    }
    for extra in ["**", ""] {
        if random.one_in(6) {
            segments.insert(random.below(segments.len() + 1), extra.to_owned());
        }
    }
    let prefix = random.pick(&["", "", "", "!", "/", "!/"]);
    let suffix = random.pick(&["", "", "", "/", " ", "  ", "\\ ", "/ ", "/**", "\r"]);
    let end = if random.one_in(20) { "\r\n" } else { "\n" };
    format!("{prefix}{}{suffix}{end}", segments.join("/"))
}
