//! POSIX access control lists: who may do what, beyond the three classes of a mode.
//!
//! Where an entry has a list, the group bits of its mode are the list's mask, which may allow more
//! than the group has; and the list may deny users that the bits for others let in. So each list
//! also makes a mode that allows nobody more than it does, for where no list can be shown. Used by
//! [`super::local`], which reads lists, and by `live` and `tree`, which show those of containers.
//!
//! Source: linux/posix_acl_xattr.h: version 2 in 4 bytes, then entries of tag, permissions (2 bytes
//! each) and number (4 bytes), little-endian.

use std::ffi::OsStr;

/// The extended attribute that holds the list by which users are let in.
pub const ACCESS: &str = "system.posix_acl_access";

/// The one of a directory that is given to what is made in it.
pub const DEFAULT: &str = "system.posix_acl_default";

/// Longest list that is looked at: 511 entries, as many as ext4 keeps.
pub(super) const MOST: usize = 4 + 511 * 8;

const VERSION: u32 = 2;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// Whether an extended attribute is a list.
pub fn is_list(name: &OsStr) -> bool {
    name == ACCESS || name == DEFAULT
}

/// What remains of a mode that can express the rights of the owner alone.
pub(super) fn owner_only(mode: u16) -> u16 {
    mode & !0o077
}

/// Whether a list could allow less than the mode.
pub(super) fn matters(mode: u16) -> bool {
    owner_only(mode) != mode
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListedClass {
    tag: u16,
    allowed: u16,
    /// Of the user or the group, if the tag says that it has one.
    number: u32,
}

/// The list of an entry, with its mode, of which the group bits are the list's mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    mode: u16,
    classes: Vec<ListedClass>,
}

impl AccessList {
    /// None if it is not understood.
    pub(super) fn parse(mode: u16, list: &[u8]) -> Option<AccessList> {
        let (version, entries) = list.split_first_chunk::<4>()?;
        let (entries, []) = entries.as_chunks::<8>() else {
            return None;
        };
        let class = |entry: &[u8; 8]| {
            let [t, u, a, b, number @ ..] = *entry;
            ListedClass {
                tag: u16::from_le_bytes([t, u]),
                allowed: u16::from_le_bytes([a, b]),
                number: u32::from_le_bytes(number),
            }
        };
        let classes = entries.iter().map(class).collect();
        (u32::from_le_bytes(*version) == VERSION).then_some(AccessList { mode, classes })
    }

    /// The value of the extended attribute.
    pub fn value(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for class in &self.classes {
            value.extend(class.tag.to_le_bytes());
            value.extend(class.allowed.to_le_bytes());
            value.extend(class.number.to_le_bytes());
        }
        value
    }

    /// The mode that is shown beside the list.
    pub fn mode(&self) -> u16 {
        self.mode
    }

    /// The mode that allows no user more than the list does. Users and groups that it names have at
    /// most what their class has: a mode cannot name them.
    pub(super) fn without_names(&self) -> u16 {
        let all_of = |tag: u16, mask: u16| {
            let those = self.classes.iter().filter(|class| class.tag == tag);
            those.fold(0o7, |all, class| all & class.allowed & mask)
        };
        let mask = all_of(MASK, 0o7);
        // A named user is looked for before the group, and named groups before the others.
        let users = all_of(USER, mask);
        let group = all_of(GROUP_OBJ, mask) & users;
        let other = all_of(GROUP, mask) & users;
        self.mode & (!0o077 | group << 3 | other)
    }

    /// The list of what only those may use who may use both; none if a list cannot say that,
    /// because they name others.
    pub fn of_both(&self, other: &AccessList) -> Option<AccessList> {
        let names = |list: &AccessList| -> Vec<(u16, u32)> {
            let names = list.classes.iter();
            names.map(|class| (class.tag, class.number)).collect()
        };
        if names(self) != names(other) {
            return None;
        }
        let pairs = self.classes.iter().zip(&other.classes);
        let classes = pairs.map(|(one, two)| ListedClass {
            allowed: one.allowed & two.allowed,
            ..*one
        });
        Some(AccessList {
            mode: self.mode & other.mode,
            classes: classes.collect(),
        })
    }

