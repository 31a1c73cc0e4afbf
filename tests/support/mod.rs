//! What several test files share. Each uses a part of it, so unused items are no mistake here.
#![allow(dead_code, unreachable_pub, reason = "every test file compiles its own copy and uses a part of it")]

pub mod chart;
pub mod fake_api;
pub mod folder;
pub mod live;
pub mod objects;
pub mod oracle;
pub mod random;
pub mod suspension;
pub mod tree_plan;
