//! Port, token, proxies. Nothing leaves the machine, but one connection to the proxy, which is closed at once.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream as AsyncTcpStream};
use tokio::time::timeout;

use super::finding::Finding;
use super::patient::Patient;
use crate::agent::proxy::{unexpected, without_credentials};
use crate::agent::record::read_bounded;

/// A local server answers in milliseconds; a proxy may be in the next house.
const LIMIT: Duration = Duration::from_secs(3);
/// The head of an answer is all that counts.
const HEAD_BYTES: usize = 64;

pub(super) async fn port(patient: &Patient) -> Vec<Finding> {
    let check = "port";
    let wanted = patient.setting.settings.mcp.port;
    if let Some(status) = patient.status() {
        return vec![match status.mcp.port {
            None => taken(patient, wanted),
            Some(port) => match ask(port, "/healthz", None).await {
                Ok(200) => Finding::ok(check, format!("the daemon answers on 127.0.0.1:{port}")),
                other => silent(port, other),
            },
        }];
    }
    vec![match (wanted, TcpListener::bind(("127.0.0.1", wanted)).await) {
        (0, Ok(_)) => Finding::ok(check, "mcp.port is 0: any free one will do"),
        (_, Ok(_)) => Finding::ok(check, format!("127.0.0.1:{wanted} is free")),
        (_, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => taken(patient, wanted),
        (_, Err(error)) => Finding::failure(
            check,
            format!("127.0.0.1:{wanted} can't be bound: {error}"),
            "choose another mcp.port (CCMUX_MCP_PORT); below 1024 is for root",
        ),
    }]
}

fn silent(port: u16, answer: io::Result<u16>) -> Finding {
    let what = match answer {
        Ok(code) => format!("127.0.0.1:{port} answers with {code}"),
        Err(error) => format!("127.0.0.1:{port} gives no answer: {error}"),
    };
    Finding::failure("port", what, "see the daemon's log (mcp.failed), and restart it")
}

fn taken(patient: &Patient, port: u16) -> Finding {
    let whose = owner_of(&patient.world.proc, port)
        .map_or_else(|| "another user's program".to_owned(), |(pid, name)| format!("{name} (pid {pid})"));
    Finding::failure(
        "port",
        format!("127.0.0.1:{port} is taken by {whose}: Claude's tools don't work"),
        "end that program, or choose another mcp.port (CCMUX_MCP_PORT); 0 is any",
    )
}

/// Who listens on a port, by the inode of its socket. Linux; only processes that may be looked at.
fn owner_of(proc: &Path, port: u16) -> Option<(i32, String)> {
    let inode = listening_inode(&std::fs::read_to_string(proc.join("net/tcp")).ok()?, port)?;
    let wanted = format!("socket:[{inode}]");
    for entry in std::fs::read_dir(proc).ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let holds = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = holds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        if links.any(|link| link.as_os_str() == wanted.as_str()) {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim().to_owned()));
        }
    }
    None
}

/// The inode of the listening socket, from `/proc/net/tcp`.
fn listening_inode(table: &str, port: u16) -> Option<String> {
    let ending = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&ending) && *fields.get(3)? == "0A";
        if listens { fields.get(9).map(|inode| (*inode).to_owned()) } else { None }
    })
}

/// Whether the daemon takes the token that is in the file.
pub(super) async fn token(patient: &Patient) -> Vec<Finding> {
    let check = "token";
    let Some(port) = patient.status().and_then(|status| status.mcp.port) else {
        return vec![Finding::ok(check, "not to be measured: nothing serves the port")];
    };
    if patient.setting.settings.mcp.auth == "none" {
        return vec![Finding::ok(check, "none is asked for (mcp.auth)")];
    }
    let file = patient.state_dir.join("mcp.token");
    let token = read_bounded(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let (with, without) = (ask(port, "/metrics", token.as_deref()).await, ask(port, "/metrics", None).await);
    vec![match (with, without) {
        (Ok(taken), Ok(401)) if taken != 401 => {
            Finding::ok(check, "the daemon takes it, and nobody without it")
        }
        (Ok(200), Ok(200)) => Finding::failure(
            check,
            "the daemon lets programs in without a token",
            "was it started with mcp.auth = \"none\"? restart it",
        ),
        _ => Finding::failure(
            check,
            format!("the daemon does not take the token of {}", file.display()),
            "restart the daemon; if that does not help, remove the file before",
        ),
    }]
}

/// The status of one request to our own server.
async fn ask(port: u16, path: &str, token: Option<&str>) -> io::Result<u16> {
    let exchange = async {
        let mut stream = AsyncTcpStream::connect(("127.0.0.1", port)).await?;
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let authorization = authorization.unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{authorization}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; HEAD_BYTES];
        let read = stream.read(&mut head).await?;
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.ok_or_else(|| io::Error::other("that is no HTTP"))
    };
    timeout(LIMIT, exchange).await.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}

