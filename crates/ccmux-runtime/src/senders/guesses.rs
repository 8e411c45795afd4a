//! Wrong tokens, by the address that they came from: who guesses is not listened to for a while that grows.
//!
//! ```text
//! wrong ×5 ─► wrong ─► shut out for 1 s ─► wrong ─► 2 s ─► ... ─► 1 min     10 min of peace ─► forgotten
//! ```
//!
//! Who is shut out is not told whether a token is right. Where many addresses guess together, none has a wrong one free.
//! It remembers so many addresses and no more. Knows no clock, no socket and no token.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::told::Told;

/// Wrong ones of an address without consequences: a person mistypes.
const FREE: u32 = 5;
/// Then so long, and twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Others may share the address, so not for ever.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After its pause.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Wrong ones of all addresses within [`TOGETHER`] until none is free.
const FREE_TOGETHER: u32 = 60;
const TOGETHER: Duration = Duration::from_secs(60);
/// So many addresses are remembered.
const MAX_ADDRESSES: usize = 256;

/// Who guessed lately.
#[derive(Debug, Default)]
pub struct Guesses {
    by: HashMap<IpAddr, Guesser>,
    /// Since when, and how many, of all of them.
    together: Option<(Instant, u32)>,
    told: Told,
}

#[derive(Debug)]
struct Guesser {
    wrong: u32,
    shut_until: Instant,
    is_told: bool,
}

impl Guesses {
    /// Whether nothing of that address is looked at now.
    pub fn shut_out(&self, address: IpAddr, now: Instant) -> bool {
        self.by.get(&home_of(address)).is_some_and(|guesser| now < guesser.shut_until)
    }

    /// The right token came from there: whoever else guesses there shares the address with one of ours.
    pub fn right(&mut self, address: IpAddr) {
        if let Some(guesser) = self.by.get_mut(&home_of(address)) {
            guesser.wrong /= 2;
        }
    }

    /// A wrong token came. `Some`: the log should hear that the address is shut out, and that so many others were since
    /// it heard so. It does of each address once, until that is forgotten.
    pub fn wrong(&mut self, address: IpAddr, now: Instant) -> Option<u64> {
        let home = home_of(address);
        let free = if self.count(now) > FREE_TOGETHER { 0 } else { FREE };
        self.make_room_for(home, now);
        let unknown = Guesser { wrong: 0, shut_until: now, is_told: false };
        let guesser = self.by.entry(home).or_insert(unknown);
        guesser.wrong = guesser.wrong.saturating_add(1);
        let pauses_before = guesser.wrong.checked_sub(free + 1)?;
        guesser.shut_until = now + pause_after(pauses_before);
        if std::mem::replace(&mut guesser.is_told, true) {
            return None;
        }
        self.told.again(now)
    }

    /// How many were wrong lately, with this one.
    fn count(&mut self, now: Instant) -> u32 {
        let (since, wrong) =
            self.together.filter(|(since, _)| now.duration_since(*since) < TOGETHER).unwrap_or((now, 0));
        let wrong = wrong.saturating_add(1);
        self.together = Some((since, wrong));
        wrong
    }

    fn make_room_for(&mut self, home: IpAddr, now: Instant) {
        self.by.retain(|_, guesser| now < guesser.shut_until + FORGOTTEN_AFTER);
        if self.by.len() < MAX_ADDRESSES || self.by.contains_key(&home) {
            return;
        }
        let oldest = self.by.iter().min_by_key(|(_, guesser)| guesser.shut_until).map(|(home, _)| *home);
        oldest.and_then(|oldest| self.by.remove(&oldest));
    }
}

fn pause_after(pauses_before: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(pauses_before)).min(LONGEST_PAUSE)
}

/// Whoever has one address of IPv6 has 2^64 of them.
fn home_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_goes_on_guessing_waits_longer_each_time_and_never_more_than_a_minute() {
        let (mut guesses, mut now) = (Guesses::default(), Instant::now());
        for _ in 0..FREE {
            assert_eq!(guesses.wrong(address(1), now), None);
            assert!(!guesses.shut_out(address(1), now));
        }
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            guesses.wrong(address(1), now);
            now += SECOND * pause;
            assert!(guesses.shut_out(address(1), now - SECOND / 2) && !guesses.shut_out(address(1), now));
            assert!(!guesses.shut_out(address(2), now - SECOND / 2), "others are listened to");
        }
    }

    /// Two containers behind one address, and one has an old token.
    #[test]
    fn right_tokens_shorten_the_pause_that_wrong_ones_of_the_same_address_make() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..FREE {
            guesses.wrong(address(1), now);
        }
        guesses.right(address(1));
        for _ in 0..FREE / 2 {
            guesses.wrong(address(1), now);
            assert!(!guesses.shut_out(address(1), now));
        }
    }

    #[test]
    fn it_is_told_once_in_a_burst_and_again_after_ten_minutes_of_peace() {
        let (mut guesses, mut now) = (Guesses::default(), Instant::now());
        let mut told = |peace| {
            now += peace;
            let guess = |_| {
                now += LONGEST_PAUSE;
                guesses.wrong(address(1), now)
            };
            (0..20).filter_map(guess).count()
        };
        let peace = LONGEST_PAUSE + FORGOTTEN_AFTER;
        assert_eq!([told(Duration::ZERO), told(Duration::ZERO), told(peace)], [1, 0, 1]);
    }

    #[test]
    fn many_addresses_have_no_guess_free_take_no_more_room_and_fill_no_log() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let many = u32::try_from(4 * MAX_ADDRESSES).unwrap();
        let told: Vec<u64> = (0..many).filter_map(|number| guesses.wrong(address(number), now)).collect();
        assert_eq!(told, [0]);
        assert_eq!(guesses.by.len(), MAX_ADDRESSES);
        assert!(guesses.shut_out(address(many - 1), now) && !guesses.shut_out(address(many), now));
        let later = now + TOGETHER - SECOND;
        assert_eq!(guesses.wrong(address(many), later), Some(u64::from(many - FREE_TOGETHER - 1)));
        guesses.wrong(address(many + 1), later + TOGETHER);
        assert!(!guesses.shut_out(address(many + 1), later + TOGETHER), "one alone may mistype");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_and_so_are_both_ways_to_write_ipv4() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let parsed = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 0..=FREE {
            guesses.wrong(parsed(&format!("fd00:0:0:1::{host:x}")), now);
            guesses.wrong(parsed("::ffff:10.0.0.1"), now);
        }
        assert!(guesses.shut_out(parsed("fd00:0:0:1:ffff::1"), now) && guesses.shut_out(address(1), now));
        assert!(!guesses.shut_out(parsed("fd00:0:0:2::1"), now));
    }
}
