//! Where a name stands in every listing of its directory.
//!
//! A directory is read in steps, without a handle: the kernel says after which name the last step
//! ended, and the directory may have changed since. So names are listed in the order of a hash of
//! theirs, whatever the order of the storage: a name stands in the same place as long as it exists,
//! and a step that goes on after some place neither misses nor repeats one. File systems with
//! hashed directories do the same.
//!
//! Names of equal hash (two of a million: once in a million directories) are told apart by a number
//! in the order of the names; only these could change places. Used by `entry_table`, and by
//! `tree::listing` for directories of the source.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A place in a listing; what the kernel calls an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

/// Of names of one hash.
const NUMBER_BITS: u32 = 4;
/// Offsets are positive numbers of 64 bits, and some are the kernel module's own.
const HASH_BITS: u32 = 58;

impl Cookie {
    /// Before every name. Places up to [`Cookie::RESERVED`] are never a name's.
    pub const START: Cookie = Cookie(0);
    pub const RESERVED: Cookie = Cookie((1 << NUMBER_BITS) - 1);
    /// After every name.
    pub const END: Cookie = Cookie(1 << (HASH_BITS + NUMBER_BITS));

    pub(crate) fn hash(self) -> NameHash {
        NameHash(self.0 >> NUMBER_BITS)
    }
}

/// What names are ordered by, before they themselves are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub(crate) fn of(name: &OsStr) -> NameHash {
        let mut hasher = DefaultHasher::new();
        name.as_encoded_bytes().hash(&mut hasher);
        let hash = hasher.finish() >> (u64::BITS - HASH_BITS);
        NameHash(hash.max(1))
    }
}

/// Cookies of names in the order of their hashes, then of their own.
#[derive(Default)]
pub(crate) struct Numbering {
    last: Option<NameHash>,
    number: u64,
}

impl Numbering {
    pub(crate) fn next(&mut self, hash: NameHash) -> Cookie {
        self.number = match self.last.replace(hash) {
            // More than the number can say share the last place.
            Some(last) if last == hash => (self.number + 1).min(Cookie::RESERVED.0),
            _ => 0,
        };
        Cookie(hash.0 << NUMBER_BITS | self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_always_stands_in_the_same_place() {
        let place = |name: &str| NameHash::of(OsStr::new(name));
        assert_eq!(place("val"), place("val"));
        assert_ne!(place("val"), place("idx"));
        for name in ["", "a", "val", "größe"] {
            let cookie = Numbering::default().next(place(name));
            assert!(Cookie::RESERVED < cookie && cookie < Cookie::END);
            assert_eq!(cookie.hash(), place(name));
        }
    }

    #[test]
    fn names_of_one_hash_are_numbered() {
        let mut numbering = Numbering::default();
        let places = [3, 3, 3, 4, 4, 9].map(|hash| numbering.next(NameHash(hash)).0);
        assert_eq!(places, [48, 49, 50, 64, 65, 144]);
        let crowd = (0..20).map(|_| numbering.next(NameHash(10)));
        assert!(
            crowd
                .into_iter()
                .all(|cookie| cookie.hash() == NameHash(10))
        );
        assert!(numbering.next(NameHash(u64::MAX >> 6)) < Cookie::END);
    }
}
