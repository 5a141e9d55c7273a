//! Stored lines to shown lines: every line ends with one LF, and the CR of Windows is dropped.
//!
//! Text is cut into parts that are converted apart; a part needs to know only the byte that follows
//! it (is its last CR at a line's end?). Pure; used by [`super`].

/// The part of a text that is converted at once.
#[derive(Clone, Copy)]
pub(super) struct TextPart<'a> {
    pub(super) stored: &'a [u8],
    /// The byte after the part; none at the end of the text.
    pub(super) next: Option<u8>,
}

/// What a part comes to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Whether the conversion changes anything.
    pub(super) changed: bool,
}

impl Measure {
    /// Adds what the part behind comes to.
    pub(super) fn add(&mut self, behind: Measure) {
        self.lines += behind.lines;
        self.bytes += behind.bytes;
        self.changed |= behind.changed;
    }
}

impl TextPart<'_> {
    /// Size and line ends of the converted part.
    pub(super) fn measure(&self) -> Measure {
        let dropped = memchr::memchr_iter(b'\r', self.stored)
            .filter(|&at| self.ends_line(at))
            .count();
        let ends = memchr::memchr_iter(b'\n', self.stored).count() as u64;
        let added = u64::from(self.unfinished());
        Measure {
            lines: ends + added,
            bytes: (self.stored.len() - dropped) as u64 + added,
            changed: dropped > 0 || added > 0,
        }
    }

    /// Fills `out`, which is as long as [`TextPart::measure`] says, with the converted part.
    pub(super) fn convert(&self, out: &mut [u8]) {
        let (mut from, mut to) = (0, 0);
        let dropped = memchr::memchr_iter(b'\r', self.stored).filter(|&at| self.ends_line(at));
        for end in dropped.chain([self.stored.len()]) {
            let kept = &self.stored[from..end];
            out[to..to + kept.len()].copy_from_slice(kept);
            (from, to) = (end + 1, to + kept.len());
        }
        if self.unfinished() {
            out[to] = b'\n';
        }
    }

    /// Whether the CR at `at` is the last byte of its line.
    fn ends_line(&self, at: usize) -> bool {
        matches!(
            self.stored.get(at + 1).copied().or(self.next),
            Some(b'\n') | None
        )
    }

    /// Whether the text ends here without a line end.
    fn unfinished(&self) -> bool {
        self.next.is_none() && self.stored.last().is_some_and(|&last| last != b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: split at LF, drop one CR of each line, end each with LF.
    fn naive(stored: &[u8]) -> Vec<u8> {
        let mut lines: Vec<&[u8]> = stored.split(|&b| b == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        let line = |line: &&[u8]| [line.strip_suffix(b"\r").unwrap_or(line), b"\n"].concat();
        lines.iter().flat_map(line).collect()
    }

    proptest! {
        #[test]
        fn parts_together_are_the_definition(
            text in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a')], 0..60),
            size in 1usize..20,
        ) {
            let (mut out, mut all) = (Vec::new(), Measure::default());
            for (number, stored) in text.chunks(size).enumerate() {
                let part = TextPart { stored, next: text.get(number * size + stored.len()).copied() };
                let (before, measure) = (out.len(), part.measure());
                out.resize(before + measure.bytes as usize, b'?');
                part.convert(&mut out[before..]);
                all.add(measure);
            }
            let expected = naive(&text);
            prop_assert_eq!(all.lines as usize, expected.iter().filter(|&&b| b == b'\n').count());
            prop_assert_eq!(all.changed, expected != text);
            prop_assert_eq!(out, expected);
        }
    }
}
