//! The token that a request must know: where it comes from, and whether a request knows it.
//!
//! ```text
//! Authorization: Bearer TOKEN
//! X-Hub-Signature-256: sha256=HEX      HMAC-SHA256 of the body, the token is the key (GitHub, Gitea, Forgejo)
//! ```
//!
//! Every comparison takes the same time whatever the guess. The token is in no message, log or argument list.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::Failure;

const VARIABLE: &str = "CCMUX_WEBHOOK_TOKEN";

/// A shorter one can be guessed.
const SHORTEST: usize = 16;
/// More is none.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// What only those know who may write.
pub struct Secret(String);

impl Secret {
    /// From the file, or from the environment.
    pub fn read(file: Option<&Path>) -> Result<Self, Failure> {
        let text = match file {
            Some(path) => read_private(path)?,
            None => env::var(VARIABLE).map_err(|error| match error {
                env::VarError::NotPresent => {
                    refused(format!("no token: give --token-file FILE or set {VARIABLE}"))
                }
                env::VarError::NotUnicode(_) => refused(format!("{VARIABLE} is no UTF-8")),
            })?,
        };
        // Some editors write a mark of UTF-8 before it, which no sender sends.
        Self::new(text.trim_start_matches('\u{feff}').trim()).map_err(refused)
    }

    fn new(token: &str) -> Result<Self, String> {
        match token.len() {
            SHORTEST.. if token.chars().any(char::is_control) => {
                Err("the token has a control character, which no header can hold: is it one line?".to_owned())
            }
            SHORTEST.. => Ok(Self(token.to_owned())),
            _ => Err(format!("the token is shorter than {SHORTEST} bytes: openssl rand -hex 32 makes one")),
        }
    }

    /// Whether an `Authorization` header has it.
    pub fn authorizes(&self, header: &[u8]) -> bool {
        let Some((scheme, guess)) = header.split_at_checked("Bearer ".len()) else { return false };
        // Of hashes, so that the time does not tell the length either.
        let hash = |bytes: &[u8]| Sha256::digest(bytes);
        let same = hash(guess.trim_ascii()).as_slice().ct_eq(hash(self.0.as_bytes()).as_slice());
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(same)
    }

    /// Whether an `X-Hub-Signature-256` header was made with it from this body.
    pub fn signed(&self, header: &[u8], body: &[u8]) -> bool {
        let Some(signature) = header.strip_prefix(b"sha256=").and_then(unhex) else { return false };
        Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .is_ok_and(|mac| mac.chain_update(body).verify_slice(&signature).is_ok())
    }
}

/// It may be a FIFO: `--token-file <(pass show token)` is one.
fn read_private(path: &Path) -> Result<String, Failure> {
    let cant = |error| Failure::Failed(format!("can't read the token in {}: {error}", path.display()));
    let file = File::open(path).map_err(cant)?;
    let mode = file.metadata().map_err(cant)?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        return Err(refused(format!("others may read the token in {path}: chmod 600 {path}")));
    }
    let text = io::read_to_string(file.take(MAX_FILE_BYTES + 1)).map_err(cant)?;
    match text.len() as u64 {
        0..=MAX_FILE_BYTES => Ok(text),
        _ => {
            Err(refused(format!("{} is longer than a token: {MAX_FILE_BYTES} bytes at most", path.display())))
        }
    }
}

fn refused(why: String) -> Failure {
    Failure::Refused(why)
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TOKEN: &str = "It's a Secret to Everybody";

    #[test]
    fn a_bearer_header_must_have_the_whole_token() {
        let secret = Secret::new(TOKEN).unwrap();
        assert!(secret.authorizes(format!("Bearer {TOKEN}").as_bytes()));
        assert!(secret.authorizes(format!("bearer {TOKEN}").as_bytes()));
        for guess in ["", "Bearer", "Bearer ", "Bearer It's", "Basic It's a Secret to Everybody", TOKEN] {
            assert!(!secret.authorizes(guess.as_bytes()), "{guess}");
        }
        assert!(!secret.authorizes(format!("Bearer {TOKEN}x").as_bytes()));
    }

    /// The example of GitHub's documentation.
    #[test]
    fn a_signature_is_of_the_body_and_the_token() {
        let secret = Secret::new(TOKEN).unwrap();
        let signature = b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(secret.signed(signature, b"Hello, World!"));
        assert!(!secret.signed(signature, b"Hello, World"));
        assert!(!secret.signed(&signature[..signature.len() - 2], b"Hello, World!"));
        for header in [&b"sha256="[..], b"", b"sha1=757107", b"sha256=zz", b"sha256=757"] {
            assert!(!secret.signed(header, b"Hello, World!"));
        }
    }

    #[test]
    fn a_token_that_others_may_read_or_that_can_be_guessed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Secret::read(Some(&path)).map(|secret| secret.0).map_err(|failure| failure.to_string())
        };
        assert_eq!(write("0123456789abcdef\n", 0o600), Ok("0123456789abcdef".to_owned()));
        assert_eq!(write("\u{feff}0123456789abcdef\r\n", 0o600), Ok("0123456789abcdef".to_owned()));
        assert!(write("0123456789abcdef\nfedcba\n", 0o600).unwrap_err().contains("one line"));
        assert!(write("0123456789abcdef\n", 0o640).unwrap_err().contains("chmod 600"));
        assert!(write(&"t".repeat(70_000), 0o600).unwrap_err().contains("65536 bytes at most"));
        assert!(write("short\n", 0o600).unwrap_err().contains("shorter than 16"));
        fs::remove_file(&path).unwrap();
        assert!(Secret::read(Some(&path)).is_err());
    }
}
