//! Whether anybody still waits for what a thread does.
//!
//! A program that has been killed cannot end while a request of it is being served, and the kernel
//! does not say that it has been killed: so work that may take long looks at the program from time
//! to time ([`AskingThread::has_gone`]). A commit is given up when nobody wants it any more
//! ([`while_wanted`]): whatever takes long on its way, until there is no way back, asks for that
//! ([`check`]), and knows nothing else of it. Both are a matter of the thread. Used by `kernel`,
//! which says who asks, by `live` and `commit`, and by what a commit reads and writes.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, LocalKey};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Between two looks at who waits.
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How long a look is waited for; the next one asks for its outcome again.
const LOOKED_AT: Duration = Duration::from_millis(10);

/// The bit of SIGKILL in a set of signals as /proc shows it.
const KILLED: u64 = 1 << (libc::SIGKILL - 1);

/// The flag of a thread that is ending.
const PF_EXITING: u64 = 4;

thread_local! {
    static CALLER: RefCell<AskingThread> = const { RefCell::new(AskingThread(0)) };
    static LOOK: RefCell<Option<BegunLook>> = const { RefCell::new(None) };
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// The thread of a program for which something is done; none (0) if nobody waits, or nobody knows
/// who.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskingThread(u32);

/// A look at it that has begun.
struct BegunLook {
    at: AskingThread,
    has_gone: Receiver<bool>,
}

/// What is being done, and whether it is wanted.
struct Work {
    is_wanted: Box<dyn Fn() -> bool>,
    between_looks: Duration,
    looked: Instant,
    is_over: bool,
}

/// Does something that a thread of a program waits for.
pub fn for_caller<T>(pid: u32, work: impl FnOnce() -> T) -> T {
    during(&CALLER, AskingThread(pid), work)
}

/// Sets something of this thread for a while.
fn during<V, T>(what: &'static LocalKey<RefCell<V>>, value: V, work: impl FnOnce() -> T) -> T {
    struct Before<V: 'static>(&'static LocalKey<RefCell<V>>, Option<V>);
    impl<V> Drop for Before<V> {
        fn drop(&mut self) {
            self.1.take().map(|before| self.0.replace(before));
        }
    }
    let _before = Before(what, Some(what.replace(value)));
    work()
}

/// Who waits for this thread.
pub fn caller() -> AskingThread {
    CALLER.with_borrow(|caller| *caller)
}

impl AskingThread {
    /// Whether it has been killed, and ends as soon as it is answered.
    pub fn has_gone(self) -> bool {
        self.0 != 0 && LOOK.with_borrow_mut(|look| self.look(look))
    }

    /// Another thread looks: a program that closes its files because it starts another one cannot
    /// be looked at until it is answered. One that is not to be seen may be anything.
    fn look(self, look: &mut Option<BegunLook>) -> bool {
        let begun = look.take().filter(|look| look.at == self);
        let Some(begun) = begun.or_else(|| self.begin_look()) else {
            return false;
        };
        match begun.has_gone.recv_timeout(LOOKED_AT) {
            Err(RecvTimeoutError::Timeout) => {
                *look = Some(begun);
                false
            }
            seen => seen.unwrap_or(false),
        }
    }

    fn begin_look(self) -> Option<BegunLook> {
        let (tell, has_gone) = channel();
        let look = move || tell.send(self.is_seen_gone()).unwrap_or_default();
        let looks = thread::Builder::new().name("caller".into()).spawn(look);
        looks.is_ok().then_some(BegunLook { at: self, has_gone })
    }

    fn is_seen_gone(self) -> bool {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.0));
        read("status").is_ok_and(|status| is_killed(&status))
            || read("stat").is_ok_and(|stat| was_killed(&stat))
    }
}

/// Whether the status of a thread says that it is about to be killed.
fn is_killed(status: &str) -> bool {
    status.lines().any(|line| {
        let set = line.strip_prefix("SigPnd:");
        let set = set.or_else(|| line.strip_prefix("ShdPnd:"));
        set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .is_some_and(|set| set & KILLED != 0)
    })
}

