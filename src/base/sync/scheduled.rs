//! Locks by which `shuttle` decides which thread goes on: the same names and calls as those of
//! `parking_lot`, as far as they are used here. Work within a test of shuttle's alone.
//!
//! A wait with a limit may end at any time: which is true of clocks, too.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use shuttle::sync as checked;
pub use shuttle::thread::ThreadId;

/// Which thread this is.
pub fn this_thread() -> ThreadId {
    shuttle::thread::current().id()
}

#[derive(Default)]
pub struct Mutex<T: ?Sized>(checked::Mutex<T>);

/// Holds nothing while its thread waits for a condition.
pub struct MutexGuard<'a, T: ?Sized> {
    of: &'a Mutex<T>,
    held: Option<checked::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex(checked::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            of: self,
            held: Some(self.held()),
        }
    }

    fn held(&self) -> checked::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = Some(self.0.try_lock().ok()?);
        Some(MutexGuard { of: self, held })
    }

    pub fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard in use")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard in use")
    }
}

#[derive(Default)]
pub struct RwLock<T: ?Sized>(checked::RwLock<T>);

pub type RwLockReadGuard<'a, T> = checked::RwLockReadGuard<'a, T>;
pub type RwLockWriteGuard<'a, T> = checked::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        RwLock(checked::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

#[derive(Default)]
pub struct Condvar(checked::Condvar);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Condvar(checked::Condvar::new())
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(|e| e.into_inner()));
        }
    }

    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut *guard) {
            self.wait(guard);
        }
    }

    /// Others go on for a moment, and it is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _most: Duration) -> WaitTimeoutResult {
        unlocked(guard);
        WaitTimeoutResult(true)
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _at: Instant) -> WaitTimeoutResult {
        unlocked(guard);
        WaitTimeoutResult(true)
    }

    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        _most: Duration,
    ) -> WaitTimeoutResult {
        if !condition(&mut *guard) {
            return WaitTimeoutResult(false);
        }
        unlocked(guard);
        WaitTimeoutResult(condition(&mut *guard))
    }
}

/// Lets others have the lock for a moment.
fn unlocked<T>(guard: &mut MutexGuard<'_, T>) {
    guard.held = None;
    shuttle::thread::yield_now();
    guard.held = Some(guard.of.held());
}
