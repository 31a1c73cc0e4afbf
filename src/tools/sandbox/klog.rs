//! Lines that a program logs with klog, as some builds of kubectl do with their errors. The header of a line has a time and a
//! process id, which would be in plans.

/// Words before an error that ends a program (`k8s.io/component-base/cli`).
const FAILED: &str = "\"command failed\" err=";

/// Returns a text without the headers of klog. An error that ends a program is as other builds print it.
pub(super) fn without_headers(text: &str) -> String {
    let (mut lines, mut is_error) = (vec![], false);
    for line in text.split('\n') {
        let Some(message) = after_header(line) else {
            match line {
                " >" if is_error => is_error = false,
                line if is_error => lines.push(line.strip_prefix('\t').unwrap_or(line).to_owned()),
                line => lines.push(line.to_owned()),
            }
            continue;
        };
        match message.strip_prefix(FAILED) {
            Some("<") => is_error = true,
            Some(quoted) => lines.push(serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())),
            None => lines.push(message.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the message of a line with a header, `E1129 09:21:36.871221   22631 run.go:72] `.
fn after_header(line: &str) -> Option<&str> {
    let (header, message) = line.split_once("] ")?;
    let words: Vec<&str> = header.split_ascii_whitespace().collect();
    let [day, time, process, place] = words[..] else { return None };
    let is_day = day.len() == 5 && day.starts_with(['I', 'W', 'E', 'F']) && consists_of(&day[1..], "");
    let is_place = place.rsplit_once(':').is_some_and(|(_, line)| consists_of(line, ""));
    (is_day && consists_of(time, ":.") && consists_of(process, "") && is_place).then_some(message)
}

/// Returns true if a word has only digits and these other characters.
fn consists_of(word: &str, others: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit() || others.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_print_the_same() {
        for (logged, expected) in [
            (
                "E1129 09:21:36.871221   22631 run.go:72] \"command failed\" err=\"no \\\"a\\\" in '/b'\"\n",
                "no \"a\" in '/b'\n",
            ),
            ("E1129 09:21:36.871221 1 run.go:72] \"command failed\" err=<\n\ta\n\t  b\n >\nc", "a\n  b\nc"),
            ("W0102 03:04:05.000000       1 a.go:1] old field\nerror: no", "old field\nerror: no"),
            ("error: no [x] y\n\tz\n >", "error: no [x] y\n\tz\n >"),
            ("Events 1:2 3 a.go:1] x", "Events 1:2 3 a.go:1] x"),
            ("E1129 09:21 a b.go:1] x", "E1129 09:21 a b.go:1] x"),
            ("", ""),
        ] {
            assert_eq!(without_headers(logged), expected);
        }
    }
}
