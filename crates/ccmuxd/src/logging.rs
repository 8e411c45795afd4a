//! The log: JSON lines to a file that is rotated daily, seven kept, and the same to stderr.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

/// How many files are kept.
const KEPT: usize = 7;

/// Starts logging. What is held must live as long as anything is logged.
///
/// # Errors
/// If the file's folder can't be made or written.
pub fn start(file: &Path, level: &str) -> io::Result<WorkerGuard> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::NEVER)
        .filename_prefix(name)
        .max_log_files(KEPT)
        .build(folder)
        .map_err(io::Error::other)?;
    let (file, guard) = tracing_appender::non_blocking(appender);
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        // What rmcp would tell of its messages are their bodies.
        .with_env_filter(EnvFilter::new(format!("{level},rmcp=error,hyper=warn")))
        .with_writer(file.and(io::stderr))
        .init();
    Ok(guard)
}