/// Whether the line of numbers of a thread says that it ends because of a signal: it closes its
/// files.
fn was_killed(stat: &str) -> bool {
    // The name, in parentheses, may have any characters.
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Counted from 1, these are the fields 9 and 52; the state is the third.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let is_exiting = number(9).is_some_and(|flags| flags & PF_EXITING != 0);
    is_exiting && number(52).is_some_and(|code| code & 0x7f != 0)
}

/// Does something that is given up when it is not wanted any more.
pub fn while_wanted<T>(is_wanted: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    looking_each(BETWEEN_LOOKS, is_wanted, work)
}

/// Does something that is given up when it takes longer than that.
pub fn for_at_most<T>(time: Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    looking_each(time, move || begun.elapsed() < time, work)
}

fn looking_each<T>(
    between_looks: Duration,
    is_wanted: impl Fn() -> bool + 'static,
    work: impl FnOnce() -> T,
) -> T {
    let wanted = Work {
        between_looks,
        is_wanted: Box::new(is_wanted),
        looked: Instant::now(),
        is_over: false,
    };
    during(&WORK, Some(wanted), work)
}

/// An error if what this thread does is not wanted any more. Costs little.
pub fn check() -> Result<()> {
    let is_over = WORK.with_borrow_mut(|work| work.as_mut().is_some_and(Work::is_over));
    match is_over {
        true => Err(Error::Unwanted),
        false => Ok(()),
    }
}

/// From here on what this thread does is done to the end.
pub fn no_way_back() {
    WORK.take();
}

impl Work {
    fn is_over(&mut self) -> bool {
        if !self.is_over && self.looked.elapsed() >= self.between_looks {
            self.is_over = !(self.is_wanted)();
            self.looked = Instant::now();
        }
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::{Command, Stdio};
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_killed_program_is_recognised() {
        let status = |own: &str, shared: &str| {
            format!("Name:\tcp\nSigQ:\t0/1\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0\n")
        };
        assert!(!is_killed(&status("0000000000000000", "0000000000000000")));
        assert!(is_killed(&status("0000000000000100", "0000000000000000")));
        assert!(is_killed(&status("0000000000000000", "0000000000004100")));
        assert!(!is_killed(&status("0000000000004000", "0000000000000002")));
        assert!(!is_killed("SigPnd:\tnothing\n"));
    }

    #[test]
    fn a_program_that_ends_because_of_a_signal_is_recognised() {
        let stat = |flags: u64, code: u64| {
            let mut fields = vec!["0".to_owned(); 50];
            (fields[0], fields[6]) = ("D".into(), flags.to_string());
            fields[49] = code.to_string();
            format!("17 (a (b) 4 c) {}\n", fields.join(" "))
        };
        assert!(was_killed(&stat(0x0040_0004, 15)) && was_killed(&stat(4, 139)));
        assert!(!was_killed(&stat(4, 0)) && !was_killed(&stat(4, 256)));
        assert!(!was_killed(&stat(0x0040_0000, 15)));
        assert!(!was_killed("") && !was_killed("17 (x) D 1 2"));
    }

    #[test]
    fn nobody_and_the_living_have_not_gone() {
        assert!(!caller().has_gone());
        for_caller(std::process::id(), || assert!(!caller().has_gone()));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(!AskingThread(child.id()).has_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!AskingThread(child.id()).has_gone(), "it is not to be seen");
    }

    #[test]
    fn what_is_not_wanted_is_given_up_until_there_is_no_way_back() {
        check().unwrap();
        let wanted = Rc::new(Cell::new(true));
        let asked = Rc::clone(&wanted);
        while_wanted(
            move || asked.get(),
            || {
                check().unwrap();
                wanted.set(false);
                while check().is_ok() {}
                assert!(matches!(check(), Err(Error::Unwanted)));
                wanted.set(true);
                assert!(check().is_err(), "it does not come back");
                while_wanted(|| true, || check().unwrap());
                assert!(check().is_err());
                no_way_back();
                check().unwrap();
            },
        );
        check().unwrap();
    }
}
