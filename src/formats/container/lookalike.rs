//! Files that are named like containers and lack what makes them one: a page that says "log in", a
//! pointer of Git LFS, a download that was cut off. They are told with what they look like, so that
//! nobody takes a directory without its data for a sound one.
//!
//! Pure but for the first bytes, which recognising has read already. Used where nothing is
//! recognised by its content, and by the formats that go by names.

use std::path::Path;

use super::{Candidate, FORMATS, Format, Layout};
use crate::error::{Fault, Result};
use crate::source::Store;

/// HDF5's signature as it is after a transfer that took it for text: line ends of Unix, of Windows,
/// and 7 bits.
const TRANSFERRED_AS_TEXT: [&[u8]; 4] = [
    b"\x89HDF\n\x1a\n",
    b"\x89HDF\r\r\n\x1a\r\n",
    b"\x89HDF\r\r\n\x1a\n",
    b"\tHDF\r\n\x1a\n",
];

const STARTS: [(&[u8], &str); 13] = [
    (
        b"version https://git-lfs.github.com/spec/",
        "it is a Git LFS pointer: 'git lfs pull' fetches the file",
    ),
    (
        b"/annex/objects/",
        "it is a git-annex pointer: 'git annex get' fetches the file",
    ),
    (
        b"\x0e\x03\x13\x01",
        "it is HDF4, another format: h4toh5 converts it",
    ),
    (b"\x1f\x8b", "it looks like gzip: unpack it (gunzip)"),
    (b"BZh", "it looks like bzip2: unpack it (bunzip2)"),
    (b"\xfd7zXZ\0", "it looks like xz: unpack it (unxz)"),
    (
        b"\x28\xb5\x2f\xfd",
        "it looks like zstd: unpack it (unzstd)",
    ),
    (b"PK\x03\x04", "it looks like a zip archive"),
    (b"%PDF-", "it looks like PDF"),
    (b"\x89HDF\r\n\x1a\n", "it looks like HDF5"),
    (b"CDF\x01", "it looks like NetCDF"),
    (b"CDF\x02", "it looks like NetCDF"),
    (b"CDF\x05", "it looks like NetCDF"),
];

/// What text may begin with, in small letters and behind white space.
const TEXT_STARTS: [(&[u8], &str); 6] = [
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<head", HTML),
    (b"<?xml", "it looks like XML"),
    (b"{", "it looks like JSON"),
    (b"<", "it looks like HTML or XML"),
];

const HTML: &str = "it looks like HTML, as of a page for an error or a login";

/// What a file looks like by its first bytes, as a sentence, if that is known.
pub(super) fn appearance(head: &[u8]) -> Option<&'static str> {
    if head.is_empty() {
        return Some("it is empty");
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start();
    let as_text = |start: &[u8]| {
        let begins = text.get(..start.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(start))
    };
    let by_text = || TEXT_STARTS.iter().find(|(start, _)| as_text(start));
    let by_bytes = STARTS.iter().find(|(start, _)| head.starts_with(start));
    if let Some((_, appearance)) = by_bytes.or_else(by_text) {
        return Some(appearance);
    }
    match head {
        _ if TRANSFERRED_AS_TEXT
            .iter()
            .any(|as_text| head.starts_with(as_text)) =>
        {
            Some(
                "it was transferred as text, which has changed bytes that look like line ends (text mode of FTP): fetch it anew in binary mode",
            )
        }
        _ if head.iter().all(|byte| *byte == 0) => {
            Some("it begins with zeros, as a download that was cut off")
        }
        _ if is_text(head) => Some("it looks like text"),
        _ => None,
    }
}

/// By which a file is seen to look like something.
pub(super) fn first_bytes(store: &dyn Store, path: &Path) -> Result<Vec<u8>> {
    let mut head = vec![0; 4096];
    let n = store.head(path, &mut head)?;
    head.truncate(n);
    Ok(head)
}

/// Printable, to the end or to where it was cut.
fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    text.chars().all(|c| !c.is_control() || c.is_whitespace())
}

/// What there is, printable, to the end or to where it was cut.
fn seen(head: &[u8]) -> String {
    let first = head.first_chunk::<8>().map_or(head, |first| first);
    appearance(head).map_or_else(
        || format!("it begins with \"{}\"", first.escape_ascii()),
        str::to_owned,
    )
}

/// A file that is no container, although it is named like one.
pub struct Lookalike {
    pub fault: Fault,
    /// It has begun as something else; else it may be one that is only being written.
    pub is_something_else: bool,
}

/// Why a candidate that no format has recognised is none, if its name promises one.
pub fn lookalike(candidate: &Candidate<'_>) -> Result<Option<Lookalike>> {
    let promised =
        !candidate.preferences.files_only && candidate.store.is_looked_into(candidate.path);
    let format = promised.then(|| promised_by_name(candidate)).flatten();
    let Some(format) = format else {
        return Ok(None);
    };
    if candidate.is_directory() {
        let what = format!(
            "named like a container and no {} store: no document in it makes it one",
            format.name(),
        );
        return Ok(Some(Lookalike {
            fault: Fault::new(what).container(&candidate.store.display(candidate.path)),
            is_something_else: false,
        }));
    }
    let head = candidate.head()?;
    let what = format!(
        "named like a container and no {} file: {}",
        format.name(),
        seen(head)
    );
    Ok(Some(Lookalike {
        fault: Fault::new(what).container(&candidate.store.display(candidate.path)),
        is_something_else: !head.is_empty() && appearance(head).is_some(),
    }))
}

fn promised_by_name(candidate: &Candidate<'_>) -> Option<&'static dyn Format> {
    // Of a store that is opened for itself its path says nothing.
    let shown = candidate.store.display(candidate.path);
    let name = shown.file_name()?.to_str()?;
    let is_named = |extension: &&'static str| {
        let stem = name.strip_suffix(*extension);
        stem.is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
    };
    // A directory is one of many things; what has directories of its own is told by its name.
    let may_be = |layout: Layout| match candidate.is_file() {
        true => layout.is_file(),
        false => candidate.is_directory() && layout.has_directories(),
    };
    let mut formats = FORMATS.iter().filter(|format| may_be(format.layout()));
    formats
        .find(|format| format.promised_by().iter().any(is_named))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_find_in_the_place_of_their_files_is_known() {
        for (head, expected) in [
            (&b""[..], "empty"),
            (b"\n <!DOCTYPE HTML PUBLIC>", "HTML"),
            (b"\xef\xbb\xbf<html><body>", "HTML"),
            (
                b"version https://git-lfs.github.com/spec/v1\noid",
                "Git LFS",
            ),
            (b"\x1f\x8b\x08\0", "gzip"),
            (b"\x89HDF\n\x1a\n\0\0", "text mode of FTP"),
            (b"\x89HDF\r\r\n\x1a\r\n\0", "text mode of FTP"),
            (b"\x0e\x03\x13\x01rest", "HDF4"),
            (b"\0\0\0\0", "zeros"),
            (b"{\"error\": 404}", "JSON"),
            ("gr\u{f6}\u{df}e,1\n2,3\n".as_bytes(), "text"),
            (b"cut in a letter: \xc3", "text"),
        ] {
            let told = appearance(head).unwrap_or("nothing");
            assert!(told.contains(expected), "{head:?}: {told}");
        }
        for head in [&b"\x01\x02\x03"[..], b"\xff\xfe\xfd text", b"a\0b"] {
            assert_eq!(appearance(head), None, "{head:?}");
        }
        assert_eq!(seen(b"\x01\x02"), "it begins with \"\\x01\\x02\"");
    }
}
