//! runtime_dir
