//! Every check of the guard, and what comes in without it.

use std::path::Path;

use axum::http::HeaderName;

use super::*;

const FILE: &str = "/state/mcp.token";

fn guard() -> Guard {
    Guard { port: 9876, token: Some(Token { value: "secret".into(), file: Path::new(FILE).into() }) }
}

/// A request by its method, what stands in its line, and its headers.
#[derive(Debug, Clone)]
struct Asked {
    method: Method,
    uri: String,
    headers: Vec<(&'static str, String)>,
}

/// One that passes.
fn good() -> Asked {
    let headers = [
        ("host", "127.0.0.1:9876"),
        ("authorization", "Bearer secret"),
        ("content-type", "application/json"),
        ("content-length", "2"),
    ];
    let headers = headers.map(|(name, value)| (name, value.to_owned())).to_vec();
    Asked { method: Method::POST, uri: "/mcp".into(), headers }
}

impl Asked {
    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    fn and(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    fn with(self, name: &'static str, value: impl ToString) -> Self {
        self.without(name).and(name, value)
    }

    fn at(mut self, uri: &str) -> Self {
        uri.clone_into(&mut self.uri);
        self
    }

    fn by(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// The name of the check that keeps it out.
    fn kept_out(&self, guard: &Guard, checks: &[Check]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let uri = self.uri.parse().unwrap();
        let head = Head { method: &self.method, uri: &uri, headers: &headers };
        guard.objection(checks, head).map(|check| check.name)
    }
}

const HOSTS: [&str; 15] = [
    "evil.example:9876",
    "evil.example",
    "127.0.0.1",
    "127.0.0.1:80",
    "127.0.0.1:9876.evil.example",
    "127.0.0.2:9876",
    "0.0.0.0:9876",
    "2130706433:9876",
    "localhost.:9876",
    "localhost.evil.example:9876",
    "::1:9876",
    "[::1]",
    "[::ffff:127.0.0.1]:9876",
    "user@127.0.0.1:9876",
    "",
];

const ORIGINS: [&str; 10] = [
    "null",
    "",
    "http://evil.example",
    "http://evil.example:9876",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example:80",
    "http://evil.example/?http://localhost",
    "http://localhost@evil.example",
    "file://",
    "chrome-extension://localhost",
];

const CREDENTIALS: [&str; 8] = [
    "Bearer wrong",
    "Bearer secre",
    "Bearer secrets",
    "Bearer SECRET",
    "Bearer",
    "Bearer ",
    "secret",
    "Basic secret",
];

const TYPES: [&str; 5] =
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""];

/// What each check, and no other one, keeps out.
fn kept_out_by(check: &str) -> Vec<Asked> {
    let each = |name: &'static str, values: &[&str]| -> Vec<Asked> {
        values.iter().map(|value| good().with(name, value)).collect()
    };
    let (mut asked, further) = match check {
        "host" => {
            let two = |host: &str| good().and("host", host);
            let further = [good().without("host"), two("evil.example:9876"), two("127.0.0.1:9876")];
            (each("host", &HOSTS), further.to_vec())
        }
        "authority" => {
            let lines = ["http://evil.example:9876/mcp", "http://127.0.0.1:80/mcp"];
            (Vec::new(), lines.map(|line| good().at(line)).to_vec())
        }
        "origin" => {
            let two = good().and("origin", "http://localhost").and("origin", "http://evil.example");
            (each("origin", &ORIGINS), vec![two])
        }
        "site" => (each("sec-fetch-site", &["cross-site"]), Vec::new()),
        "token" => {
            let none = good().without("authorization");
            let queries = ["/mcp?token=secret", "/mcp?access_token=secret"].map(|line| none.clone().at(line));
            let further = [good().and("authorization", "Bearer secret"), none.clone()];
            (each("authorization", &CREDENTIALS), [further, queries].concat())
        }
        "type" => {
            let further = [good().without("content-type"), good().and("content-type", "text/plain")];
            (each("content-type", &TYPES), further.to_vec())
        }
        "length" => {
            let one_more = (BODY_BYTES + 1).to_string();
            (each("content-length", &[&one_more, "18446744073709551615"]), Vec::new())
        }
        other => panic!("the check {other:?} has no test: write down what it keeps out"),
    };
    asked.extend(further);
    asked
}

/// Acceptance E4.
#[test]
fn each_check_keeps_out_what_would_come_in_without_it() {
    for check in CHECKS {
        let all_but_it: Vec<Check> = CHECKS.into_iter().filter(|other| other.name != check.name).collect();
        let asked = kept_out_by(check.name);
        assert!(!asked.is_empty());
        for asked in asked {
            assert_eq!(asked.kept_out(&guard(), &CHECKS), Some(check.name), "{asked:?}");
            assert_eq!(asked.kept_out(&guard(), &all_but_it), None, "another check does it: {asked:?}");
        }
    }
}

#[test]
fn our_own_names_with_our_port_and_the_token_come_in() {
    for host in ["127.0.0.1:9876", "localhost:9876", "LOCALHOST:9876", "[::1]:9876"] {
        assert_eq!(good().with("host", host).kept_out(&guard(), &CHECKS), None, "{host}");
    }
    for origin in ["http://localhost", "http://localhost:5173", "https://127.0.0.1:8443", "http://[::1]:1"] {
        assert_eq!(good().with("origin", origin).kept_out(&guard(), &CHECKS), None, "{origin}");
    }
    for asked in [
        good().with("authorization", "bearer secret"),
        good().at("http://127.0.0.1:9876/mcp"),
        good().with("content-type", "Application/JSON; charset=utf-8"),
        good().with("sec-fetch-site", "same-origin"),
        good().with("content-length", BODY_BYTES),
        good().without("content-length"),
        good().by(Method::GET).without("content-type").without("content-length"),
        good().by(Method::DELETE).without("content-type"),
    ] {
        assert_eq!(asked.kept_out(&guard(), &CHECKS), None, "{asked:?}");
    }
}

#[test]
fn without_authentication_everything_else_is_still_looked_at() {
    let open = Guard { token: None, ..guard() };
    assert_eq!(good().without("authorization").kept_out(&open, &CHECKS), None);
    for check in CHECKS.into_iter().filter(|check| check.name != "token") {
        for asked in kept_out_by(check.name) {
            assert_eq!(asked.kept_out(&open, &CHECKS), Some(check.name), "{asked:?}");
        }
    }
}

#[test]
fn every_refusal_has_its_status_and_says_what_to_do() {
    let answers = CHECKS.map(|check| {
        let refused = (check.refused)(&guard());
        (check.name, refused.status().as_u16(), refused.to_string())
    });
    let expected = [
        ("host", 403, "127.0.0.1:9876"),
        ("authority", 403, "127.0.0.1:9876"),
        ("origin", 403, "web pages"),
        ("site", 403, "web pages"),
        ("token", 401, FILE),
        ("type", 415, "application/json"),
        ("length", 413, "the limit is 8 MiB, and 1 MiB for a message"),
    ];
    for ((name, status, text), (expected, code, says)) in answers.iter().zip(expected) {
        assert_eq!((*name, *status), (expected, code));
        assert!(text.contains(says) && !text.contains("secret"), "{text}");
    }
}