pub(super) fn proxy(patient: &Patient) -> Vec<Finding> {
    let check = "proxy";
    let expect = &patient.setting.settings.proxy.expect;
    if let Some(warning) = unexpected(&patient.environment, expect) {
        let remedy = "set the proxy variables where the daemon is started, or proxy.expect (empty: no check)";
        return vec![Finding::warning(check, warning.to_string(), remedy)];
    }
    let set = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]
        .into_iter()
        .find_map(|name| patient.environment.get(name).filter(|value| !value.is_empty()));
    let Some(value) = set else { return vec![Finding::ok(check, "none is set, and none is expected")] };
    let shown = without_credentials(value);
    vec![match reach(&shown) {
        Ok(()) => Finding::ok(check, format!("{shown} can be reached")),
        Err(why) => Finding::failure(
            check,
            format!("{shown} can't be reached: {why}; Claude goes through it to its API"),
            "start the proxy, or unset HTTP_PROXY and HTTPS_PROXY for the daemon",
        ),
    }]
}

/// Whether something listens there.
fn reach(shown: &str) -> Result<(), String> {
    let (scheme, rest) = shown.split_once("://").unwrap_or(("http", shown));
    let address = rest.rsplit('@').next().unwrap_or(rest);
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let default = if scheme == "https" { 443 } else { 80 };
    let address = if has_port { address.to_owned() } else { format!("{address}:{default}") };
    let mut found = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let first = found.next().ok_or("the name has no address")?;
    TcpStream::connect_timeout(&first, LIMIT).map(drop).map_err(|error| error.to_string())
}

pub(super) fn no_proxy(patient: &Patient) -> Vec<Finding> {
    vec![judge_no_proxy(&patient.environment)]
}

/// Our own server must not be asked for through a proxy.
fn judge_no_proxy(environment: &BTreeMap<String, String>) -> Finding {
    let covers = |name: &str| {
        let value = environment.get(name).map_or("", String::as_str);
        value.split(',').map(str::trim).any(|host| host == "*" || host == "127.0.0.1")
    };
    match covers("NO_PROXY") && covers("no_proxy") {
        true => Finding::ok("no_proxy", "the agent reaches 127.0.0.1 directly"),
        false => Finding::failure(
            "no_proxy",
            "the agent would ask a proxy for Claude's tools: NO_PROXY or no_proxy lacks 127.0.0.1",
            "add 127.0.0.1,localhost,::1 to NO_PROXY and no_proxy",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_list_without_loopback_is_a_failure() {
        let with = |value: &str| {
            let pairs = ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), value.to_owned()));
            judge_no_proxy(&BTreeMap::from(pairs)).state
        };
        assert_eq!(with("example.com, 127.0.0.1"), Health::Ok);
        assert_eq!(with("*"), Health::Ok);
        assert_eq!(with("localhost"), Health::Failure);
        assert_eq!(judge_no_proxy(&BTreeMap::new()).state, Health::Failure);
    }

    #[test]
    fn only_a_socket_that_listens_owns_the_port() {
        let row = |state: &str| {
            format!("head\n 0: 0100007F:2694 00000000:0000 {state} 0:0 00:0 00000000 1000 0 4711 1\n")
        };
        assert_eq!(listening_inode(&row("01"), 9876), None);
        assert_eq!(listening_inode(&row("0A"), 9876).as_deref(), Some("4711"));
        assert_eq!(listening_inode(&row("0A"), 9877), None);
    }
}
