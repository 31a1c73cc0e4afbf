//! What will be deleted, and why: plans, cascades, guards, order and outcome. Pure.

pub mod alarm;
pub mod cascade;
pub mod gc;
pub mod guard;
pub mod held;
pub mod leaked;
pub mod narrow;
pub mod order;
pub mod outcome;
pub mod plan;
pub mod roots;
pub mod serving;
pub mod volumes;
