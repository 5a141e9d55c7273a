//! Names from inside a container, made safe to show.
//!
//! A name becomes one component of a path that leads nowhere else, whatever bytes it has, and no
//! two names of a group become the same (docs/semantics.md, "Names"). `~` is always escaped, so a
//! number after `~` cannot collide with anything stored.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::memory::set_aside;

/// Names that a container's own directory uses.
pub const RESERVED: [&str; 5] = [
    "arrays.json",
    "views",
    "error.txt",
    "metadata.json",
    "binsparse.json",
];

/// Names that any group's directory uses.
pub const RESERVED_IN_GROUPS: [&str; 1] = ["arrays.json"];

/// Those of them that every container has, or may have.
pub const OF_EVERY_CONTAINER: [&str; 3] = ["arrays.json", "views", "error.txt"];

/// Bytes of a shown name before its number.
const MOST: usize = 200;

/// Most memory that a name takes with what it is counted by.
const NAME: u64 = 3 * MOST as u64;

/// The shown names of a group's members, in their order. `reserved`: the group is a container's
/// directory.
pub fn shown<N: AsRef<[u8]>>(stored: &[N], reserved: bool) -> Result<Vec<String>> {
    shown_beside(stored, taken(reserved))
}

/// The shown names of members of a group in which these names are taken.
pub fn shown_beside<N: AsRef<[u8]>>(stored: &[N], taken: &[&str]) -> Result<Vec<String>> {
    let room = NAME.saturating_mul(stored.len() as u64);
    set_aside(room, "cannot show names", || all_shown(stored, taken))
}

/// Names that a group's directory uses.
fn taken(reserved: bool) -> &'static [&'static str] {
    match reserved {
        true => &RESERVED,
        false => &RESERVED_IN_GROUPS,
    }
}

fn all_shown<N: AsRef<[u8]>>(stored: &[N], taken: &[&str]) -> Vec<String> {
    let mut count: HashMap<&[u8], usize> = HashMap::new();
    for name in stored {
        *count.entry(name.as_ref()).or_default() += 1;
    }
    let show = |(number, name): (usize, &N)| {
        let repeated = count.get(name.as_ref()).is_some_and(|&n| n > 1);
        show(name.as_ref(), number, repeated, taken)
    };
    stored.iter().enumerate().map(show).collect()
}

/// The shown name of member `number` of a group in which every name occurs once.
pub fn shown_as(name: &[u8], number: usize, reserved: bool) -> String {
    show(name, number, false, taken(reserved))
}

fn show(name: &[u8], number: usize, repeated: bool, taken: &[&str]) -> String {
    // No byte of it is shown as less than one, so what lies behind these cannot be.
    let escaped = escape(&name[..name.len().min(MOST + 4)]);
    let hides = taken.contains(&escaped.as_str());
    let kept = cut(&escaped);
    if name.is_empty() || repeated || hides || kept.len() < escaped.len() {
        format!("{kept}~{number}")
    } else {
        escaped
    }
}

/// What may not stand in a name, as `%XX`.
pub fn escape(name: &[u8]) -> String {
    match name {
        b"." => return "%2E".into(),
        b".." => return "%2E%2E".into(),
        _ => {}
    }
    let mut escaped = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '/' | '%' | '~' | '\0'..='\x1f' | '\x7f' => push_escape(&mut escaped, c as u8),
                c => escaped.push(c),
            }
        }
        for &byte in part.invalid() {
            push_escape(&mut escaped, byte);
        }
    }
    escaped
}

fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(DIGITS[usize::from(byte >> 4)] as char);
    out.push(DIGITS[usize::from(byte & 15)] as char);
}

/// The bytes of the name that is shown so, as far as that tells: the end of one that was cut is
/// lost.
pub fn stored(shown: &str) -> Vec<u8> {
    let kept = match shown.rsplit_once('~') {
        Some((kept, number))
            if number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() =>
        {
            kept
        }
        _ => shown,
    };
    unescaped(kept)
}

/// The bytes of a name that [`escape`] has made: one that is no name of a file is never cut, and
/// has no number.
pub fn unescaped(shown: &str) -> Vec<u8> {
    path_of(shown).into_os_string().into_vec()
}

/// A path in a file as text: names are escaped, and stay apart.
pub fn escaped_path(path: &[u8]) -> String {
    let parts = path.split(|&byte| byte == b'/');
    let shown = parts.map(|part| match part {
        b"." => ".".to_owned(),
        b".." => "..".to_owned(),
        part => escape(part),
    });
    shown.collect::<Vec<_>>().join("/")
}

