//! `ccmux notify --tcp HOST:PORT`: three lines to a daemon that listens for older senders, from another machine or a
//! container.

use std::fs::File;
use std::io::{self, Read, Write};
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
/// Of a token's file; its first line counts.
const MAX_TOKEN: u64 = 64 * 1024;

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
    let text = File::open(file).and_then(|text| io::read_to_string(text.take(MAX_TOKEN)));
    let text = text.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// `HOST:PORT`, with the usual port where none is said.
pub fn address_of(to: &str) -> Result<String, Failure> {
    let with_port = if to.contains(':') { to.to_owned() } else { format!("{to}:{DEFAULT_PORT}") };
    let is_host = |host: &str| {
        !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'))
    };
    let is_good = with_port
        .rsplit_once(':')
        .is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0));
    match is_good {
        true => Ok(with_port),
        false => Err(Failure::Refused(format!("{to} is no address: give HOST:PORT, e.g. desk.lan:8080"))),
    }
}

fn talk(to: &str, said: &str) -> Result<String, Failure> {
    let unreachable = |why: &dyn std::fmt::Display| {
        let (socket, remedy) = (to.into(), "set tcp.listen there, and look for a firewall");
        Failure::Unreachable { socket, why: why.to_string(), remedy }
    };
    let mut addresses = address_of(to)?.to_socket_addrs().map_err(|error| unreachable(&error))?;
    let address = addresses.next().ok_or_else(|| unreachable(&"the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, WITHIN).map_err(|error| unreachable(&error))?;
    let mut answer = String::new();
    stream
        .set_read_timeout(Some(WITHIN))
        .and_then(|()| stream.set_write_timeout(Some(WITHIN)))
        .and_then(|()| stream.write_all(said.as_bytes()))
        .map_err(|error| unreachable(&error))?;
    match stream.take(MAX_ANSWER).read_to_string(&mut answer) {
        Ok(_) => Ok(answer),
        Err(error) => Err(no_answer(to, &error)),
    }
}

/// It was said, and nobody knows whether it was taken.
fn no_answer(to: &str, error: &io::Error) -> Failure {
    use io::ErrorKind::{TimedOut, WouldBlock};
    Failure::Uncertain(match error.kind() {
        TimedOut | WouldBlock => format!("{to}: no answer within {} s", WITHIN.as_secs()),
        _ => format!("{to}: no answer: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_never_answers_leaves_it_uncertain_and_a_closed_port_is_not_reachable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let failure = talk(&to, "info\n\nx\n").unwrap_err();
        assert!(matches!(failure, Failure::Uncertain(_)), "{failure}");
        assert!(failure.to_string().ends_with("no answer within 5 s"), "{failure}");
        drop(listener);
        assert!(matches!(talk(&to, "info\n\nx\n"), Err(Failure::Unreachable { .. })));
    }

    #[test]
    fn an_address_has_a_port_in_the_end() {
        let port = |to| address_of(to).map_err(|failure| failure.to_string());
        assert_eq!(port("desk").as_deref(), Ok("desk:8080"));
        assert_eq!(port("[::1]:7").as_deref(), Ok("[::1]:7"));
        for bad in ["", ":", "desk:", ":80", "desk:x", "desk:0", "desk:70000", "::1"] {
            assert!(address_of(bad).is_err(), "{bad}");
        }
    }
}
