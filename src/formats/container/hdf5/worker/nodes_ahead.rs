//! What a page of a file says of further pages that the library is about to ask for.
//!
//! libhdf5 walks the trees of groups and of chunks node by node, and of a source that is far away
//! each node is a round trip. A node that has others below it names them all, so their pages are
//! asked for together. A guess that costs a request where it is wrong: what looks like a node in a
//! page may be data. Version 1 trees (HDF5 File Format Specification, III.A.1) and the nodes of
//! symbol tables below them (III.B); newer indices lie together. Used by [`super::process`].

use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memmem;

use super::wire::PAGE;

/// Pages that one page may call for.
const PAGES_MOST: usize = 256;

const HEAD: usize = 24;
const SYMBOLS_HEAD: usize = 8;
const SYMBOL: usize = 40;
/// Of a node or header below it, about as much as there is.
const BELOW: u64 = 4 << 10;
/// Axes that a chunked dataset may have.
const AXES_MOST: usize = 32;

/// The pages that nodes in this page lead to, in order and apart; `len` is the file's.
pub(super) fn pages_below(page: &[u8], len: u64) -> Vec<Range<u64>> {
    let mut pages = BTreeSet::new();
    // Structure may begin anywhere, for chunks have any length.
    let trees = memmem::find_iter(page, b"TREE").map(|at| below_tree(&page[at..], len));
    let symbols = memmem::find_iter(page, b"SNOD").map(|at| below_symbols(&page[at..]));
    for below in trees.chain(symbols) {
        for address in below.into_iter().filter(|address| *address < len) {
            let end = address.saturating_add(BELOW).min(len);
            pages.extend(address / PAGE..end.div_ceil(PAGE));
        }
        if pages.len() >= PAGES_MOST {
            break;
        }
    }
    let ranges = pages.into_iter().take(PAGES_MOST);
    ranges
        .map(|number| number * PAGE..(number * PAGE).saturating_add(PAGE).min(len))
        .collect()
}

fn number(node: &[u8], at: usize) -> Option<u64> {
    let bytes = node.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn below_tree(node: &[u8], len: u64) -> Vec<u64> {
    let &[_, _, _, _, kind, level, low, high, ..] = node else {
        return Vec::new();
    };
    let entries = usize::from(u16::from_le_bytes([low, high]));
    match (kind, level) {
        (0, _) => children(node, entries, 8),
        // Those of the lowest level are the chunks.
        (1, 1..) => {
            let sizes = (1..=AXES_MOST).map(|axes| 8 + 8 * (axes + 1));
            let mut fitting = sizes.filter(|key| is_of_chunks(node, entries, *key, len));
            let key = fitting.next();
            key.map_or_else(Vec::new, |key| children(node, entries, key))
        }
        _ => Vec::new(),
    }
}

/// Addresses between keys of so many bytes, as far as they are in the page.
fn children(node: &[u8], entries: usize, key: usize) -> Vec<u64> {
    let places = (0..entries).map(|entry| HEAD + entry * (key + 8) + key);
    places.map_while(|at| number(node, at)).collect()
}

/// The last offset in the key of a chunk, of the bytes within an element, is 0.
fn is_of_chunks(node: &[u8], entries: usize, key: usize, len: u64) -> bool {
    let mut places = (0..entries).map(|entry| HEAD + entry * (key + 8) + key);
    let fits = |at: usize| {
        let (last, child) = (number(node, at - 8)?, number(node, at)?);
        Some(last == 0 && child > 0 && child < len)
    };
    // Those that are in the page, and one of them at least.
    let first = places.next().and_then(fits);
    first == Some(true) && !places.map_while(fits).any(|fits| !fits)
}

/// Object headers.
fn below_symbols(node: &[u8]) -> Vec<u64> {
    let symbols = match *node {
        [_, _, _, _, _, _, low, high, ..] => usize::from(u16::from_le_bytes([low, high])),
        _ => 0,
    };
    let places = (0..symbols).map(|symbol| SYMBOLS_HEAD + symbol * SYMBOL + 8);
    places.map_while(|at| number(node, at)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: u64 = 100 << 20;

    /// Where the pages begin.
    fn starts(page: &[u8]) -> Vec<u64> {
        let pages = pages_below(page, LEN);
        assert!(pages.iter().all(|range| range.end <= LEN));
        pages.iter().map(|range| range.start).collect()
    }

    fn tree(kind: u8, level: u8, axes: usize, below: &[u64]) -> Vec<u8> {
        let mut node = b"TREE".to_vec();
        node.extend([kind, level]);
        node.extend((below.len() as u16).to_le_bytes());
        node.extend([0xff; 16]);
        for (number, child) in below.iter().enumerate() {
            if kind == 1 {
                node.extend(1000u64.to_le_bytes());
                node.extend((0..axes).flat_map(|_| (number as u64 * 64 + 64).to_le_bytes()));
            }
            node.extend(0u64.to_le_bytes());
            node.extend(child.to_le_bytes());
        }
        node.extend([0; 64]);
        node
    }

    #[test]
    fn nodes_of_chunks_lead_to_those_below_but_not_to_the_chunks() {
        let below = [5 << 20, 10 << 20, (10 << 20) + 5000, 20 << 20];
        for axes in 1..=32 {
            let mut page = vec![0; 251];
            page.extend(tree(1, 1, axes, &below));
            let wanted = [5 << 20, 10 << 20, 20 << 20];
            assert_eq!(starts(&page), wanted, "{axes} axes");
            assert!(starts(&tree(1, 0, axes, &below)).is_empty());
        }
    }

    #[test]
    fn groups_lead_to_the_headers_of_their_members() {
        let wanted = [5 << 20];
        assert_eq!(starts(&tree(0, 0, 0, &[5 << 20])), wanted);
        let mut symbols = b"SNOD\x01\0\x01\0".to_vec();
        symbols.extend(8u64.to_le_bytes());
        symbols.extend((5u64 << 20).to_le_bytes());
        symbols.extend([0; 24]);
        assert_eq!(starts(&symbols), wanted);
    }

    #[test]
    fn what_lies_behind_the_end_is_asked_for_by_nobody() {
        assert!(starts(&tree(0, 1, 0, &[LEN, u64::MAX])).is_empty());
        let last = LEN - 10;
        assert_eq!(starts(&tree(0, 1, 0, &[last])), [LEN - PAGE]);
    }

    proptest! {
        #[test]
        fn pages_lie_in_the_file_whatever_a_page_says(
            mut page in prop::collection::vec(any::<u8>(), 0..2000),
            nodes in prop::collection::vec((0..250usize, any::<bool>()), 0..5),
        ) {
            for (at, is_tree) in nodes {
                if let Some(place) = page.get_mut(at * 8..at * 8 + 4) {
                    place.copy_from_slice(if is_tree { b"TREE" } else { b"SNOD" });
                }
            }
            let pages = pages_below(&page, 1 << 20);
            assert!(pages.iter().all(|range| range.end <= 1 << 20));
            assert!(pages.is_sorted_by(|a, b| a.end <= b.start));
        }
    }
}
