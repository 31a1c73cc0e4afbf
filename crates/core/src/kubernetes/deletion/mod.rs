//! kubernetes::deletion.

pub mod cascade;
pub mod controllers;
pub mod finalizers;
pub mod order;
pub mod volumes;
