//! Random operations, most of them on what is there.

use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, RenameFlags, XattrFlags};

use super::operation::{Noise, Operation, SLOTS, Slot, Times};
use crate::harness::seeded::Seeded;
use crate::harness::snapshot::Snapshot;

pub struct Generator {
    random: Seeded,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const DEEPEST: usize = 3;
/// More than some pages, so that holes and ends fall within and between them.
const LONGEST: usize = 24 << 10;
const XATTRS: [&str; 3] = ["user.one", "user.two", "user.three"];

impl Generator {
    pub fn new(seed: u64) -> Self {
        Generator {
            random: Seeded::new(seed),
        }
    }

    /// One in so many.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.random.below(n) == 0
    }

    pub fn operation(&mut self, now: &Snapshot) -> Operation {
        match self.random.below(3) {
            0 => self.on_names(now),
            1 => self.on_attributes(now),
            _ => self.on_content(now),
        }
    }

    /// Such as somebody else does in the source: without handles.
    pub fn foreign(&mut self, now: &Snapshot) -> Operation {
        match self.random.below(4) {
            0 => Operation::Truncate(self.file(now), self.place()),
            1 => Operation::ChangeMode(self.path(now), self.mode()),
            _ => self.on_names(now),
        }
    }

    fn on_names(&mut self, now: &Snapshot) -> Operation {
        let (path, other) = (self.path(now), self.path(now));
        match self.random.below(14) {
            0..3 => Operation::MakeDirectory(self.fresh(now), self.mode()),
            3 => Operation::RemoveDirectory(path),
            4 => Operation::Unlink(path),
            5 | 6 => Operation::Link(self.file(now), self.fresh(now)),
            7 => Operation::Symlink(self.target(now), self.fresh(now)),
            8 => Operation::Rename(path, other, RenameFlags::EXCHANGE),
            9 => Operation::Rename(path, other, RenameFlags::NOREPLACE),
            10 => Operation::Rename(self.file(now), self.file(now), RenameFlags::empty()),
            11 | 12 => Operation::Rename(path, self.fresh(now), self.rename_flags()),
            _ => Operation::List(path),
        }
    }

    fn on_attributes(&mut self, now: &Snapshot) -> Operation {
        let (path, slot) = (self.path(now), self.slot());
        match self.random.below(12) {
            0 | 1 => Operation::ChangeMode(path, self.mode()),
            2 | 3 => Operation::SetTimes(path, self.times()),
            4 | 5 => Operation::SetXattr(
                self.file(now),
                self.xattr(),
                self.noise(200),
                self.xattr_flags(),
            ),
            6 => Operation::RemoveXattr(self.file(now), self.xattr()),
            7 => Operation::Stat(slot),
            8 => Operation::ChangeModeOfOpen(slot, 0o600 | self.random.below(0o10000) as u32),
            9 => Operation::TimesOfOpen(slot, self.times()),
            10 => Operation::ReadLink(path),
            _ => Operation::SyncDirectory(path),
        }
    }

    fn on_content(&mut self, now: &Snapshot) -> Operation {
        let (slot, at) = (self.slot(), self.place());
        match self.random.below(24) {
            0..3 => Operation::Open(self.file(now), self.open_flags(), self.permissions(), slot),
            3 | 4 => {
                let flags = self.open_flags() | OFlags::CREATE;
                Operation::Open(self.fresh(now), flags, self.permissions(), slot)
            }
            5 => Operation::Close(slot),
            6..9 => Operation::Read(slot, at, self.random.below(LONGEST)),
            9..12 => Operation::Write(slot, at, self.noise(LONGEST / 2)),
            12..14 => Operation::WriteOn(slot, self.noise(5000)),
            14 => Operation::SeekEnd(slot),
            15..17 => Operation::MapWrite(slot, at & !4095, self.noise(9000)),
            17 => Operation::SetLength(slot, at),
            18 => Operation::Truncate(self.file(now), at),
            19 | 20 => {
                let len = 1 + self.random.below(LONGEST / 2) as u64;
                Operation::Allocate(slot, self.allocation(), at, len)
            }
            21 => Operation::Copy(slot, at, self.slot(), self.place(), self.random.below(9000)),
            22 => Operation::Sync(slot, self.one_in(2)),
            _ => Operation::Stat(slot),
        }
    }

