//! Whether the agent's proxy variables are what the user expects (`proxy.expect`). A wrong one is told, never an error.
//!
//! A variable may hold credentials: of its value only host and port are ever shown.
//!
//! ```text
//! HTTPS_PROXY is unset, HTTP_PROXY is http://***@10.0.0.1:3128: expected http://127.0.0.1:8118; ...
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// Either spelling counts; Claude Code reads both.
const VARIABLES: [(&str, &str); 2] = [("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy")];

/// Proxy variables that are not the expected ones. Its text holds no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnexpectedProxy {
    found: Vec<String>,
    expected: String,
}

impl fmt::Display for UnexpectedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, expected) = (self.found.join(", "), &self.expected);
        write!(
            f,
            "{found}: expected {expected}; the agent starts all the same (see proxy.expect, empty: no check)"
        )
    }
}

/// Compares the agent's environment with what is expected; nothing is expected where `expect` is empty.
pub fn unexpected(environment: &BTreeMap<String, String>, expect: &str) -> Option<UnexpectedProxy> {
    if expect.is_empty() {
        return None;
    }
    let wrong = |(upper, lower): (&str, &str)| -> Vec<String> {
        let set: Vec<_> = [lower, upper]
            .into_iter()
            .filter_map(|name| Some((name, environment.get(name).filter(|value| !value.is_empty())?)))
            .collect();
        if set.is_empty() {
            return vec![format!("{upper} is not set")];
        }
        let differs = |(_, value): &(&str, &String)| plain(value) != plain(expect);
        let told = |(name, value): (&str, &String)| format!("{name} is {}", told(value, expect));
        set.into_iter().filter(differs).map(told).collect()
    };
    let found: Vec<String> = VARIABLES.into_iter().flat_map(wrong).collect();
    (!found.is_empty()).then(|| UnexpectedProxy { found, expected: without_credentials(expect) })
}

/// Spellings of the same address.
fn plain(value: &str) -> String {
    value.trim().trim_end_matches('/').to_ascii_lowercase()
}

fn told(value: &str, expect: &str) -> String {
    let shown = without_credentials(value);
    if shown == without_credentials(expect) {
        format!("{shown} with other credentials or path")
    } else {
        shown
    }
}

/// Scheme, host and port; whatever stands before the last `@` is never shown, nor anything that is no host and port.
pub(crate) fn without_credentials(value: &str) -> String {
    let value = value.trim();
    let scheme = value.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    let rest = scheme.map_or(value, |scheme| &value[scheme.len() + 3..]);
    let (hidden, address) = match rest.rsplit_once('@') {
        Some((_, address)) => ("***@", address),
        None => ("", rest),
    };
    let address = address.split(['/', '?', '#']).next().unwrap_or_default();
    if !is_host_and_port(address) {
        return "no proxy's address".to_owned();
    }
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}{hidden}{address}")
}

fn is_host_and_port(address: &str) -> bool {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => (host, port),
        _ => (address, "0"),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_name = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let is_address = |host: &str| host.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
    !host.is_empty()
        && in_brackets.map_or_else(|| is_name(host), is_address)
        && !port.is_empty()
        && port.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "http://127.0.0.1:8118";

    fn warning(variables: &[(&str, &str)], expect: &str) -> Option<String> {
        let environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        unexpected(&environment, expect).map(|warning| warning.to_string())
    }

    #[test]
    fn the_expected_proxy_is_no_news_in_either_spelling() {
        for variables in [
            [("HTTP_PROXY", EXPECTED), ("HTTPS_PROXY", EXPECTED)],
            [("http_proxy", EXPECTED), ("https_proxy", EXPECTED)],
            [("HTTP_PROXY", "HTTP://127.0.0.1:8118/"), ("https_proxy", EXPECTED)],
        ] {
            assert_eq!(warning(&variables, EXPECTED), None, "{variables:?}");
        }
        assert_eq!(warning(&[], ""), None);
    }

    #[test]
    fn what_is_unset_or_different_is_named() {
        let text = warning(&[("HTTP_PROXY", EXPECTED)], EXPECTED).unwrap();
        assert!(text.starts_with("HTTPS_PROXY is not set: expected http://127.0.0.1:8118;"), "{text}");
        let both =
            [("http_proxy", ""), ("HTTP_PROXY", "http://10.0.0.1:3128"), ("https_proxy", "socks5://[::1]:9")];
        let text = warning(&both, EXPECTED).unwrap();
        let found = "HTTP_PROXY is http://10.0.0.1:3128, https_proxy is socks5://[::1]:9: expected";
        assert!(text.starts_with(found), "{text}");
    }

    #[test]
    fn two_spellings_that_differ_are_told_even_if_one_is_right() {
        let variables =
            [("HTTP_PROXY", EXPECTED), ("HTTPS_PROXY", EXPECTED), ("https_proxy", "http://other:1")];
        let text = warning(&variables, EXPECTED).unwrap();
        assert!(text.starts_with("https_proxy is http://other:1:"), "{text}");
    }

    #[test]
    fn credentials_are_never_shown() {
        for value in [
            "http://u:hunter2@p:1",
            "http://u:hunter2/@p:1",
            "http://u:x@hunter2@p:1/hunter2?hunter2",
            "u:hunter2@p:1",
            "u:hunter2",
            "http://u:hunter2",
            "http://hunter2\n@p:1",
            "hunter2 x://p:1",
        ] {
            for expect in [EXPECTED, "http://a:hunter2@p:1"] {
                let text = warning(&[("HTTPS_PROXY", value)], expect).unwrap();
                assert!(!text.contains("hunter2"), "{value:?}: {text}");
            }
        }
        let text = warning(&[("HTTP_PROXY", "http://u:b@p:1")], "http://u:a@p:1").unwrap();
        assert!(text.contains("http://***@p:1 with other credentials"), "{text}");
    }
}
