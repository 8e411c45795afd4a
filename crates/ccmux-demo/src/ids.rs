//! Random identities: session, prompt and line uuids, message and tool ids. Knows /dev/urandom only.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;

/// A random (version 4) uuid.
pub fn uuid() -> String {
    let mut bytes = random::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex_of(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// An id with a prefix, as the API gives them: `msg_` and 20 digits.
pub fn prefixed(prefix: &str, digits: usize) -> String {
    let mut hex = hex_of(&random::<16>());
    hex.truncate(digits);
    format!("{prefix}{hex}")
}

/// A number below `limit`, for choices that only a human sees.
pub fn pick(limit: usize) -> usize {
    usize::from(u16::from_le_bytes(random::<2>())) % limit.max(1)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).is_err() {
        // Without a random device: unique enough for a demo, by time and address.
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seed = time.as_nanos() ^ ((&raw const bytes).addr() as u128);
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (seed >> (8 * (at % 16))) as u8;
        }
    }
    bytes
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_the_usual_shape() {
        let id = uuid();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&id[14..15], "4");
        assert_ne!(id, uuid());
    }
}
