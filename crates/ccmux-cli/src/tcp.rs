//! `ccmux notify --tcp HOST:PORT`: three lines to a daemon that listens for older senders, from another machine or a
//! container.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use ccmux_wire::container::{SenderEvent, WindowId};
use ccmux_wire::sender::{DEFAULT_PORT, MAX_SENDER_BYTES, lines};

use crate::failure::Failure;

/// To connect, and for each step after it.
const WITHIN: Duration = Duration::from_secs(5);
/// As much of an answer as is read.
const MAX_ANSWER: u64 = 1024;

/// Sends one message, and says what the other side said. `token_file`: its first line is the secret.
pub fn send(to: &str, event: SenderEvent, message: &str, token_file: Option<&Path>) -> Result<(), Failure> {
    let token = token_file.map(token).transpose()?;
    let window = std::env::var("WINDOWID").ok().and_then(|window| WindowId::try_from(window).ok());
    let said = lines(token.as_deref(), event, window.as_ref(), message);
    if said.len() > MAX_SENDER_BYTES {
        return Err(Failure::Refused(format!("the message is too long: at most {MAX_SENDER_BYTES} bytes")));
    }
    let answer = talk(to, &said)?;
    match answer.trim() {
        "ok" => Ok(()),
        answer => {
            let why = answer.strip_prefix("refused: ").unwrap_or("it does not answer as ccmux does");
            Err(Failure::Refused(format!("{to}: {}", crate::paper::harmless(why))))
        }
    }
}

fn token(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn talk(to: &str, said: &str) -> Result<String, Failure> {
    let unreachable = |why: &dyn std::fmt::Display| {
        let (socket, remedy) = (to.into(), "set tcp.listen there, and look for a firewall");
        Failure::Unreachable { socket, why: why.to_string(), remedy }
    };
    let with_port = if to.contains(':') { to.to_owned() } else { format!("{to}:{DEFAULT_PORT}") };
    let mut addresses = with_port.to_socket_addrs().map_err(|error| unreachable(&error))?;
    let address = addresses.next().ok_or_else(|| unreachable(&"the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, WITHIN).map_err(|error| unreachable(&error))?;
    let mut answer = String::new();
    let talked = stream
        .set_read_timeout(Some(WITHIN))
        .and_then(|()| stream.set_write_timeout(Some(WITHIN)))
        .and_then(|()| stream.write_all(said.as_bytes()))
        .and_then(|()| (&stream).take(MAX_ANSWER).read_to_string(&mut answer));
    talked.map(|_| answer).map_err(|error| unreachable(&error))
}
