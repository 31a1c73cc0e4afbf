//! Charts in archives: files of a chart repository, and artifacts of source-controller.
//!
//! Source: Helm v4.2.2 `pkg/chart/loader/archive`, whose limits are those of this module.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use tar::EntryType;

use crate::bounds::{Budget, CHART_FILE_SIZE, CHART_FILES, CHART_SIZE};
use crate::text::sha256;

/// File with the metadata of a chart.
pub const CHART_FILE: &str = "Chart.yaml";

/// Files of a chart, by their path in it.
pub type ChartFiles = BTreeMap<String, Arc<[u8]>>;

/// Files of a chart, or the reason why there are none.
pub type ChartResult = Result<Arc<ChartFiles>, String>;

/// Fails if an archive does not have this digest, in the form `sha256:…`.
pub(crate) fn check_digest(archive: &[u8], digest: &str) -> Result<(), String> {
    let found = sha256(archive);
    if found != digest {
        return Err(format!("the answer has the digest {found} instead of {digest}"));
    }
    Ok(())
}

/// Returns the files of a chart in an archive, by their path in the chart.
///
/// Fails if the archive is damaged or too large, or has links or paths that lead out of the chart.
pub fn unpack(packed: &[u8]) -> Result<ChartFiles, String> {
    // The archive has a header of 512 bytes and padding for each file.
    let headers = 2048 * CHART_FILES.limit as u64;
    let limit = CHART_SIZE.limit as u64 + headers;
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(packed).take(limit));
    let (mut files, mut size, mut number) = (ChartFiles::new(), Budget::new(CHART_SIZE), Budget::new(CHART_FILES));
    for next in archive.entries().map_err(damaged)? {
        let mut entry = next.map_err(damaged)?;
        number.spend(1).map_err(|error| error.to_string())?;
        let name = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| "it has a file name that is not UTF-8".to_owned())?;
        match entry.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous => {}
            _ => return Err(format!("{name} is no regular file")),
        }
        let at = path_in_chart(&name).ok_or_else(|| format!("the path {name:?} leads out of the chart"))?;
        let length = usize::try_from(entry.size()).unwrap_or(usize::MAX);
        CHART_FILE_SIZE.check(length).and_then(|()| size.spend(length)).map_err(|error| format!("{name}: {error}"))?;
        let mut content = Vec::with_capacity(length);
        entry.read_to_end(&mut content).map_err(damaged)?;
        let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
        if files.insert(at, Arc::from(text)).is_some() {
            return Err(format!("it has {name} twice"));
        }
    }
    if !files.contains_key(CHART_FILE) {
        return Err(format!("it has no {CHART_FILE} in its first directory"));
    }
    Ok(files)
}

fn damaged(error: std::io::Error) -> String {
    format!("it is no chart archive: {error}")
}

/// Returns a path of an archive without its first directory; `None` if it leads out of the chart.
fn path_in_chart(name: &str) -> Option<String> {
    let (first, below) = name.strip_prefix("./").unwrap_or(name).split_once('/')?;
    (is_plain(first) && below.split('/').all(is_plain)).then(|| below.to_owned())
}

/// Returns true if a segment of a path is a name on every system.
fn is_plain(segment: &str) -> bool {
    !["", ".", ".."].contains(&segment) && !segment.contains(['\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn archive(add: impl FnOnce(&mut tar::Builder<flate2::write::GzEncoder<Vec<u8>>>)) -> Vec<u8> {
        let gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        let mut builder = tar::Builder::new(gzip);
        add(&mut builder);
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn header(name: &str, size: usize, kind: EntryType) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(size as u64);
        header.set_entry_type(kind);
        header.set_cksum();
        header
    }

    fn of(files: &[(&str, &[u8])]) -> Vec<u8> {
        archive(|builder| {
            files.iter().for_each(|(name, content)| {
                builder.append(&header(name, content.len(), EntryType::Regular), *content).unwrap();
            });
        })
    }

    #[test]
    fn the_files_of_an_archive_are_below_its_first_directory() {
        let packed = of(&[("app/Chart.yaml", b"\xef\xbb\xbfname: app"), ("app/templates/a.yaml", b"a")]);
        let files = unpack(&packed).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/a.yaml"]);
        assert_eq!(&*files["Chart.yaml"], b"name: app");
        let digest = sha256(&packed);
        assert_eq!(check_digest(&packed, &digest), Ok(()));
        assert!(check_digest(b"<html>", &digest).is_err());
    }

    #[test]
    fn an_archive_cannot_write_outside_of_the_chart() {
        for name in ["app/../../x", "/app/x", "x", "app//x", "app/a\\..\\..\\x", "app/c:/x", "../x"] {
            let failure = unpack(&of(&[("app/Chart.yaml", b""), (name, b"x")])).unwrap_err();
            assert!(failure.contains("leads out of the chart"), "{name}: {failure}");
        }
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char] {
            let packed = archive(|builder| {
                builder.append(&header("app/Chart.yaml", 0, EntryType::Regular), &b""[..]).unwrap();
                builder.append(&header("app/link", 0, kind), &b""[..]).unwrap();
            });
            assert_eq!(unpack(&packed).unwrap_err(), "app/link is no regular file");
        }
    }

    #[test]
    fn an_archive_that_is_damaged_or_too_large_is_refused() {
        assert!(unpack(b"<!DOCTYPE html>").unwrap_err().starts_with("it is no chart archive"));
        let packed = of(&[("app/Chart.yaml", b"name: app")]);
        assert!(unpack(&packed[..packed.len() - 20]).is_err());
        assert!(unpack(&of(&[("app/values.yaml", b"")])).unwrap_err().contains("no Chart.yaml"));
        assert_eq!(
            unpack(&of(&[("app/Chart.yaml", b""), ("app/Chart.yaml", b"")])).unwrap_err(),
            "it has app/Chart.yaml twice"
        );
        let large = vec![0; CHART_FILE_SIZE.limit + 1];
        let failure = unpack(&of(&[("app/large", &large)])).unwrap_err();
        assert!(failure.contains("chart-file-size"), "{failure}");
        let names: Vec<String> = (0..=CHART_FILES.limit).map(|number| format!("app/{number}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &b""[..])).collect();
        assert!(unpack(&of(&files)).unwrap_err().contains("chart-files"));
        let whole = vec![0; CHART_FILE_SIZE.limit];
        let names: Vec<String> = (0..21).map(|number| format!("app/{number}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &*whole)).collect();
        assert!(unpack(&of(&files)).unwrap_err().contains("chart-size"));
        // Zeros after the last entry are read up to the limit.
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        (0..200).for_each(|_| gzip.write_all(&vec![0; 1 << 20]).unwrap());
        assert!(unpack(&gzip.finish().unwrap()).is_err());
    }
}
