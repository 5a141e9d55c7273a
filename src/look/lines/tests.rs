//! Lines and values of text, from the front, from the back, and where values have lines of their
//! own.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::cache::{ArrayIndex, BlockCache, VersionId};

/// Texts, whose lengths are known or not.
struct Texts {
    bytes: Vec<u8>,
    lengths: Vec<u64>,
}

impl Array for Texts {
    fn name(&self) -> &str {
        "texts"
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![4],
            order: Order::C,
            bytes: self.bytes.len() as u64,
            stored_bytes: 0,
            blocks: 0,
            codec: "none".into(),
        })
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        self.lengths.iter().try_for_each(|len| visit(*len))?;
        Ok(!self.lengths.is_empty())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range, out);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let at = at as usize;
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }
}

fn texts(bytes: &[u8], lengths: &[u64]) -> CachedArray {
    CachedArray {
        array: Arc::new(Texts {
            bytes: bytes.to_vec(),
            lengths: lengths.to_vec(),
        }),
        cache: BlockCache::new(1 << 20),
        version: VersionId(0),
        index: ArrayIndex(0),
        container: PathBuf::new(),
        group: Arc::from(""),
        prefix: Arc::from([]),
        bytes: bytes.len() as u64,
        is_far: false,
    }
}

fn walked(array: &CachedArray) -> Vec<(u64, String, u64)> {
    let mut all = Vec::new();
    each_text(array, &mut |number, text, len| {
        all.push((number, String::from_utf8_lossy(text).into_owned(), len));
        true
    })
    .unwrap();
    all
}

#[test]
fn values_have_line_feeds_of_their_own() {
    let array = texts(b"a\nb\nc\nd\n\ne\nf\n", &[3, 1, 4, 1]);
    let values = ["a\nb", "c", "d\n\ne", "f"];
    let expected = values.iter().zip(0u64..);
    let expected: Vec<_> = expected
        .map(|(text, n)| (n, (*text).to_owned(), text.len() as u64))
        .collect();
    assert_eq!(walked(&array), expected);
    let found = texts_at(&array, 4, &[3, 0, 2, 3, 9]).unwrap();
    assert_eq!(found, [&b"f"[..], b"a\nb", b"d\n\ne", b"f", b""]);
    let mut seen = 0;
    each_text(&array, &mut |number, _, _| {
        seen += 1;
        number < 1
    })
    .unwrap();
    assert_eq!(seen, 2);
    // Lengths that the text does not have.
    assert!(each_text(&texts(b"a\n", &[9]), &mut |_, _, _| true).is_err());
}

#[test]
fn values_are_lines_and_long_ones_are_cut() {
    let array = texts(b"a\n\nccc\nd", &[]);
    let lens: Vec<u64> = walked(&array).iter().map(|(_, _, len)| *len).collect();
    assert_eq!(lens, [1, 0, 3, 1]);
    let found = texts_at(&array, 4, &[3, 0]).unwrap();
    assert_eq!(found, [b"d", b"a"]);
    let long = [vec![b'x'; STEP + 9], b"\ny\n".to_vec()].concat();
    let array = texts(&long, &[STEP as u64 + 9, 1]);
    let walked = walked(&array);
    assert_eq!((walked[0].1.len(), walked[0].2), (KEPT, STEP as u64 + 9));
    assert_eq!(walked[1].1, "y");
}
