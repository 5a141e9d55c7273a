//! Targets of fuzzers: containers out of any bytes, and the texts that describe them. Used by
//! `fuzzing`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::creation::{Creation, GivenDescription};
use super::{FORMATS, names, walked};
use crate::array::dtype::literal::Literal;
use crate::array::dtype::{Dtype, descr_of_name};
use crate::fuzz_input::{FuzzInput, no_bug};
use crate::source::Store;
use crate::source::memory::MemoryStore;

/// Arrays that are longer are not read, but checked as far as there is something stored.
const LONGEST: u64 = 256 << 10;

/// A container that is a file of these bytes.
pub fn one_file(name: &str, data: &[u8]) {
    let mut store = MemoryStore::new(Path::new(""));
    store.put(Path::new(name), data.to_vec());
    walk(store, name);
}

/// A container of several files, each of which is the end of its path (up to a zero), a length of
/// three bytes and so many bytes. `name` with an end that begins with a point is a file beside the
/// container, with any other one in it; without an end it is the container.
pub fn several(name: &str, data: &[u8]) {
    let mut store = MemoryStore::new(Path::new(""));
    let mut input = FuzzInput(data);
    for _ in 0..100 {
        if input.is_empty() {
            break;
        }
        let end = input.name();
        let len = input.number::<3>() as usize;
        let path = match end {
            [] | [b'.', ..] => [name.as_bytes(), end].concat(),
            _ => [name.as_bytes(), b"/", end].concat(),
        };
        let path = OsStr::from_bytes(&path);
        let is_plain =
            |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        if Path::new(path).components().all(is_plain) {
            store.put(Path::new(path), input.bytes(len).to_vec());
        }
    }
    walk(store, name);
}

fn walk(store: MemoryStore, name: &str) {
    let store: Arc<dyn Store> = Arc::new(store);
    for (what, outcome) in walked::walk(&store, Path::new(name), LONGEST) {
        if let Err(crate::error::Error::Bug(why)) = outcome {
            panic!("{what}: {why}");
        }
    }
}

/// How NumPy spells types, and how we do.
pub fn literal(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(literal) = Literal::parse(text) {
        assert_eq!(Literal::parse(&literal.to_string()), Some(literal));
    }
    if let Ok(json) = serde_json::from_str(text) {
        let literal = Literal::from_json(&json);
        let again = literal
            .as_ref()
            .map(|literal| Literal::parse(&literal.to_string()));
        assert_eq!(again.flatten(), literal);
    }
    let _ = descr_of_name(text);
    let dtype = Dtype::numpy(text, data.len() as u64);
    let _ = dtype.name();
}

/// An `arrays.json` that a program writes, for every format that can be made.
pub fn description(data: &[u8]) {
    let Some(given) = no_bug(GivenDescription::parse(data)) else {
        return;
    };
    for format in FORMATS {
        if let Some(creation) = format.creation() {
            accept(creation, &given);
        }
    }
}

fn accept(creation: &dyn Creation, given: &GivenDescription) {
    no_bug(creation.accepts(given));
    for array in &given.arrays {
        let _ = (array.byte_len(), creation.has_array(&array.name));
    }
}

/// Names as they are shown: they lead back, and nowhere else.
pub fn names(data: &[u8]) {
    let escaped = names::escape(data);
    assert_eq!(names::unescaped(&escaped), data);
    let stored: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    for reserved in [false, true] {
        let Some(shown) = no_bug(names::shown(&stored, reserved)) else {
            continue;
        };
        for name in &shown {
            let is_safe = !name.is_empty() && !name.contains(['/', '\0']) && name.len() <= 255;
            assert!(is_safe && name != "." && name != "..", "{name:?}");
        }
        let mut distinct = shown.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), stored.len());
    }
    let path = Path::new(OsStr::from_bytes(data));
    assert_eq!(names::path_of(&names::path_text(path)), path);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = (names::stored(text), names::path_of(text));
    }
}
