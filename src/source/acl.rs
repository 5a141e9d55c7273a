//! POSIX access control lists, as far as mode bits can express them.
//!
//! The mount shows modes and no lists. Where a list exists, the group bits of a mode are the list's
//! mask, which may allow more than the group has; and the list may deny users that the bits for
//! others let in. Used by [`super::local`] when other users than that of this process are served.
//!
//! Source: linux/posix_acl_xattr.h: version 2 in 4 bytes, then entries of tag, permissions (2 bytes
//! each) and number (4 bytes), little-endian.

/// The extended attribute that holds the list.
pub(super) const NAME: &str = "system.posix_acl_access";

/// Longest list that is looked at: 511 entries, as many as ext4 keeps.
pub(super) const MOST: usize = 4 + 511 * 8;

const VERSION: u32 = 2;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// What remains of a mode that can express the rights of the owner alone.
pub(super) fn owner_only(mode: u16) -> u16 {
    mode & !0o077
}

/// Whether a list could allow less than the mode.
pub(super) fn matters(mode: u16) -> bool {
    owner_only(mode) != mode
}

/// The mode that allows no user more than the list does. Users and groups that it names have at
/// most what their class has: a mode cannot name them.
pub(super) fn restrict(mode: u16, list: &[u8]) -> u16 {
    let Some((version, entries)) = list.split_first_chunk::<4>() else {
        return owner_only(mode);
    };
    if u32::from_le_bytes(*version) != VERSION {
        return owner_only(mode);
    }
    let entries = entries.as_chunks::<8>().0.iter();
    let entries = entries.map(|e| {
        (
            u16::from_le_bytes([e[0], e[1]]),
            u16::from_le_bytes([e[2], e[3]]),
        )
    });
    let all_of = |tag: u16, mask: u16| {
        let those = entries.clone().filter(|entry| entry.0 == tag);
        those.fold(0o7, |all, entry| all & entry.1 & mask)
    };
    let mask = all_of(MASK, 0o7);
    // A named user is looked for before the group, and named groups before the others.
    let users = all_of(USER, mask);
    let group = all_of(GROUP_OBJ, mask) & users;
    let other = all_of(GROUP, mask) & users;
    mode & (!0o077 | group << 3 | other)
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
    fn shown(mode: u16, named: &[(u16, u16)]) -> u16 {
        let rest = [
            (USER_OBJ, mode >> 6 & 7),
            (MASK, mode >> 3 & 7),
            (OTHER, mode & 7),
        ];
        restrict(mode, &list(&[&rest[..1], named, &rest[1..]].concat()))
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
        assert_eq!(restrict(0o644, &plain), 0o644);
    }

    #[test]
    fn a_list_that_is_not_understood_leaves_the_owner() {
        for unknown in [&b""[..], b"\x02\0", b"\x03\0\0\0"] {
            assert_eq!(restrict(0o4777, unknown), 0o4700);
        }
    }
}
