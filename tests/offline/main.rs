//! The command line, recorded clusters and scripted API servers: tests that need nothing but the built binary and git.

mod architecture;
mod book;
mod cluster_faults;
mod command_line;
mod comments;
mod completion;
mod connection;
mod documents;
mod file_limits;
mod full_disk;
mod garbage_collection;
mod interleavings;
mod inventory;
mod limits;
mod man_pages;
mod manifest_files;
mod plan_document;
mod policy;
mod prune;
mod rehearsal;
mod sandbox;
mod schemas;
mod snapshot_values;
mod suspension;
mod suspension_choice;
mod working_tree;
