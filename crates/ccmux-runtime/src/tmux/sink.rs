//! The pane's output, handed over: tmux starts a tiny process (`ccmuxd pane-sink SOCKET`) with the pane's output as its
//! stdin; that process passes this descriptor to us over a socket (SCM_RIGHTS) and exits. Nothing stays in between.
//!
//! ```text
//! tmux --pipe--> stdin of the sink  ==SCM_RIGHTS==>  SinkListener::accept -> PaneOutput
//! ```

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::unix::pipe;
use tokio::net::{UnixListener, UnixStream};

/// How long a sink that has connected may take to hand over.
const HAND_OVER: Duration = Duration::from_secs(2);

/// The sink process: passes its stdin to whoever listens at `socket`, and returns.
pub fn pane_sink(socket: &Path) -> io::Result<()> {
    hand_over(io::stdin().as_fd(), socket)
}

fn hand_over(descriptor: BorrowedFd<'_>, socket: &Path) -> io::Result<()> {
    let stream = std::os::unix::net::UnixStream::connect(socket)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(&stream, &[IoSlice::new(b"o")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Waits for sinks; the socket file goes with it.
#[derive(Debug)]
pub(super) struct SinkListener {
    listener: UnixListener,
    path: PathBuf,
}

impl SinkListener {
    /// Listens at `path`, in place of a socket that an earlier daemon left there.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// The next output that is handed over by a process of our own user.
    pub(super) async fn accept(&self) -> io::Result<PaneOutput> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            match tokio::time::timeout(HAND_OVER, receive(&stream)).await {
                Ok(Ok(output)) => return Ok(output),
                Ok(Err(error)) => tracing::warn!(event = "pane.sink_refused", %error),
                Err(_) => tracing::warn!(event = "pane.sink_refused", error = "it sent nothing"),
            }
        }
    }
}

impl Drop for SinkListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn receive(stream: &UnixStream) -> io::Result<PaneOutput> {
    let peer = stream.peer_cred()?.uid();
    if peer != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("a process of user {peer}")));
    }
    PaneOutput::new(stream.async_io(Interest::READABLE, || receive_descriptor(stream)).await?)
}

fn receive_descriptor(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, receive_flags())?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor =
        descriptor.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no descriptor came"))?;
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

#[cfg(target_os = "linux")]
fn receive_flags() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn receive_flags() -> RecvFlags {
    RecvFlags::empty()
}

/// The reading end of the pane's output.
pub(super) struct PaneOutput(Box<dyn AsyncRead + Send + Sync + Unpin>);

impl PaneOutput {
    /// tmux gives its pipes two ends of a socket pair; a pipe proper would do as well, anything else can't be waited for.
    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        let mode = rustix::fs::fstat(&descriptor)?.st_mode;
        Ok(Self(match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::Socket => Box::new(UnixStream::from_std(descriptor.into())?),
            _ => Box::new(pipe::Receiver::from_owned_fd(descriptor)?),
        }))
    }

    /// Waits for bytes; 0 is the end of the pipe.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn the_output_goes_on_after_the_sink_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sink.sock");
        let listener = SinkListener::bind(&path).expect("a listener");
        assert_eq!(std::fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o600);

        let (reader, mut writer) = io::pipe().expect("a pipe");
        hand_over(reader.as_fd(), &path).expect("handed over");
        drop(reader);
        let mut output = listener.accept().await.expect("an output");
        writer.write_all(b"hello").expect("written");
        let mut buffer = [0u8; 16];
        assert_eq!(output.read(&mut buffer).await.expect("bytes"), 5);
        drop(writer);
        assert_eq!(output.read(&mut buffer).await.expect("the end"), 0);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_connection_without_a_descriptor_does_not_end_the_wait() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sink.sock");
        let listener = SinkListener::bind(&path).expect("a listener");
        let mut liar = std::os::unix::net::UnixStream::connect(&path).expect("connected");
        liar.write_all(b"x").expect("written");
        drop(std::os::unix::net::UnixStream::connect(&path).expect("connected"));
        let file = std::fs::File::open("/etc/passwd").expect("a file");
        hand_over(file.as_fd(), &path).expect("handed over");
        let (reader, writer) = io::pipe().expect("a pipe");
        hand_over(reader.as_fd(), &path).expect("handed over");
        drop(writer);
        let mut output = listener.accept().await.expect("the true one");
        assert_eq!(output.read(&mut [0u8; 4]).await.expect("the end"), 0);
    }
}
