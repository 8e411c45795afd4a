//! Real FIFOs in a temporary runtime directory, and a sink that splits lines.

mod adoption;
mod crash;
mod fifos;
mod flow;
mod full_disk;
mod house;
mod log;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::{ChannelStatus, Direction};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::runtime_dir::RuntimeDir;

use house::*;

const LIMIT: Duration = Duration::from_secs(20);