/// At most [`MOST`] bytes, whole characters and escapes.
fn cut(escaped: &str) -> &str {
    if escaped.len() <= MOST {
        return escaped;
    }
    let boundary = |at: &usize| escaped.is_char_boundary(*at);
    let mut end = (0..=MOST).rev().find(boundary).unwrap_or(0);
    // An escape is three bytes; `%` stands nowhere else.
    if let Some(at) = escaped[..end].rfind('%')
        && at + 3 > end
    {
        end = at;
    }
    &escaped[..end]
}

/// A path as text that leads back to its bytes: escaped as names are (docs/semantics.md, "Names"),
/// but `~`, which no number follows here, stays.
pub fn path_text(path: &Path) -> String {
    let parts = path.as_os_str().as_bytes().split(|&b| b == b'/');
    let shown = parts.map(|part| match part {
        b"." => ".".to_owned(),
        b".." => "..".to_owned(),
        // `%` is escaped as well, so this is a `~`.
        part => escape(part).replace("%7E", "~"),
    });
    shown.collect::<Vec<_>>().join("/")
}

/// The path that such a text stands for.
pub fn path_of(text: &str) -> PathBuf {
    let (bytes, mut path, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                path.push(escaped);
                at += 3;
            }
            None => {
                path.push(byte);
                at += 1;
            }
        }
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::OsStr;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay() {
        let names = ["values", "δ x", "-rf *?", ".hidden"];
        assert_eq!(shown(&names, true).unwrap(), names);
    }

    #[test]
    fn what_could_escape_is_escaped() {
        let names: [&[u8]; 6] = [b".", b"..", b"a/b", b"100%~", b"\xffx\n", b""];
        let expected = ["%2E", "%2E%2E", "a%2Fb", "100%25%7E", "%FFx%0A", "~5"];
        assert_eq!(shown(&names, false).unwrap(), expected);
    }

    #[test]
    fn shown_names_lead_back() {
        let names: [&[u8]; 7] = [b".", b"..", b"a/b", b"100%~", b"\xffx\n", b"", b"data"];
        for (number, name) in names.iter().enumerate() {
            assert_eq!(stored(&shown_as(name, number, true)), *name);
        }
        assert_eq!(stored(&shown_as(b"arrays.json", 3, true)), b"arrays.json");
        for made in ["a~b", "a~", "50%", "%4"] {
            assert_eq!(stored(made), made.as_bytes());
        }
    }

    #[test]
    fn repeated_and_reserved_names_get_numbers() {
        assert_eq!(shown(&["a", "b", "a"], false).unwrap(), ["a~0", "b", "a~2"]);
        assert_eq!(shown(&["x", "views"], true).unwrap(), ["x", "views~1"]);
        assert_eq!(shown(&["x", "views"], false).unwrap(), ["x", "views"]);
        let of_group = shown(&["x", "arrays.json"], false).unwrap();
        assert_eq!(of_group, ["x", "arrays.json~1"]);
    }

    #[test]
    fn long_names_are_cut_at_characters_and_escapes() {
        let long = |head: usize, tail: &str| format!("{}{tail}", "a".repeat(head));
        let names = [
            long(201, ""),
            long(199, "δ"),
            long(198, "/b"),
            long(200, ""),
        ];
        let expected = [
            format!("{}~0", long(200, "")),
            format!("{}~1", long(199, "")),
            format!("{}~2", long(198, "")),
            long(200, ""),
        ];
        assert_eq!(shown(&names, false).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn what_is_escaped_comes_back_and_differs(
            one in proptest::collection::vec(any::<u8>(), 0..40),
            other in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            prop_assert_eq!(&unescaped(&escape(&one)), &one);
            prop_assert_eq!(unescaped(&escaped_path(&one)), &one[..]);
            prop_assert_eq!(escape(&one) == escape(&other), one == other);
        }

        #[test]
        fn shown_names_are_safe_and_differ(
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..20),
        ) {
            let shown = shown(&names, true).unwrap();
            let different: HashSet<&String> = shown.iter().collect();
            prop_assert_eq!(different.len(), names.len());
            for name in &shown {
                prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains('/'));
                prop_assert!(name.len() < 255 && !name.contains('\0'));
                prop_assert!(!RESERVED.contains(&name.as_str()));
            }
        }
    }

    #[test]
    fn paths_of_any_bytes_become_text_and_come_back() {
        let pairs: [(&[u8], &str); 4] = [
            (b"/data/x.blp", "/data/x.blp"),
            ("../größe/./a~".as_bytes(), "../größe/./a~"),
            (b"/a\n\xff%7E/", "/a%0A%FF%257E/"),
            (b"", ""),
        ];
        for (bytes, text) in pairs {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(path_text(path), text);
            assert_eq!(path_of(text), path);
        }
        assert_eq!(path_of("/50%/%4"), Path::new("/50%/%4"));
    }
}
