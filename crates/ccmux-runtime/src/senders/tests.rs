//! On a real port of loopback.

use ccmux_policy::attention::Kind;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::places::MAX_CONNECTIONS;
use super::*;

async fn house(token: Option<&str>) -> (SocketAddr, mpsc::Receiver<Heard>, CancellationToken) {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let ((ears, heard), shutdown) = (Ears::new(), CancellationToken::new());
    let door = SenderDoor { address, token: token.map(str::to_owned), ears, shutdown: shutdown.clone() };
    tokio::spawn(door.run());
    (address, heard, shutdown)
}

async fn connect(address: SocketAddr) -> TcpStream {
    let connected = async {
        loop {
            match TcpStream::connect(address).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(Duration::from_secs(5), connected).await.unwrap()
}

async fn say(address: SocketAddr, text: &[u8]) -> String {
    told_to(connect(address).await, text).await
}

async fn told_to(mut stream: TcpStream, text: &[u8]) -> String {
    stream.write_all(text).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(8), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

async fn next(heard: &mut mpsc::Receiver<Heard>) -> GuestNews {
    match timeout(Duration::from_secs(5), heard.recv()).await.unwrap() {
        Some(Heard::Guest(news)) => news,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn three_lines_become_news_by_their_event() {
    let (address, mut heard, _shutdown) = house(None).await;
    for (event, kind) in [("complete", Kind::Reply), ("question", Kind::Question), ("info", Kind::Message)] {
        assert_eq!(say(address, format!("{event}\n77\nhello\n").as_bytes()).await, "ok\n");
        let GuestNews::Began { session, kind: told, text, .. } = next(&mut heard).await else { panic!() };
        assert_eq!((session.as_str(), told, text.as_str()), ("w-77", kind, "hello"));
    }
    assert_eq!(say(address, b"info\n\nhello\n").await, "ok\n");
    assert!(matches!(next(&mut heard).await, GuestNews::Began { session, .. } if session == "tcp"));
}

#[tokio::test]
async fn a_probe_gets_200_and_garbage_a_word_and_neither_is_news() {
    let (address, mut heard, _shutdown) = house(None).await;
    assert!(say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(say(address, b"\x16\x03\x01\x02\x00\n\n\n").await.starts_with("refused: the event"));
    assert!(say(address, &[b'x'; 9000]).await.starts_with("refused: more than 8192"));
    assert!(say(address, b"info\n7; rm\nx\n").await.starts_with("refused: the window"));
    assert_eq!(say(address, b"info\n7\nlast\n").await, "ok\n");
    assert!(matches!(next(&mut heard).await, GuestNews::Began { text, .. } if text == "last"));
}

#[tokio::test]
async fn without_the_token_nothing_is_taken() {
    let (address, mut heard, _shutdown) = house(Some("s3cret")).await;
    for said in ["info\n7\nx\n", "token wrong\ninfo\n7\nx\n", "token \ninfo\n7\nx\n"] {
        assert!(say(address, said.as_bytes()).await.starts_with("refused: the token"), "{said:?}");
    }
    assert_eq!(say(address, b"token s3cret\ninfo\n7\nyes\n").await, "ok\n");
    assert!(matches!(next(&mut heard).await, GuestNews::Began { text, .. } if text == "yes"));
}

#[test]
fn who_is_shut_out_does_not_learn_that_a_token_is_right() {
    let desk = Desk::new(Some("s3cret".to_owned()), Ears::new().0);
    let ([guesser, other], now) =
        (["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap()), Instant::now());
    // Not to know of a token is no guess.
    assert!((0..100).all(|_| desk.let_in(None, guesser, now).unwrap_err().contains("`token SECRET`")));
    let guesses =
        (0..100).filter(|_| desk.let_in(Some("guess"), guesser, now).unwrap_err().contains("wrong or"));
    assert_eq!(guesses.count(), 6);
    for token in [Some("s3cret"), Some("guess"), None] {
        assert!(desk.let_in(token, guesser, now).unwrap_err().contains("too many wrong tokens"), "{token:?}");
    }
    assert_eq!(desk.let_in(Some("s3cret"), other, now), Ok(()));
    assert_eq!(desk.let_in(Some("s3cret"), guesser, now + Duration::from_secs(1)), Ok(()));
}

/// Linux has all of 127.0.0.0/8.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_guesses_at_the_port_is_shut_out_and_others_are_not() {
    let (address, mut heard, _shutdown) = house(Some("s3cret")).await;
    let mut guesses = 0;
    while !say(address, b"token guess\ninfo\n7\nx\n").await.starts_with("refused: too many wrong tokens") {
        guesses += 1;
        assert!(guesses < 100, "it may guess for ever");
    }
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let other = other.connect(address).await.unwrap();
    assert_eq!(told_to(other, b"token s3cret\ninfo\n7\nyes\n").await, "ok\n");
    assert!(matches!(next(&mut heard).await, GuestNews::Began { text, .. } if text == "yes"));
}

#[tokio::test]
async fn slow_and_half_open_connections_end_and_keep_nobody_out() {
    let (address, _heard, _shutdown) = house(None).await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS / 2 {
        silent.push(connect(address).await);
    }
    let mut slow = connect(address).await;
    slow.write_all(b"inf").await.unwrap();
    assert_eq!(say(address, b"info\n7\nbetween them\n").await, "ok\n");
    let mut nothing = Vec::new();
    let ended = timeout(WITHIN + Duration::from_secs(3), slow.read_to_end(&mut nothing)).await;
    assert!(ended.is_ok() && nothing.is_empty(), "it ends after {WITHIN:?}, without an answer");
}

#[tokio::test]
async fn a_flood_is_slowed_and_forgets_who_spoke_longest_ago() {
    let (address, mut heard, _shutdown) = house(None).await;
    let mut refused = 0;
    for number in 0..2 * BURST {
        let answer = say(address, format!("info\n{number}\nx\n").as_bytes()).await;
        refused += u32::from(answer.starts_with("refused: too many"));
    }
    assert!(refused > BURST / 2, "{refused}");
    let mut known = Known::default();
    let (ears, mut gone) = Ears::new();
    for number in 0..=MAX_SPEAKERS {
        known.note(&format!("w-{number}"), &ears);
    }
    assert_eq!(next(&mut gone).await, GuestNews::Gone { session: "w-0".into() });
    assert!(gone.try_recv().is_err() && heard.recv().await.is_some());
}
