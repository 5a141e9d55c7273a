//! Collections put together by hand, sound and broken.

use super::*;
use crate::source::BytesSource;
use proptest::prelude::*;

/// A collection of these objects, with 8-byte lengths.
pub(crate) fn collection(objects: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, data) in objects {
        body.extend_from_slice(&index.to_le_bytes());
        body.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&(data.len() as u64).to_le_bytes());
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let free = 4096usize.saturating_sub(16 + body.len());
    if free >= 16 {
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&(free as u64).to_le_bytes());
    }
    body.resize(body.len().max(4080), 0);
    let size = 16 + body.len() as u64;
    [b"GCOL\x01\0\0\0", &size.to_le_bytes()[..], &body].concat()
}

/// A heap whose file begins with 8 other bytes.
fn heap(bytes: &[u8]) -> Heap {
    Heap {
        source: Arc::new(BytesSource::new([b"whatever", bytes].concat())),
        base: 0,
        offset_size: 8,
        length_size: 8,
        moved: ImagedParts::default(),
    }
}

pub(super) fn copy(heap: &Heap, collection: u64, index: u32, out: &mut [u8]) -> Result<()> {
    let mut wanted = [[collection, u64::from(index), 0, out.len() as u64]];
    heap.copy(&mut wanted, out, &mut vec![0; heap.window() as usize])
}

fn object(heap: &Heap, index: u32, len: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; len];
    copy(heap, 8, index, &mut out)?;
    Ok(out)
}

fn fault(heap: &Heap, index: u32, len: usize) -> String {
    object(heap, index, len).unwrap_err().to_string()
}

#[test]
fn objects_are_found_by_number() {
    let heap = heap(&collection(&[
        (3, b"three"),
        (1, b""),
        (700, b"seven hundred"),
    ]));
    assert_eq!(object(&heap, 3, 5).unwrap(), b"three");
    assert_eq!(object(&heap, 3, 2).unwrap(), b"th");
    assert_eq!(object(&heap, 700, 13).unwrap(), b"seven hundred");
    assert_eq!(object(&heap, 1, 0).unwrap(), b"");
    assert!(fault(&heap, 2, 0).contains("no such object"));
    assert!(fault(&heap, 0, 0).contains("no such object"));
    assert!(fault(&heap, 3, 6).contains("longer than its object"));
}

#[test]
fn large_collections_are_read_in_parts() {
    let large = vec![7; WHOLE as usize];
    let heap = heap(&collection(&[(1, b"one"), (2, &large), (3, b"three")]));
    assert_eq!(heap.window(), WHOLE);
    assert_eq!(object(&heap, 1, 3).unwrap(), b"one");
    assert_eq!(object(&heap, 2, large.len()).unwrap(), large);
    assert_eq!(object(&heap, 3, 5).unwrap(), b"three");
}

#[test]
fn broken_collections_are_faults() {
    let good = collection(&[(1, b"one"), (2, b"two")]);
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fault(&heap(&bytes), 1, 3)
    };
    assert!(broken(&|b| b[0] = b'g').contains("no collection"));
    assert!(broken(&|b| b[4] = 2).contains("no collection"));
    assert!(broken(&|b| b[8..16].fill(0xff)).contains("size of a collection"));
    assert!(broken(&|b| b[8..16].fill(0)).contains("size of a collection"));
    assert!(broken(&|b| b.truncate(4000)).contains("size of a collection"));
    assert!(broken(&|b| b.truncate(10)).contains("beyond the end"));
    assert!(broken(&|b| b[24..32].fill(0xff)).contains("outside of its collection"));
    // The free space.
    assert!(broken(&|b| b[72..80].fill(0xff)).contains("outside of its collection"));
    assert!(broken(&|b| b[40] = 1).contains("an object twice"));
}

#[test]
fn addresses_beyond_the_file_are_faults() {
    let heap = heap(&collection(&[]));
    for at in [5000, u64::MAX - 3, u64::MAX] {
        assert!(copy(&heap, at, 1, &mut []).is_err());
    }
}

#[test]
fn elements_without_an_address_are_empty() {
    let mut heap = heap(&[]);
    heap.base = 512;
    let element = |address: u64| {
        let parts = [
            &7u32.to_le_bytes()[..],
            &address.to_le_bytes(),
            &9u32.to_le_bytes(),
        ];
        heap.reference(&parts.concat())
    };
    assert_eq!(element(0), Reference::default());
    assert_eq!(element(u64::MAX), Reference::default());
    let found = Reference {
        length: 7,
        collection: 512 + 40,
        object: 9,
    };
    assert_eq!(element(40), found);
}

#[test]
fn small_addresses_make_small_elements() {
    let mut heap = heap(&[]);
    heap.offset_size = 4;
    assert_eq!(heap.element_size(), 12);
    let element = [3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0];
    assert_eq!(heap.reference(&element), Reference::default());
}

proptest! {
    #[test]
    fn changed_bytes_never_panic(at in 0usize..200, byte: u8, index in 0u32..5) {
        let mut bytes = collection(&[(1, b"one"), (2, b"two and more"), (4, b"")]);
        bytes[at] = byte;
        let _ = object(&heap(&bytes), index, 3);
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bytes.splice(0..0, *b"GCOL\x01\0\0\0");
        let _ = object(&heap(&bytes), 1, 3);
    }
}
