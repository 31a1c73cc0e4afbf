//! Files whose content, name or kind others control: reads them with a size limit and without waiting for a FIFO or a
//! device, and writes them without replacing anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::limits;

/// Pause between two attempts to read a pipe.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a regular file of a tree. Follows no symbolic link in its last segment.
///
/// Fails if it is not a regular file, or is larger than `limit` bytes.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, false)?;
    read_file(file, limit)
}

/// Reads a file that the user named: a regular file, or a pipe such as that of the shell's `<(command)`.
///
/// Fails if it is a directory, has more than `limit` bytes, or is a pipe to which nothing is written in time.
pub fn read_named(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, true)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if metadata.is_file() {
        return read_file(file, limit);
    }
    read_pipe(file, is_fifo(&metadata), limit, limits::WRITER_TIME, limits::PIPE_TIME)
}

/// Reads a text file that the user named, as [`read_named`]. Fails if it is not UTF-8.
pub fn read_named_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_named(path, limit)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Reads up to `limit` bytes. Fails if there are more.
pub fn read_to_limit(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large(limit)) } else { Ok(content) }
}

/// Writes a file that must not exist yet. Follows no symbolic link.
///
/// Fails if the name is taken, for example by a name that the file system does not distinguish from it.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(content)
}

fn read_file(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > limit {
        return Err(io::Error::other(format!(
            "it has {} bytes, and the limit for one file is {}",
            metadata.len(),
            limits::bytes(limit)
        )));
    }
    read_to_limit(file, limit)
}

/// Reads a pipe or a device that was opened without blocking. Fails if a FIFO has no writer for a time, or if nothing is
/// written for a time.
fn read_pipe(mut file: File, fifo: bool, limit: u64, writer_time: Duration, silence: Duration) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut last = Instant::now();
    loop {
        let waited = last.elapsed();
        match file.read(&mut buffer) {
            // Before the first writer opens a FIFO, reading it is like reading its end.
            Ok(0) if fifo && content.is_empty() && waited < writer_time => std::thread::sleep(PAUSE),
            Ok(0) if fifo && content.is_empty() => {
                let limit = writer_time.as_secs();
                return Err(io::Error::other(format!("it is a FIFO, and nothing wrote to it within {limit} s")));
            }
            Ok(0) => return Ok(content),
            Ok(count) => {
                content.extend_from_slice(&buffer[..count]);
                last = Instant::now();
                if content.len() as u64 > limit {
                    return Err(too_large(limit));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && waited < silence => {
                std::thread::sleep(PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let limit = silence.as_secs();
                return Err(io::Error::other(format!("it is a pipe, and nothing was written to it for {limit} s")));
            }
            Err(error) => return Err(error),
        }
    }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::other(format!("it has more than {}, the limit", limits::bytes(limit)))
}

/// Opens a file for reading. Does not wait for the writer of a FIFO.
#[cfg(unix)]
fn open(path: &Path, follow: bool) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;

    let flags = if follow { OFlags::NONBLOCK } else { OFlags::NONBLOCK | OFlags::NOFOLLOW };
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path, follow: bool) -> io::Result<File> {
    if !follow && std::fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
fn is_fifo(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_fifo(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, target] = ["file", "link", "target"].map(|name| directory.path().join(name));
        write_new(&file, b"first").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [&file, &link, directory.path()] {
            assert_eq!(write_new(path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{path:?}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"first");
        assert!(!target.exists());
    }

    #[test]
    fn a_pipe_to_which_nothing_is_written_is_given_up() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::NONBLOCK).unwrap();
        let second = Duration::from_secs(1);
        let error = read_pipe(file, true, 100, second * 60, second).unwrap_err();
        assert_eq!(error.to_string(), "it is a pipe, and nothing was written to it for 1 s");
        drop(writer);
    }
}