    /// The list after the bits of each class have become others; `change` is given the bits of a
    /// mode.
    pub fn map(&self, change: impl Fn(u16) -> u16) -> AccessList {
        let classes = self.classes.iter().map(|class| ListedClass {
            allowed: change(class.allowed) & 0o7,
            ..*class
        });
        AccessList {
            mode: change(self.mode),
            classes: classes.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER_OBJ: u16 = 0x01;
    const OTHER: u16 = 0x20;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |(tag, allowed): &(u16, u16)| {
            [&tag.to_le_bytes()[..], &allowed.to_le_bytes(), &[0xff; 4]].concat()
        };
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        [&VERSION.to_le_bytes()[..], &entries].concat()
    }

    /// The mode that the kernel makes of a list has the mask as its group bits.
    fn of_mode(mode: u16, named: &[(u16, u16)]) -> AccessList {
        let rest = [
            (USER_OBJ, mode >> 6 & 7),
            (MASK, mode >> 3 & 7),
            (OTHER, mode & 7),
        ];
        let value = list(&[&rest[..1], named, &rest[1..]].concat());
        let parsed = AccessList::parse(mode, &value).unwrap();
        assert_eq!(parsed.value(), value);
        parsed
    }

    fn shown(mode: u16, named: &[(u16, u16)]) -> u16 {
        of_mode(mode, named).without_names()
    }

    #[test]
    fn the_group_has_what_the_list_gives_it() {
        assert_eq!(shown(0o660, &[(USER, 6), (GROUP_OBJ, 0)]), 0o600);
        assert_eq!(shown(0o664, &[(USER, 6), (GROUP_OBJ, 4)]), 0o644);
        assert_eq!(
            shown(0o640, &[(USER, 6), (GROUP_OBJ, 6)]),
            0o640,
            "the mask bounds it"
        );
        assert_eq!(shown(0o2775, &[(GROUP, 7), (GROUP_OBJ, 5)]), 0o2755);
    }

    #[test]
    fn who_is_denied_by_name_is_not_let_in_with_the_others() {
        assert_eq!(shown(0o664, &[(USER, 0), (GROUP_OBJ, 4)]), 0o600);
        assert_eq!(shown(0o664, &[(GROUP_OBJ, 4), (GROUP, 0)]), 0o640);
        assert_eq!(
            shown(0o604, &[(USER, 7), (GROUP_OBJ, 4)]),
            0o600,
            "by the mask"
        );
    }

    #[test]
    fn a_list_without_names_is_the_mode() {
        let plain = list(&[(USER_OBJ, 6), (GROUP_OBJ, 4), (OTHER, 4)]);
        let plain = AccessList::parse(0o644, &plain).unwrap();
        assert_eq!(plain.without_names(), 0o644);
    }

    #[test]
    fn a_list_that_is_not_understood_is_none() {
        for unknown in [&b""[..], b"\x02\0", b"\x03\0\0\0", b"\x02\0\0\0\x01\0"] {
            assert_eq!(AccessList::parse(0o4777, unknown), None);
        }
    }

    #[test]
    fn two_lists_are_one_if_they_name_the_same() {
        let one = of_mode(0o664, &[(USER, 6), (GROUP_OBJ, 4)]);
        let two = of_mode(0o640, &[(USER, 4), (GROUP_OBJ, 4)]);
        let both = of_mode(0o640, &[(USER, 4), (GROUP_OBJ, 4)]);
        assert_eq!(one.of_both(&two), Some(both));
        assert_eq!(one.of_both(&of_mode(0o664, &[(GROUP_OBJ, 4)])), None);
    }

    #[test]
    fn rights_change_in_every_class() {
        let list = of_mode(0o750, &[(USER, 7), (GROUP_OBJ, 5)]);
        let without = of_mode(0o440, &[(USER, 4), (GROUP_OBJ, 4)]);
        assert_eq!(list.map(|mode| mode & 0o444), without);
    }
}
