//! The folder of `--charts`: charts as archives `NAME-VERSION.tgz`, or as directories with a Chart.yaml.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::bounds::{Budget, CHART_ARCHIVE_SIZE, CHART_FILE_SIZE, CHART_FILES, CHART_SIZE};
use gitops_core::flux::build::charts::archive::{self, CHART_FILE, ChartFiles, ChartResult};
use gitops_core::flux::build::charts::metadata_of;

/// Ending of an archive.
const ARCHIVE: &str = ".tgz";

/// Charts in a folder, by `NAME-VERSION`.
#[derive(Debug)]
pub struct ChartFolder {
    charts: BTreeMap<String, PathBuf>,
}

impl ChartFolder {
    /// Lists the charts in a folder. Symbolic links are skipped.
    ///
    /// Fails if it cannot be listed, or has no chart.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::list(folder).map_err(|error| {
            Error::usage(format!("cannot read the charts in {}: {error}", folder.display()))
                .hint("--charts names a folder with archives NAME-VERSION.tgz, or with directories of charts")
        })
    }

    fn list(folder: &Path) -> io::Result<Self> {
        let mut charts = BTreeMap::new();
        for found in std::fs::read_dir(folder)? {
            let entry = found?;
            let (kind, name) = (entry.file_type()?, entry.file_name());
            let stem = match name.to_str() {
                Some(name) if kind.is_file() => name.strip_suffix(ARCHIVE).map(str::to_owned),
                Some(_) if kind.is_dir() => stem_of(&entry.path()),
                _ => None,
            };
            charts.extend(stem.map(|stem| (stem, entry.path())));
        }
        if charts.is_empty() { Err(io::Error::other("it has none")) } else { Ok(Self { charts }) }
    }

    /// Returns the charts, as `NAME-VERSION`.
    pub fn stems(&self) -> impl Iterator<Item = &str> {
        self.charts.keys().map(String::as_str)
    }

    /// Reads a chart. Fails with the reason why it cannot be read.
    pub fn read(&self, stem: &str) -> ChartResult {
        let path = self.charts.get(stem).ok_or_else(|| "it does not exist".to_owned())?;
        if path.is_dir() {
            let (files, size) = (ChartFiles::new(), Budget::new(CHART_SIZE));
            let mut reader = Reader { files, size, number: Budget::new(CHART_FILES) };
            reader.add(path, "", 0).map_err(|error| error.to_string())?;
            return Ok(Arc::new(reader.files));
        }
        let archive = files::read_regular(path, CHART_ARCHIVE_SIZE.limit as u64).map_err(|error| error.to_string())?;
        archive::unpack(&archive).map(Arc::new)
    }
}

/// Returns the name and the version of the chart in a directory; `None` if it has none.
fn stem_of(directory: &Path) -> Option<String> {
    let about = files::read_regular(&directory.join(CHART_FILE), CHART_FILE_SIZE.limit as u64).ok()?;
    let (name, version) = metadata_of(&about)?;
    Some(format!("{name}-{version}"))
}

/// Reader of a directory.
struct Reader {
    files: ChartFiles,
    size: Budget,
    number: Budget,
}

impl Reader {
    /// Adds the files below a directory, with their path after `prefix`. Fails at a symbolic link.
    fn add(&mut self, directory: &Path, prefix: &str, depth: usize) -> io::Result<()> {
        if depth > limits::MAX_DEPTH {
            return Err(io::Error::other(format!("it has more than {} nested directories", limits::MAX_DEPTH)));
        }
        for found in std::fs::read_dir(directory)? {
            let entry = found?;
            self.number.spend(1).map_err(io::Error::other)?;
            let name = entry.file_name().into_string().map_err(|_| io::Error::other("a file name is not UTF-8"))?;
            let (at, kind) = (format!("{prefix}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.add(&entry.path(), &format!("{at}/"), depth + 1)?;
                continue;
            }
            let content = files::read_regular(&entry.path(), CHART_FILE_SIZE.limit as u64)
                .map_err(|error| io::Error::other(format!("{at}: {error}")))?;
            self.size.spend(content.len()).map_err(io::Error::other)?;
            self.files.insert(at, Arc::from(content));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitops_core::testing::packed_chart;

    const ABOUT: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("app/templates")).unwrap();
        std::fs::write(folder.path().join("app/Chart.yaml"), ABOUT).unwrap();
        std::fs::write(folder.path().join("app/templates/a.yaml"), "a: b").unwrap();
        std::fs::write(folder.path().join("app-2.0.0.tgz"), packed_chart(&[("Chart.yaml", ABOUT)])).unwrap();
        std::fs::write(folder.path().join("app-3.0.0.tgz"), "<html>").unwrap();
        std::fs::create_dir(folder.path().join("no-chart")).unwrap();
        folder
    }

    #[test]
    fn archives_and_directories_are_charts() {
        let folder = folder();
        let charts = ChartFolder::open(folder.path()).unwrap();
        assert_eq!(charts.stems().collect::<Vec<_>>(), ["app-1.0.0", "app-2.0.0", "app-3.0.0"]);
        let files = charts.read("app-1.0.0").unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/a.yaml"]);
        assert_eq!(charts.read("app-2.0.0").unwrap().len(), 1);
        assert!(charts.read("app-3.0.0").unwrap_err().contains("it is no chart archive"));
        assert!(charts.read("app-4.0.0").is_err());
    }

    #[test]
    fn a_folder_without_charts_is_an_error() {
        let empty = tempfile::tempdir().unwrap();
        for path in [empty.path().to_owned(), empty.path().join("none")] {
            let error = ChartFolder::open(&path).unwrap_err();
            assert!(error.message.starts_with("cannot read the charts in") && error.hint.is_some(), "{error:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_are_not_followed() {
        let folder = folder();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("app/templates/b.yaml")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("app"), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("app-2.0.0.tgz", folder.path().join("app-5.0.0.tgz")).unwrap();
        let charts = ChartFolder::open(folder.path()).unwrap();
        assert_eq!(charts.stems().collect::<Vec<_>>(), ["app-1.0.0", "app-2.0.0", "app-3.0.0"]);
        assert!(charts.read("app-1.0.0").unwrap_err().starts_with("templates/b.yaml: "));
    }
}
