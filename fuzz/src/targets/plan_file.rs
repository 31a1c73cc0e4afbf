//! Plan files, and documents of plans that are shown again.

use gitops_core::plan::FinishedPlan;
use gitops_core::plan::file::PlanFile;
use kubectl_gitops::output::markdown;

/// What is read is written so that it is read again to the same, with the same digest; and a plan that is shown again has
/// every field of its document.
pub(crate) fn check(data: &[u8]) {
    if let Ok((file, digest)) = PlanFile::read(data) {
        let (text, again) = file.to_text().expect("a plan file has a text");
        assert_eq!(again, digest);
        assert_eq!(PlanFile::read(text.as_bytes()).expect("a written file is read"), (file, digest));
    }
    if let Ok(plan) = FinishedPlan::read(data) {
        let text = serde_json::to_vec(&plan).expect("a plan has a text");
        assert_eq!(FinishedPlan::read(&text).as_ref(), Ok(&plan));
        assert!(markdown::render(&plan).len() < markdown::LIMIT);
    }
}
