//! How answers look: tables as kubectl prints them, documents for programs, and the guard against terminal escapes.
//!
//! Every function here gives back text; [`crate::terminal::Terminal`] alone writes it.

pub mod document;
pub mod duration;
pub mod sanitize;
pub mod table;
