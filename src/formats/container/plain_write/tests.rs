//! Files of arrays in memory, changed at random, against a model that writes byte by byte.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::array::dtype::Dtype;
use crate::array::held::HeldArray;
use crate::array::{Info, Order};
use crate::source::BytesSource;

/// The file as a recipe tells it; bytes of which nothing was told are 0xaa.
struct ToldFile {
    old: Vec<u8>,
    new: Vec<u8>,
    puts: usize,
}

impl Recipe for ToldFile {
    fn copy(&mut self, _: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let bytes = self.old[from.start as usize..from.end as usize].to_vec();
        self.place(to, &bytes);
        Ok(())
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.puts += 1;
        self.place(at, bytes);
        Ok(())
    }

    fn keep_rest(&mut self, _: MemberNumber) -> Result<()> {
        self.new = self.old.clone();
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, len: u64) -> Result<()> {
        self.new.resize(len as usize, 0xaa);
        Ok(())
    }
}

impl ToldFile {
    fn place(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        if self.new.len() < end {
            self.new.resize(end, 0xaa);
        }
        self.new[at as usize..end].copy_from_slice(bytes);
    }
}

fn array(name: &str, bytes: Vec<u8>) -> Box<dyn Array> {
    let info = Info {
        dtype: Dtype::U8,
        shape: vec![bytes.len() as u64],
        order: Order::C,
        bytes: bytes.len() as u64,
        stored_bytes: 0,
        blocks: 1,
        codec: "none".into(),
    };
    Box::new(HeldArray::new(name, info, bytes))
}

fn turn(bytes: &mut [u8], size: usize) {
    bytes.chunks_mut(size).for_each(<[u8]>::reverse);
}

/// Two arrays of records beside each other, behind a head and an array in one piece.
#[derive(Debug, Clone)]
struct Case {
    head: u64,
    whole: u64,
    records: u64,
    more: u64,
    widths: [u64; 2],
    dirty: Vec<(u8, u64, u64)>,
    seed: u8,
}

fn case() -> impl Strategy<Value = Case> {
    let dirty = proptest::collection::vec((0u8..3, 0u64..100, 1u64..20), 0..5);
    let sizes = (0u64..20, 1u64..30, 0u64..20, 0u64..5);
    (sizes, 1u64..4, 1u64..4, dirty, any::<u8>()).prop_map(
        |((head, whole, records, more), one, other, dirty, seed)| Case {
            head,
            whole: whole * 4,
            records,
            more,
            widths: [one * 4, other * 4],
            dirty,
            seed,
        },
    )
}

impl Case {
    fn runs(&self, number: usize) -> Runs {
        let begin = self.head + self.whole;
        let stride = self.widths[0] + self.widths[1] + 2;
        match number {
            0 => Runs::whole(self.head),
            1 => Runs {
                begin,
                run: self.widths[0],
                stride,
            },
            _ => Runs {
                begin: begin + self.widths[0],
                run: self.widths[1],
                stride,
            },
        }
    }

    /// Bytes of an array: those that are shown, and those with what is filled.
    fn lens(&self, number: usize) -> (u64, u64) {
        match number {
            0 => (self.whole, self.whole),
            1 => {
                let all = (self.records + self.more) * self.widths[0];
                (all, all)
            }
            _ => {
                let width = self.widths[1];
                (self.records * width, (self.records + self.more) * width)
            }
        }
    }

    fn file_len(&self, records: u64) -> u64 {
        self.head + self.whole + records * (self.widths[0] + self.widths[1] + 2)
    }

