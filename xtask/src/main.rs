//! Runs one task.
fn main() {}
