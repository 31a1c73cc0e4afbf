//! Limits on input that others wrote: files of a tree, texts of a cluster, answers of a server.
//!
//! An overrun is an [`Exceeded`], which names its [`Bound`]. It is a failure of this tool, so callers report a gap: the
//! controllers have other limits, or none. `docs/limits.md` lists every bound.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;

use regex::{Regex, RegexBuilder};

/// A limit, its name in messages and in `docs/limits.md`, and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub name: &'static str,
    pub limit: usize,
    /// Plural noun: `bytes`, `levels`.
    pub unit: &'static str,
}

/// Nested lists and maps of a YAML document. The parser reads no more, but its time grows with the square of the depth.
pub const YAML_DEPTH: Bound = Bound { name: "yaml-depth", limit: 128, unit: "nested lists and maps" };

/// Values of a YAML document with those that aliases repeat, if it has aliases. The parser would first build all of them.
pub const YAML_VALUES: Bound = Bound { name: "yaml-values", limit: 1_000_000, unit: "values with those of aliases" };

/// Nested lists and maps of a kustomization file. Go reads 10,000.
pub(crate) const KUSTOMIZATION_DEPTH: Bound =
    Bound { name: "kustomization-depth", limit: 1000, unit: "nested lists and maps" };

/// Values of a kustomization file, with those that aliases repeat. Go reads more only if few come from aliases.
pub(crate) const KUSTOMIZATION_VALUES: Bound = Bound { name: "kustomization-values", limit: 1_000_000, unit: "values" };

/// Nested `${…}` in one text: each level uses the stack.
pub(crate) const SUBSTITUTION_DEPTH: Bound =
    Bound { name: "substitution-depth", limit: 100, unit: "nested substitutions" };

/// Bytes that the substitutions of one object write, with those of arguments. The API server stores objects of 1.5 MiB.
pub const SUBSTITUTION_SIZE: Bound = Bound { name: "substitution-size", limit: 16 << 20, unit: "bytes of results" };

/// Comparisons of the globs in the substitutions of one object: a value of 1 MiB and a pattern with five stars.
pub const SUBSTITUTION_STEPS: Bound = Bound { name: "substitution-steps", limit: 10_000_000, unit: "comparisons" };

/// Bytes of all ignore rules of a source: each is compared with each path. A line of 64 KiB would be more than
/// source-controller reads.
pub(crate) const IGNORE_SIZE: Bound = Bound { name: "ignore-size", limit: 48 << 10, unit: "bytes of ignore rules" };

/// Patterns in the targets of `spec.ignore`: each is compared with each object.
pub(crate) const IGNORE_PATTERNS: Bound =
    Bound { name: "ignore-patterns", limit: 500, unit: "patterns in spec.ignore" };

/// Bytes of a compiled regular expression. Repetitions multiply: `(\w{99}){99}` has a million states.
pub(crate) const PATTERN_SIZE: Bound =
    Bound { name: "pattern-size", limit: 1 << 20, unit: "bytes of a compiled pattern" };

/// Bytes of a Helm release record when it is unpacked. etcd stores 1.5 MiB of it packed, and gzip shrinks by up to 1000.
pub(crate) const HELM_RECORD_SIZE: Bound = Bound { name: "helm-record-size", limit: 64 << 20, unit: "bytes" };

/// Bytes of a manifest that qbec recorded, when it is unpacked. The API server stores objects of 1.5 MiB.
pub(crate) const QBEC_RECORD_SIZE: Bound = Bound { name: "qbec-record-size", limit: 4 << 20, unit: "bytes" };

/// Bytes of a packed chart. source-controller reads 10 MiB unless its flags say more.
pub const CHART_ARCHIVE_SIZE: Bound = Bound { name: "chart-archive-size", limit: 32 << 20, unit: "bytes" };

/// Bytes of a chart when it is unpacked; the limit of Helm.
pub const CHART_SIZE: Bound = Bound { name: "chart-size", limit: 100 << 20, unit: "bytes" };

/// Bytes of one file of a packed chart; the limit of Helm.
pub const CHART_FILE_SIZE: Bound = Bound { name: "chart-file-size", limit: 5 << 20, unit: "bytes" };

/// Files and directories of a packed chart. Each takes an entry in the temporary directory.
pub const CHART_FILES: Bound = Bound { name: "chart-files", limit: 10_000, unit: "files" };

/// Entries of `substituteFrom` or `valuesFrom`. Each is read, also if a ConfigMap of 1.5 MiB is listed again and again.
pub(crate) const DATA_SOURCES: Bound =
    Bound { name: "data-sources", limit: 200, unit: "ConfigMaps and Secrets in one list" };

/// Nested calls of functions in a template that are replaced before it is rendered: each level uses the stack.
pub(crate) const TEMPLATE_DEPTH: Bound = Bound { name: "template-depth", limit: 100, unit: "nested calls" };

/// Words of templates and values that are read to find what is decided by chance. Variables can name each other in a long chain.
pub(crate) const TEMPLATE_STEPS: Bound = Bound { name: "template-steps", limit: 10_000_000, unit: "words" };

/// Bytes of a pattern in `exclude` of an ArtifactGenerator. The API server accepts 1024 in `from`.
pub(crate) const EXCLUDE_LENGTH: Bound =
    Bound { name: "exclude-length", limit: 1024, unit: "bytes in a pattern of exclude" };

/// Alternatives in braces of one pattern in `exclude`: they multiply.
pub(crate) const EXCLUDE_ALTERNATIVES: Bound =
    Bound { name: "exclude-alternatives", limit: 1000, unit: "alternatives in a pattern of exclude" };

