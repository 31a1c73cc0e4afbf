//! Packed charts.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use gitops_core::flux::build::charts::archive::{CHART_FILE, unpack};

/// A chart that is unpacked has only paths in it. The input is the packed chart, and also the tar archive in one.
pub(crate) fn check(data: &[u8]) {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(data).expect("memory takes it");
    let packed = encoder.finish().expect("memory takes it");
    for archive in [data, &packed] {
        let Ok(files) = unpack(archive) else { continue };
        assert!(files.contains_key(CHART_FILE));
        for path in files.keys() {
            let is_inside = path.split('/').all(|part| !["", ".", ".."].contains(&part));
            assert!(is_inside && !path.contains(['\\', '\0']), "{path:?}");
        }
    }
}
