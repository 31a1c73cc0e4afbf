//! `get`, `suspend` and `resume` on a real cluster.

mod controllers;
mod every_kind;
mod failures;
mod incident;
mod many_objects;