    fn check(&self, way: CommitWay) {
        let mut number = self.seed;
        let mut next = || {
            number = number.wrapping_mul(31).wrapping_add(7);
            number
        };
        let old: Vec<u8> = (0..self.file_len(self.records)).map(|_| next()).collect();
        let shown: Vec<Vec<u8>> = (0..3)
            .map(|n| (0..self.lens(n).0).map(|_| next()).collect())
            .collect();
        let arrays: Vec<_> = shown
            .iter()
            .map(|bytes| array("a", bytes.clone()))
            .collect();
        let dirty = |n: usize| {
            let (len, all) = self.lens(n);
            let own = self.dirty.iter().filter(|(of, ..)| usize::from(*of) == n);
            let ranges: Vec<_> = own.map(|(_, at, len)| *at..at + len).collect();
            let stored = match n {
                0 => len,
                _ => self.records * self.widths[n - 1],
            };
            let dirty = dirty_bytes(&ranges, (stored, len), 4);
            RangeSet::from_iter(dirty.iter().chain(std::iter::once(stored..all)))
        };
        let parts: Vec<_> = (0..3)
            .map(|n| PlainPart {
                change: None,
                shown: &*arrays[n],
                len: self.lens(n).0,
                stored: 0,
                runs: self.runs(n),
                dirty: dirty(n),
                element: 4,
                to_stored: Some(turn),
                fill: &[1, 2, 3, 4],
            })
            .collect();
        let mut expected = old.clone();
        expected.resize(self.file_len(self.records + self.more) as usize, 0);
        for (n, part) in parts.iter().enumerate() {
            for at in part.dirty.iter().flatten() {
                let turned = at - at % 4 + 3 - at % 4;
                let byte = shown[n].get(turned as usize).copied();
                let byte = byte.unwrap_or([1, 2, 3, 4][turned as usize % 4]);
                expected[part.runs.offset(at) as usize] = byte;
            }
        }
        let mut literals = Vec::new();
        if self.head > 3 {
            expected[1..3].copy_from_slice(&[9, 8]);
            literals.push((1, vec![9, 8]));
        }
        let stored: Arc<dyn Source> = Arc::new(BytesSource::new(old.clone()));
        let file = PlainFile {
            start: None,
            parts,
            literals,
            stored: &stored,
            len: expected.len() as u64,
        };
        let mut covered = ToldFile {
            old,
            new: Vec::new(),
            puts: 0,
        };
        file.tell(way, &Budget::new(64 << 20), &mut covered)
            .unwrap();
        assert_eq!(covered.new, expected);
        if self.dirty.is_empty() && self.more == 0 && self.head <= 3 {
            assert_eq!(covered.puts, 0, "nothing has changed");
        }
    }
}

proptest! {
    #[test]
    fn a_file_is_told_with_its_changes(case in case()) {
        case.check(CommitWay::Replaced);
        case.check(CommitWay::InPlace);
    }
}

/// What lies between changes that are far apart is not told.
#[test]
fn what_has_not_changed_stays() {
    let len = 64 << 20;
    let fives = array("a", vec![5; 1 << 10]);
    let stored: Arc<dyn Source> = Arc::new(BytesSource::new(vec![0; len]));
    let file = PlainFile {
        start: None,
        parts: vec![PlainPart {
            change: None,
            shown: &*fives,
            len: 1 << 10,
            stored: 0,
            runs: Runs {
                begin: 0,
                run: 1,
                stride: 1 << 16,
            },
            dirty: RangeSet::from_iter([0..3, 100..101]),
            element: 1,
            to_stored: None,
            fill: &[0],
        }],
        literals: Vec::new(),
        stored: &stored,
        len: len as u64,
    };
    let mut covered = ToldFile {
        old: vec![0; len],
        new: Vec::new(),
        puts: 0,
    };
    let budget = Budget::new(64 << 20);
    file.tell(CommitWay::InPlace, &budget, &mut covered)
        .unwrap();
    assert_eq!(covered.puts, 4);
    let changed: Vec<_> = covered
        .new
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte != 0)
        .collect();
    let at = |n: usize| n << 16;
    let places: Vec<usize> = changed.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [at(0), at(1), at(2), at(100)]);
}
