//! Crowds, slow strangers, a listener that fails: real connections.

use std::net::Shutdown;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

use super::*;
use crate::mcp::guard::{BODY_BYTES, Guard};

use std::path::Path;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::{get, post};
use tokio_stream::wrappers::ReceiverStream;

use crate::mcp::door::Token;

const LIMIT: Duration = Duration::from_secs(20);

/// A server with a stream that never ends, and a route that says how much it was sent.
struct Served {
    port: u16,
    stop: CancellationToken,
    /// The listener's own socket.
    socket: OwnedFd,
    server: JoinHandle<io::Result<()>>,
}

async fn counted(request: Request) -> String {
    let mut bytes = 0;
    let mut body = request.into_body().into_data_stream();
    while let Some(Ok(piece)) = body.next().await {
        bytes += piece.len();
    }
    format!("{bytes} bytes\n")
}

async fn endless() -> Body {
    let (say, pieces) = tokio::sync::mpsc::channel::<Result<Bytes, io::Error>>(1);
    tokio::spawn(async move {
        let _ = say.send(Ok("here\n".into())).await;
        say.closed().await;
    });
    Body::from_stream(ReceiverStream::new(pieces))
}

async fn served(strangers_stay: Duration) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = listener.as_fd().try_clone_to_owned().unwrap();
    let token = Token { value: "secret".into(), file: Path::new("/state/mcp.token").into() };
    let routes = Router::new().route("/stream", get(endless)).route("/count", post(counted));
    let routes = Guard { port, token: Some(token) }.before(routes);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let server =
        tokio::spawn(async move { serve_strangers_for(strangers_stay, listener, routes, &stopped).await });
    Served { port, stop, socket, server }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    fn head(&self, line: &str, token: &str) -> String {
        format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n",
            self.port
        )
    }

    /// A connection on which that was said, and the beginning of the answer.
    async fn say(&self, text: &str) -> (TcpStream, String) {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut some = [0; 4096];
        let read = tokio::time::timeout(LIMIT, stream.read(&mut some)).await.unwrap().unwrap_or_default();
        (stream, String::from_utf8_lossy(&some[..read]).into_owned())
    }

    async fn stream(&self) -> (TcpStream, String) {
        self.say(&format!("{}\r\n", self.head("GET /stream", "secret"))).await
    }
}

/// Waits until the other side hangs up.
async fn hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("it is hung up on");
}

async fn is_open(stream: &mut TcpStream) -> bool {
    let some = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut [0; 64])).await;
    !matches!(some, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn who_says_nothing_or_half_a_request_or_a_letter_at_a_time_is_hung_up_on() {
    let served = served(Duration::from_millis(300)).await;
    let mut silent = served.connect().await;
    let mut half = served.connect().await;
    half.write_all(served.head("GET /stream", "secret").as_bytes()).await.unwrap();
    let mut slow = served.connect().await;
    let drip = async {
        for byte in "GET / HTTP/1.1\r\nX: ".bytes().chain(std::iter::repeat(b'x')) {
            if slow.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, drip).await.expect("a letter now and then keeps nothing open");
    hung_up(&mut silent).await;
    hung_up(&mut half).await;
}

#[tokio::test]
async fn who_was_refused_or_asks_for_health_may_not_stay_either() {
    let served = served(Duration::from_millis(300)).await;
    let (mut refused, said) = served.say(&format!("{}\r\n", served.head("GET /stream", "wrong"))).await;
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    hung_up(&mut refused).await;
    let (mut health, said) = served.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    hung_up(&mut health).await;
}

#[tokio::test]
async fn who_was_admitted_may_stay() {
    let served = served(Duration::from_millis(200)).await;
    let (mut stream, said) = served.stream().await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let mut stranger = served.connect().await;
    hung_up(&mut stranger).await;
    assert!(is_open(&mut stream).await);
}

/// Acceptance E4.
#[tokio::test]
async fn a_crowd_of_strangers_keeps_nobody_out_and_is_no_larger_than_it_may_be() {
    let served = served(LIMIT).await;
    let (mut stream, _) = served.stream().await;
    let mut crowd = Vec::new();
    for _ in 0..4 * STRANGERS {
        crowd.push(served.connect().await);
    }
    let (_, said) = served.stream().await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(is_open(&mut stream).await, "an admitted one paid for strangers");
    for oldest in &mut crowd[..3 * STRANGERS] {
        hung_up(oldest).await;
    }
    let mut open = 0;
    for stranger in &mut crowd[3 * STRANGERS + 1..] {
        let gone = tokio::time::timeout(Duration::from_millis(1), stranger.read(&mut [0; 1])).await;
        open += usize::from(gone.is_err());
    }
    assert_eq!(open, STRANGERS - 1, "the newest stay");
}

#[tokio::test]
async fn of_our_own_programs_only_so_many_are_connected() {
    let served = served(LIMIT).await;
    let mut streams = Vec::new();
    for _ in 0..ADMITTED {
        let (stream, said) = served.stream().await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        streams.push(stream);
    }
    let (_, said) = served.stream().await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("too many connections"), "{said}");
    streams.pop();
    let again = async {
        while !served.stream().await.1.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, again).await.expect("there is room again");
}

#[tokio::test]
async fn a_body_that_does_not_tell_its_length_is_cut_where_it_grows_too_long() {
    let served = served(LIMIT).await;
    let head = served.head("POST /count", "secret") + "Transfer-Encoding: chunked\r\n\r\n";
    let mut stream = served.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    for _ in 0..(2 * BODY_BYTES) >> 20 {
        if stream.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut said = vec![0; 4096];
    let read = tokio::time::timeout(LIMIT, stream.read(&mut said)).await.unwrap().unwrap_or_default();
    let said = String::from_utf8_lossy(&said[..read]).into_owned();
    let bytes: usize = said.split("\r\n\r\n").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(bytes <= BODY_BYTES, "{said}");
}

#[tokio::test]
async fn a_body_that_is_told_to_be_too_long_is_refused_and_the_client_gets_to_read_why() {
    let served = served(LIMIT).await;
    let body = "x".repeat(BODY_BYTES + 1);
    let head = format!("{}Content-Length: {}\r\n\r\n", served.head("POST /count", "secret"), body.len());
    let (mut stream, sent) = (served.connect().await, head + &body);
    stream.write_all(sent.as_bytes()).await.expect("all of it is taken");
    let mut said = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut said)).await.unwrap().unwrap();
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("the limit is 8 MiB"), "{said}");
}

#[tokio::test]
async fn a_listener_that_fails_is_told_and_open_streams_go_on() {
    let served = served(LIMIT).await;
    let (mut stream, _) = served.stream().await;
    let socket: std::net::TcpStream = served.socket.into();
    socket.shutdown(Shutdown::Both).unwrap();
    let ended = tokio::time::timeout(LIMIT, served.server).await.expect("it is noticed").unwrap();
    assert!(ended.is_err());
    assert!(is_open(&mut stream).await);
}

#[tokio::test]
async fn strangers_hold_up_no_shutdown() {
    let served = served(LIMIT).await;
    let mut half = served.connect().await;
    half.write_all(b"GET / HTT").await.unwrap();
    let _silent = served.connect().await;
    let begun = std::time::Instant::now();
    served.stop.cancel();
    tokio::time::timeout(LIMIT, served.server).await.unwrap().unwrap().unwrap();
    assert!(begun.elapsed() < ENDS_WITHIN, "{:?}", begun.elapsed());
    hung_up(&mut half).await;
}
