//! Bits written from the highest of each byte down, as nbit and scale-offset store them: the way
//! back of `BitReader`.

/// Writer of fields up to 64 bits.
pub(super) struct BitPacker<'a> {
    out: &'a mut [u8],
    /// Bytes written.
    at: usize,
    /// Bits that do not make a whole byte yet, fewer than eight, the first the highest.
    cache: u64,
    count: u32,
    fits: bool,
}

impl<'a> BitPacker<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            at: 0,
            cache: 0,
            count: 0,
            fits: true,
        }
    }

    /// Writes the lowest `n` bits of a number; `n` is at most 64.
    #[inline]
    pub(super) fn put(&mut self, number: u64, n: u32) {
        if n > 32 {
            self.put_short(number >> 32, n - 32);
            self.put_short(number, 32);
        } else {
            self.put_short(number, n);
        }
    }

    #[inline]
    fn put_short(&mut self, number: u64, n: u32) {
        self.cache = self.cache << n | number & ((1 << n) - 1);
        self.count += n;
        while self.count >= 8 {
            self.count -= 8;
            self.put_byte((self.cache >> self.count) as u8);
        }
    }

    #[inline]
    fn put_byte(&mut self, byte: u8) {
        match self.out.get_mut(self.at) {
            Some(place) => *place = byte,
            None => self.fits = false,
        }
        self.at += 1;
    }

    /// Bytes written, the last one filled with zeros; none if they did not fit.
    pub(super) fn finish(mut self) -> Option<usize> {
        if self.count > 0 {
            let last = self.cache << (8 - self.count);
            self.put_byte(last as u8);
        }
        self.fits.then_some(self.at)
    }
}
