//! The documents as a book, which the test writes to `target/book`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use xtask::files::copy_folder;

/// Files and folders of the repository that are in the book, or that its pages link to.
const FILES: [&str; 6] =
    ["README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md"];
const FOLDERS: [&str; 5] = ["action", "ci", "config", "docs", "examples"];

/// Copies the sources of the book. Its summary is docs/SUMMARY.md, seen from the root of the repository.
fn stage(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    for name in FOLDERS {
        copy_folder(Path::new(name), &folder.join("src").join(name)).unwrap();
    }
    for name in FILES {
        fs::copy(name, folder.join("src").join(name)).unwrap();
    }
    let summary = fs::read_to_string("docs/SUMMARY.md").unwrap();
    let summary = summary.replace("](../", "](//").replace("](", "](docs/").replace("](docs///", "](");
    fs::write(folder.join("src/SUMMARY.md"), summary).unwrap();
    fs::remove_file(folder.join("src/docs/SUMMARY.md")).unwrap();
}

/// Returns the files that the links of a page lead to.
fn links(page: &Path) -> Vec<PathBuf> {
    let html = fs::read_to_string(page).unwrap();
    let links = html.split("href=\"").skip(1).map(|rest| rest.split(['"', '#']).next().unwrap());
    let local = links.filter(|link| !link.is_empty() && !link.contains(':') && !link.starts_with('/'));
    local.map(|link| page.parent().unwrap().join(link)).collect()
}

#[test]
fn the_documents_are_a_book_without_a_dead_link() {
    let folder = xtask::target_dir().join("book");
    stage(&folder);
    let mut config = Config::default();
    config.book.title = Some("kubectl gitops".to_owned());
    config.build.create_missing = false;
    // mdBook calls the page of a README.md index.html, and does not change the links to it.
    let index = ["/docs/README.html", "/docs/reference/README.html"].map(|page| (page, "index.html"));
    config.set("output.html.redirect", BTreeMap::from(index)).unwrap();
    MDBook::load_with_config(&folder, config).unwrap().build().unwrap();
    let built = folder.join("book");
    let mut pages: Vec<PathBuf> = FILES.iter().filter(|file| **file != "README.md").map(PathBuf::from).collect();
    for entry in ["docs", "docs/reference"].iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        pages.push(entry.unwrap().path());
    }
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    pages.retain(|path| is_page(path) && !path.ends_with("SUMMARY.md"));
    assert!(pages.len() > 20, "{pages:?}");
    let mut dead = BTreeSet::new();
    for page in pages {
        let html = match page.ends_with("README.md") {
            true => page.with_file_name("index.html"),
            false => page.with_extension("html"),
        };
        let html = built.join(html);
        assert!(html.is_file(), "{} is not in docs/SUMMARY.md", page.display());
        dead.extend(links(&html).into_iter().filter(|link| !link.exists()).map(|link| (page.clone(), link)));
    }
    assert!(dead.is_empty(), "{dead:#?}");
}
