//! The project's own tasks.
