//! Files that the user names: links, FIFOs, devices, and snapshots that expand without end.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use kubectl_gitops::tools::manifests::{self, Loader};
use kubectl_gitops::tools::{plan_file, snapshot_file};
use test_support::folder::Folder;

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn error_of(path: &Path, folder: &Folder) -> String {
    let read = manifests::read(&[path.display().to_string()], Loader::Strict, &mut std::io::empty());
    read.unwrap_err().message.replace(&folder.path().display().to_string(), "FOLDER")
}

#[test]
fn a_directory_of_manifests_has_regular_files_and_links_inside_of_it() {
    let folder = Folder::new("file-limits");
    folder.write("manifests/a.yaml", MANIFEST);
    let link = folder.path().join("manifests/link.yaml");
    let directory = folder.path().join("manifests");
    symlink("a.yaml", &link).unwrap();
    let path = directory.display().to_string();
    assert_eq!(manifests::read(&[path], Loader::Strict, &mut std::io::empty()).unwrap().locals.len(), 2);
    for target in [Path::new("/dev/zero"), &folder.write("outside.yaml", MANIFEST)] {
        std::fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        let expected = "cannot read FOLDER/manifests/link.yaml: it is a symbolic link to a file outside of the directory; \
                        name that file with -f";
        assert_eq!(error_of(&directory, &folder), expected);
    }
    std::fs::remove_file(&link).unwrap();
    fifo(&link);
    assert_eq!(error_of(&directory, &folder), "cannot read FOLDER/manifests/link.yaml: it is not a regular file");
    std::fs::remove_file(&link).unwrap();
    std::fs::File::create(&link).unwrap().set_len(5 << 30).unwrap();
    let expected =
        "cannot read FOLDER/manifests/link.yaml: it has 5368709120 bytes, and the limit for one file is 64 MiB";
    assert_eq!(error_of(&directory, &folder), expected);
}

#[test]
fn a_pipe_with_a_writer_is_read_and_one_without_ends_in_an_error() {
    let folder = Folder::new("file-limits");
    let pipe = folder.path().join("pipe");
    fifo(&pipe);
    let expected = "cannot read FOLDER/pipe: it is a FIFO, and nothing wrote to it within 5 s";
    assert_eq!(error_of(&pipe, &folder), expected);
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, MANIFEST)
    });
    let read = manifests::read(&[pipe.display().to_string()], Loader::Strict, &mut std::io::empty()).unwrap();
    assert_eq!(read.locals.len(), 1);
    writer.join().unwrap().unwrap();
    assert_eq!(error_of(Path::new("/dev/zero"), &folder), "cannot read /dev/zero: it has more than 64 MiB, the limit");
}

#[test]
fn a_snapshot_that_expands_without_end_is_refused() {
    let folder = Folder::new("file-limits");
    let file = folder.path().join("bomb.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&file).unwrap(), flate2::Compression::best());
    for _ in 0..64 {
        gzip.write_all(&[b' '; 1 << 20]).unwrap();
    }
    gzip.finish().unwrap();
    let message = snapshot_file::read(&file).unwrap_err().message;
    assert!(message.ends_with("it expands to more than 200 times its size, the limit for snapshots"), "{message}");
    let devices =
        [snapshot_file::read(Path::new("/dev/zero")).map(drop), plan_file::read(Path::new("/dev/zero")).map(drop)];
    for (read, limit) in devices.into_iter().zip(["512 MiB", "64 MiB"]) {
        assert!(read.unwrap_err().message.ends_with(&format!("it has more than {limit}, the limit")));
    }
}

#[test]
fn a_snapshot_is_written_to_regular_files_only_and_whole() {
    let folder = Folder::new("file-limits");
    let snapshot = snapshot_file::read(Path::new("examples/shop.json.gz")).unwrap();
    let kept = folder.write("kept", "kept");
    let [link, pipe] = ["link", "pipe"].map(|name| folder.path().join(name));
    symlink(&kept, &link).unwrap();
    fifo(&pipe);
    for target in [&link, &pipe, &folder.path().to_path_buf(), Path::new("/dev/null"), &folder.path().join("none/file")]
    {
        snapshot_file::write(target, &snapshot).unwrap_err();
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept", "link", "pipe"], "no temporary file is left");
}
