//! agent

pub mod launch;
