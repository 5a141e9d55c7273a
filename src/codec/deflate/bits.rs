//! Bits that are appended to bytes, the lowest first. Used by [`super`].

/// The caller sees to it that there is room: what does not fit is lost.
pub(super) struct BitWriter<'a> {
    out: &'a mut [u8],
    /// Bytes that are written.
    at: usize,
    /// Bits that are not, fewer than 8 after [`BitWriter::flush`].
    waiting: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> BitWriter<'a> {
        BitWriter {
            out,
            at: 0,
            waiting: 0,
            count: 0,
        }
    }

    /// Whether so many bits more can be written.
    pub(super) fn has_room(&self, bits: u64) -> bool {
        let room = (self.out.len() - self.at) as u64 * 8;
        u64::from(self.count).saturating_add(bits) <= room
    }

    /// Whether so many bits more can be written, and so many bytes where the next one begins.
    pub(super) fn has_room_for_bytes(&self, bits: u32, bytes: usize) -> bool {
        let bits = (self.count + bits).div_ceil(8) as usize;
        bits + bytes <= self.out.len() - self.at
    }

    /// Appends bits; at most 56 between two calls of [`BitWriter::flush`].
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        self.waiting |= bits << self.count;
        self.count += count;
    }

    /// Writes whole bytes.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        let whole = (self.count / 8) as usize;
        let bytes = self.waiting.to_le_bytes();
        match self.out.get_mut(self.at..self.at + 8) {
            Some(room) => room.copy_from_slice(&bytes),
            None => {
                let rest = self.out.get_mut(self.at..).unwrap_or_default();
                let room = rest.iter_mut().take(whole);
                room.zip(bytes).for_each(|(room, byte)| *room = byte);
            }
        }
        self.at = (self.at + whole).min(self.out.len());
        // Of 64 bits none are left, and a shift by as many is not one.
        self.waiting = self.waiting.checked_shr(self.count & !7).unwrap_or(0);
        self.count &= 7;
    }

    /// Goes on with the next byte.
    pub(super) fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    /// Appends bytes where one begins.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.out.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    /// How many bytes there are, the last one filled up.
    pub(super) fn finish(mut self) -> usize {
        self.align();
        self.at
    }
}
