//! A name that takes no memory of its own if it is short, as most are. Used by [`super::table`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The longest that is kept in place: what fits beside its length in as much as a list would take.
const SHORT: usize = 22;

pub(super) enum ShortName {
    InPlace { len: u8, bytes: [u8; SHORT] },
    Elsewhere(Box<OsStr>),
}

impl ShortName {
    pub(super) fn new(name: &OsStr) -> ShortName {
        let from = name.as_bytes();
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..from.len()), u8::try_from(from.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(from);
                ShortName::InPlace { len, bytes }
            }
            _ => ShortName::Elsewhere(name.into()),
        }
    }

    pub(super) fn as_os_str(&self) -> &OsStr {
        match self {
            ShortName::InPlace { len, bytes } => {
                OsStr::from_bytes(bytes.get(..usize::from(*len)).unwrap_or_default())
            }
            ShortName::Elsewhere(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_come_back() {
        assert_eq!(size_of::<ShortName>(), 24);
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 255] {
            let name = "n".repeat(len);
            assert_eq!(ShortName::new(name.as_ref()).as_os_str(), name.as_str());
        }
    }
}