/// Paths that the copy operations of one ArtifactGenerator compare and copy. Its spec can name a large tree thousands of
/// times.
pub(crate) const COPY_STEPS: Bound = Bound { name: "copy-steps", limit: 5_000_000, unit: "compared and copied paths" };

/// Bytes of YAML that one ArtifactGenerator merges.
pub(crate) const MERGE_SIZE: Bound = Bound { name: "merge-size", limit: 64 << 20, unit: "bytes of merged YAML" };

/// Lines of an object before and after a change, together, of which a diff is computed. Its time grows with the square of
/// the number of lines that differ.
pub(crate) const DIFF_LINES: Bound = Bound { name: "diff-lines", limit: 50_000, unit: "lines" };

/// All bounds of this crate.
pub const ALL: [Bound; 24] = [
    YAML_DEPTH,
    YAML_VALUES,
    KUSTOMIZATION_DEPTH,
    KUSTOMIZATION_VALUES,
    SUBSTITUTION_DEPTH,
    SUBSTITUTION_SIZE,
    SUBSTITUTION_STEPS,
    IGNORE_SIZE,
    IGNORE_PATTERNS,
    PATTERN_SIZE,
    HELM_RECORD_SIZE,
    QBEC_RECORD_SIZE,
    CHART_ARCHIVE_SIZE,
    CHART_SIZE,
    CHART_FILE_SIZE,
    CHART_FILES,
    DATA_SOURCES,
    TEMPLATE_DEPTH,
    TEMPLATE_STEPS,
    EXCLUDE_LENGTH,
    EXCLUDE_ALTERNATIVES,
    COPY_STEPS,
    MERGE_SIZE,
    DIFF_LINES,
];

/// A bound that an input exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded(pub Bound);

impl std::error::Error for Exceeded {}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} (limit {})", self.0, self.0.name)
    }
}

impl fmt::Display for Bound {
    /// Writes `128 levels`, and bytes as `64 MiB` or `48 KiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, unit, .. } = self;
        match unit.strip_prefix("bytes") {
            Some(what) if limit % (1 << 20) == 0 => write!(f, "{} MiB{what}", limit >> 20),
            Some(what) if limit % (1 << 10) == 0 => write!(f, "{} KiB{what}", limit >> 10),
            _ => write!(f, "{limit} {unit}"),
        }
    }
}

impl Bound {
    /// Fails if a count exceeds the limit.
    pub fn check(self, count: usize) -> Result<(), Exceeded> {
        if count > self.limit { Err(Exceeded(self)) } else { Ok(()) }
    }
}

/// An allowance that work uses up.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    bound: Bound,
    used: usize,
}

impl Budget {
    pub fn new(bound: Bound) -> Self {
        Self { bound, used: 0 }
    }

    /// Uses up a part of the allowance. Fails if it does not suffice.
    pub fn spend(&mut self, amount: usize) -> Result<(), Exceeded> {
        self.used = self.used.saturating_add(amount);
        self.bound.check(self.used)
    }
}

/// Reason why compressed bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("it is damaged or truncated")]
    Damaged,
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

/// Number of compiled patterns that a thread keeps: those of a few specs.
const KEPT_PATTERNS: usize = 2 * IGNORE_PATTERNS.limit;

thread_local! {
    /// Regular expressions that were compiled on this thread. The same one is asked for with each object.
    static PATTERNS: RefCell<HashMap<String, Result<Regex, regex::Error>>> = RefCell::default();
}

/// Returns a regular expression that others wrote, compiled once and within the limit of its size.
pub(crate) fn compile_pattern(text: &str) -> Result<Regex, regex::Error> {
    PATTERNS.with_borrow_mut(|known| {
        if let Some(found) = known.get(text) {
            return found.clone();
        }
        if known.len() >= KEPT_PATTERNS {
            known.clear();
        }
        let compiled = RegexBuilder::new(text).size_limit(PATTERN_SIZE.limit).build();
        known.insert(text.to_owned(), compiled.clone());
        compiled
    })
}

/// Unpacks gzip without writing more than the bound permits.
pub(crate) fn unpack_gzip(packed: &[u8], bound: Bound) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = vec![];
    let reader = flate2::read::MultiGzDecoder::new(packed);
    reader.take(bound.limit as u64 + 1).read_to_end(&mut unpacked).map_err(|_| UnpackError::Damaged)?;
    bound.check(unpacked.len())?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|bound| bound.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn a_pattern_is_compiled_once_and_up_to_the_limit() {
        assert!(compile_pattern("^a{9}$").is_ok_and(|pattern| pattern.is_match("aaaaaaaaa")));
        let start = std::time::Instant::now();
        for _ in 0..100_000 {
            assert!(compile_pattern("^a{9}$").is_ok());
            assert!(matches!(compile_pattern(r"(\w{99}){99}"), Err(regex::Error::CompiledTooBig(_))));
        }
        let seconds = start.elapsed().as_secs_f32();
        assert!(seconds < 5.0, "{seconds} s");
    }

    #[test]
    fn gzip_is_unpacked_up_to_the_limit() {
        let bound = Bound { name: "test", limit: 1000, unit: "bytes" };
        let unpack = |size: usize| {
            let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            gzip.write_all(&vec![0; size]).unwrap();
            unpack_gzip(&gzip.finish().unwrap(), bound).map(|unpacked| unpacked.len())
        };
        assert_eq!(unpack(1000), Ok(1000));
        assert_eq!(unpack(1001), Err(UnpackError::Exceeded(Exceeded(bound))));
        assert_eq!(unpack(100_000_000).unwrap_err().to_string(), "more than 1000 bytes (limit test)");
        assert_eq!(unpack_gzip(b"\x1f\x8b\x08 no gzip", bound), Err(UnpackError::Damaged));
    }
}
