//! Helm charts, packed.

use std::path::PathBuf;
use std::process::Command;

use crate::folder::folder;

/// A chart of these manifests, packed; the file's name has name and version.
pub fn chart(name: &str, version: &str, manifests: &str) -> PathBuf {
    let folder = folder(&format!("chart-{name}-{version}"));
    let templates = folder.join(name).join("templates");
    std::fs::create_dir_all(&templates).unwrap();
    let about = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    std::fs::write(folder.join(name).join("Chart.yaml"), about).unwrap();
    std::fs::write(templates.join("all.yaml"), manifests).unwrap();
    let file = folder.join(format!("{name}-{version}.tgz"));
    let packed = Command::new("tar").arg("-C").arg(&folder).arg("-czf").arg(&file).arg(name).status().unwrap();
    assert!(packed.success());
    file
}
