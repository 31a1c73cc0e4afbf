//! `cargo xtask bench --releases N`: measures the plan of a commit that changes values of three HelmReleases, compared with
//! the builds and the renderings that it needs.
//!
//! helm-controller has installed N releases of one chart, which source-controller stores as an OCIRepository. The commit
//! lets an object vanish from three of them. The baseline runs `helm template` for these three as they are deployed and as
//! they will be, and builds both trees.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::commit::{Commit, in_parallel};
use super::measure::Contender;
use super::report;
use crate::child;
use crate::cluster::{Flux, Options};
use crate::controlplane::bin;

/// Releases that the commit changes.
const CHANGED: usize = 3;
/// Objects of one release.
const OBJECTS: usize = 10;
const ROUNDS: usize = 7;

/// Measures the plan with an empty and with a filled build cache.
pub(crate) fn run(releases: usize) -> Result<()> {
    ensure!(releases >= CHANGED, "the commit changes {CHANGED} releases");
    let commit = Commit::new(Options { flux: Flux::All, source_service: true, ..Options::default() })?;
    let folder = commit.cluster.dir().join("bench");
    write(&commit.old, releases, 0)?;
    commit.cluster.publish("OCIRepository/flux-system/app", chart(&folder)?)?;
    commit.apply("./", "helmreleases", releases)?;
    write(&commit.new, releases, CHANGED)?;
    let (kubectl, helm) = (bin("kubectl").display().to_string(), bin("helm").display().to_string());
    let rendered = (0..CHANGED).flat_map(|number| [true, false].map(|extra| (number, extra))).map(|(number, extra)| {
        format!("{helm} template app-{number:03} app-1.0.0.tgz -n flux-system --set extra={extra}")
    });
    let built = ["old", "new"].map(|tree| format!("{kubectl} kustomize {tree}"));
    let alone = in_parallel(&rendered.chain(built).collect::<Vec<_>>(), &folder);
    let flags = [format!("--helm={helm}")];
    let times = commit.measure(Contender::new('h', "helm, kustomize", alone), &flags, ROUNDS)?;
    report::table(&format!("{releases} HelmReleases of {OBJECTS} objects, {CHANGED} changed"), &times);
    let [alone, inventory, plan, cached] = ['h', 'i', 'p', 'w'].map(|letter| times.median(letter));
    report::at_most("(p - i) / h, plan beside its programs", 1.3, (plan - inventory) / alone);
    report::at_most("(w - i) / h, with a filled cache", 1.3, (cached - inventory) / alone);
    commit.report_peaks_and_requests(&times)
}

/// Writes the chart, and returns its archive.
fn chart(folder: &Path) -> Result<PathBuf> {
    let templates = folder.join("app/templates");
    fs::create_dir_all(&templates)?;
    fs::write(folder.join("app/Chart.yaml"), "apiVersion: v2\nname: app\nversion: 1.0.0\n")?;
    fs::write(folder.join("app/values.yaml"), "extra: true\n")?;
    for number in 0..OBJECTS {
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{{{{ .Release.Name }}}}-{number}'}}\n\
             data: {{a: '{{{{ .Release.Namespace }}}}'}}\n"
        );
        let object =
            if number == 0 { format!("{{{{- if .Values.extra }}}}\n{object}{{{{- end }}}}\n") } else { object };
        fs::write(templates.join(format!("{number}.yaml")), object)?;
    }
    let archive = folder.join("app-1.0.0.tgz");
    child::run(Command::new("tar").arg("-C").arg(folder).arg("-czf").arg(&archive).arg("app"))?;
    Ok(archive)
}

/// Writes the HelmReleases; the first `changed` have other values.
fn write(tree: &Path, releases: usize, changed: usize) -> Result<()> {
    let text: Vec<String> = (0..releases)
        .map(|number| {
            format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app-{number:03}, namespace: flux-system}}\n\
                 spec: {{interval: 1h, chartRef: {{kind: OCIRepository, name: app}}, values: {{extra: {}}}}}\n",
                number >= changed
            )
        })
        .collect();
    fs::write(tree.join("releases.yaml"), text.join("---\n"))?;
    fs::write(tree.join("kustomization.yaml"), "resources: [releases.yaml]\n")?;
    Ok(())
}
