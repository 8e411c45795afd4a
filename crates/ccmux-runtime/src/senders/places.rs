//! How many connections may be open: in all, and of one address, so that none can take every place.
//!
//! ```text
//! accept ─► Places::take ─► Place, given back when it is dropped
//!                        └► None: hang up
//! ```
//!
//! Knows no socket.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// At once.
pub const MAX_CONNECTIONS: usize = 128;
/// Of those, from one address.
pub const MAX_OF_ADDRESS: usize = 96;

/// Clones are the same places.
#[derive(Debug, Clone, Default)]
pub struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection's, while it lives.
#[derive(Debug)]
pub struct Place {
    of: IpAddr,
    places: Places,
}

impl Places {
    /// One for that address, if there is one.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = taken.values().sum::<usize>() < MAX_CONNECTIONS;
        let of_address = taken.get(&address).copied().unwrap_or(0);
        (has_room && of_address < MAX_OF_ADDRESS).then(|| {
            taken.insert(address, of_address + 1);
            Place { of: address, places: self.clone() }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.of) {
            Some(more @ 2..) => *more -= 1,
            _ => drop(taken.remove(&self.of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_for_others_and_none_is_lost() {
        let places = Places::default();
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let ones: Vec<Place> = std::iter::from_fn(|| places.take(one)).collect();
        let others: Vec<Place> = std::iter::from_fn(|| places.take(other)).collect();
        assert_eq!((ones.len(), others.len()), (MAX_OF_ADDRESS, MAX_CONNECTIONS - MAX_OF_ADDRESS));
        drop((ones, others));
        assert!(places.0.lock().unwrap().is_empty());
        assert!(places.take(one).is_some());
    }
}