    fn slot(&mut self) -> Slot {
        self.random.below(SLOTS)
    }

    fn place(&mut self) -> u64 {
        self.random.below(LONGEST) as u64
    }

    fn noise(&mut self, longest: usize) -> Noise {
        Noise {
            seed: self.random.next(),
            len: self.random.below(longest),
        }
    }

    /// One that is there, mostly.
    fn path(&mut self, now: &Snapshot) -> PathBuf {
        let there: Vec<&Path> = now.paths().filter(|path| *path != Path::new("")).collect();
        if there.is_empty() || self.one_in(6) {
            return self.fresh(now);
        }
        there[self.random.below(there.len())].to_owned()
    }

    /// One that may be there or not; its directory is there, mostly.
    fn fresh(&mut self, now: &Snapshot) -> PathBuf {
        let is_above = |path: &&Path| path.components().count() < DEEPEST && now.is_directory(path);
        let directories: Vec<&Path> = now.paths().filter(is_above).collect();
        let name = NAMES[self.random.below(NAMES.len())];
        match self.one_in(10) {
            true => Path::new(NAMES[self.random.below(NAMES.len())]).join(name),
            false => directories[self.random.below(directories.len())].join(name),
        }
    }

    /// A regular file, if there is one.
    fn file(&mut self, now: &Snapshot) -> PathBuf {
        let files: Vec<&Path> = now.paths().filter(|path| now.is_file(path)).collect();
        if files.is_empty() || self.one_in(6) {
            return self.path(now);
        }
        files[self.random.below(files.len())].to_owned()
    }

    /// Of a symbolic link: seen from its directory, often one that leads nowhere.
    fn target(&mut self, now: &Snapshot) -> PathBuf {
        let path = self.path(now);
        let name = path.file_name().unwrap_or_default();
        PathBuf::from(name)
    }

    fn permissions(&mut self) -> u32 {
        0o600 | self.random.below(0o1000) as u32
    }

    /// Any, but that the owner may do everything: a user other than root could not look otherwise.
    fn mode(&mut self) -> u32 {
        0o700 | self.random.below(0o10000) as u32
    }

    fn open_flags(&mut self) -> OFlags {
        let access = match self.random.below(6) {
            0 => OFlags::RDONLY,
            1 => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        let mut flags = access;
        for (flag, one_in) in [
            (OFlags::CREATE, 2),
            (OFlags::EXCL, 5),
            (OFlags::APPEND, 3),
            (OFlags::NOFOLLOW, 8),
            (OFlags::DSYNC, 20),
        ] {
            flags.set(flag, self.one_in(one_in));
        }
        if access != OFlags::RDONLY {
            flags.set(OFlags::TRUNC, self.one_in(4));
        }
        // Without the other it means nothing.
        if !flags.contains(OFlags::CREATE) {
            flags.remove(OFlags::EXCL);
        }
        flags
    }

    fn rename_flags(&mut self) -> RenameFlags {
        match self.random.below(5) {
            0 => RenameFlags::NOREPLACE,
            1 => RenameFlags::EXCHANGE,
            _ => RenameFlags::empty(),
        }
    }

    fn allocation(&mut self) -> FallocateFlags {
        let keep = FallocateFlags::KEEP_SIZE;
        match self.random.below(5) {
            0 => FallocateFlags::empty(),
            1 => keep,
            2 => FallocateFlags::ZERO_RANGE,
            _ => FallocateFlags::PUNCH_HOLE | keep,
        }
    }

    fn xattr(&mut self) -> &'static str {
        XATTRS[self.random.below(XATTRS.len())]
    }

    fn xattr_flags(&mut self) -> XattrFlags {
        match self.random.below(4) {
            0 => XattrFlags::CREATE,
            1 => XattrFlags::REPLACE,
            _ => XattrFlags::empty(),
        }
    }

    /// Between 1922 and 2001, most of them with a fraction.
    fn times(&mut self) -> Times {
        let mut time = || {
            let seconds = self.random.below(2_500_000_000) as i64 - 1_500_000_000;
            let fraction = self.random.below(1_000_000_000) as i64;
            (
                seconds,
                if self.random.below(4) == 0 {
                    0
                } else {
                    fraction
                },
            )
        };
        (time(), time())
    }
}
