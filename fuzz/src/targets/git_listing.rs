//! Listings of git.

use kubectl_gitops::tools::git::entries::{Name, index_entry, records, tree_entry};

/// An entry has the fields and the path of its record, and nothing else. Names of different bytes are different.
pub(crate) fn check(data: &[u8]) {
    let records: Vec<&[u8]> = records(data).collect();
    assert!(records.iter().all(|record| !record.is_empty() && !record.contains(&0)));
    for record in &records {
        for (entry, fields) in [(index_entry(record), 4), (tree_entry(record), 3)] {
            let Some(entry) = entry else { continue };
            let (head, path) = record.split_at(record.iter().position(|byte| *byte == b'\t').expect("a tab"));
            let words: Vec<&str> = std::str::from_utf8(head).expect("fields are UTF-8").split(' ').collect();
            assert_eq!(words.len(), fields);
            assert!(words.contains(&&*entry.mode) && words.contains(&&*entry.object));
            assert_eq!(entry.path, Name::of(&path[1..]));
            assert_eq!(entry.path.is_utf8, std::str::from_utf8(&path[1..]) == Ok(&*entry.path.text));
        }
    }
    for pair in records.windows(2) {
        let names = [Name::of(pair[0]), Name::of(pair[1])];
        assert_eq!(names[0] == names[1], pair[0] == pair[1], "{names:?}");
    }
}
