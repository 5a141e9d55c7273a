//! Asynchronous writes past the page cache, beside readers that use it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use crate::harness::place::{Place, scenarios};
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::Seeded;
use crate::harness::writers::Bloscpack;

scenarios![what_is_written_asynchronously_is_read_through_the_page_cache];

const PART: usize = 4096;
const PARTS: usize = 16;
const LEN: usize = PART * PARTS;
const ROUNDS: usize = 300;

/// A write as it is submitted to the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Order {
    data: u64,
    key: u32,
    flags: u32,
    command: u16,
    priority: i16,
    file: u32,
    from: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    how: u32,
    told: u32,
}

const WRITE: u16 = 1;

/// The kernel's report of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Done {
    data: u64,
    order: u64,
    result: i64,
    result_2: i64,
}

/// A queue of the kernel for asynchronous work (libaio).
struct Queue(libc::c_ulong);

impl Queue {
    fn new() -> Queue {
        let mut queue = 0;
        // SAFETY: the kernel writes the number of the queue.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, PARTS, &raw mut queue) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        Queue(queue)
    }

    /// Writes all parts at once, and waits for all.
    fn write(&self, file: &File, bytes: &[u8]) {
        let order = |part: usize| Order {
            command: WRITE,
            file: file.as_raw_fd().cast_unsigned(),
            from: bytes[part * PART..].as_ptr() as u64,
            len: PART as u64,
            offset: (part * PART) as i64,
            ..Order::default()
        };
        let orders: [Order; PARTS] = std::array::from_fn(order);
        let pointers = orders.each_ref().map(std::ptr::from_ref);
        let mut done = [Done::default(); PARTS];
        let none = std::ptr::null_mut::<libc::timespec>();
        // SAFETY: orders, bytes and results live until all has been done, which the second call
        // waits for.
        let numbers = unsafe {
            [
                libc::syscall(libc::SYS_io_submit, self.0, PARTS, pointers.as_ptr()),
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.0,
                    PARTS,
                    PARTS,
                    done.as_mut_ptr(),
                    none,
                ),
            ]
        };
        assert_eq!(numbers, [PARTS as i64; 2]);
        assert!(done.iter().all(|done| done.result == PART as i64));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: nothing is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn read_on(path: &Path, until: &AtomicBool) {
    let (file, mut found) = (File::open(path).unwrap(), vec![0; LEN]);
    while !until.load(Ordering::Acquire) {
        file.read_exact_at(&mut found, 0).unwrap();
    }
}

fn write_and_read(path: &Path, random: &mut Seeded) {
    let mut direct = OpenOptions::new();
    let direct = direct.write(true).custom_flags(libc::O_DIRECT);
    let (writer, reader) = (direct.open(path).unwrap(), File::open(path).unwrap());
    let (queue, mut bytes) = (Queue::new(), MmapMut::map_anon(LEN).unwrap());
    let mut found = vec![0; LEN];
    for _ in 0..ROUNDS {
        bytes.copy_from_slice(&random.noise(LEN));
        queue.write(&writer, &bytes);
        reader.read_exact_at(&mut found, 0).unwrap();
        assert_same(path, &found, &bytes);
    }
    drop(writer);
    assert_content(path, &bytes);
}

fn what_is_written_asynchronously_is_read_through_the_page_cache(place: &Place) {
    std::fs::write(place.join("file"), vec![1; LEN]).unwrap();
    let mut paths = vec![place.join("file")];
    if place.is_mounted() {
        Bloscpack::default().write(&place.stored("x.blp"), &vec![1; LEN]);
        paths.push(place.join("x.blp/data"));
    }
    for path in &paths {
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| read_on(path, &done));
            let written = std::panic::catch_unwind(|| write_and_read(path, &mut Seeded::new(1)));
            done.store(true, Ordering::Release);
            reader.join().unwrap();
            written.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}
