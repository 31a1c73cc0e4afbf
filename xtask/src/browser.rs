//! `cargo xtask browser`: opens the pages of `-o html` in Chromium. Needs Node, npm and Chromium.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::demo::RECORDING;
use crate::files::copy_folder;
use crate::{child, controlplane, target_dir, tool, workspace_root};

/// Leaked objects of the page on which the first search is measured.
const MANY: usize = 4_000;

/// Writes the pages of two inventories and of two plans, and uses and checks them in a browser.
pub fn run() -> Result<()> {
    let program = tool::build(false)?;
    controlplane::ensure(&["kubectl"])?;
    let directory = target_dir().join("browser");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let tree = directory.join("shop");
    copy_with_mistyped_path(&workspace_root().join("examples/shop"), &tree)?;
    let source = format!("GitRepository/flux-system/shop={}", tree.display());
    let large = directory.join("large.json");
    fs::write(&large, recording_of_many_objects()?)?;
    let large = large.display().to_string();
    for (name, args, recording) in [
        ("inventory", &["inventory"][..], RECORDING),
        ("large", &["inventory", "--leaked"], &large),
        ("prune", &["prune", "--plan"], RECORDING),
        ("tree", &["prune", "--plan", "--source", &source], RECORDING),
    ] {
        let args = [args, &["-o", "html", "--snapshot", recording]].concat();
        let page = page(&program, &args)?;
        fs::write(directory.join(format!("{name}.html")), page)?;
    }
    let checks = workspace_root().join("tests/browser");
    let modules = directory.join("check");
    child::install_packages(&checks, &["package.json", "package-lock.json", "page.mjs"], &modules)?;
    child::run(Command::new("node").arg("page.mjs").arg(&directory).current_dir(&modules))
}

/// Returns the recording of the demo with [`MANY`] more ConfigMaps that carry an owner's labels and are in no inventory.
fn recording_of_many_objects() -> Result<String> {
    let mut recording: Value = serde_json::from_reader(GzDecoder::new(File::open(workspace_root().join(RECORDING))?))?;
    let objects = recording["objects"].as_array_mut().context("a recording lists objects")?;
    // Its owner is not suspended, so that the copies are leaked.
    let owned = |object: &&Value| object["kind"] == "ConfigMap" && object["namespace"] == "web";
    let object = objects.iter().find(owned).context("the demo has a ConfigMap in the namespace web")?.clone();
    objects.extend((0..MANY).map(|number| {
        let mut copy = object.clone();
        copy["name"] = format!("copy-{number}").into();
        copy["uid"] = format!("copy-{number}").into();
        copy
    }));
    Ok(recording.to_string())
}

/// Copies the repository of the demo, and mistypes the path of the Kustomization `web`.
fn copy_with_mistyped_path(from: &Path, to: &Path) -> Result<()> {
    copy_folder(from, to)?;
    let web = to.join("clusters/prod/web.yaml");
    let manifest = fs::read_to_string(&web)?;
    fs::write(&web, manifest.replace("path: ./apps/web", "path: ./aps/checkout"))?;
    Ok(())
}

/// Returns what the program prints. A plan that raises an alarm ends with code 6.
fn page(program: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let path = std::env::var("PATH").unwrap_or_default();
    let kubectl = controlplane::bin("kubectl");
    let programs = kubectl.parent().context("the path of a program has a directory")?;
    let path = format!("{}:{path}", programs.display());
    let output = Command::new(program).args(args).env("PATH", path).current_dir(workspace_root()).output()?;
    if !matches!(output.status.code(), Some(0 | 6)) {
        bail!("kubectl gitops {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}
