//! What the daemon tells systemd, if that has started it as a service of `Type=notify`: that the
//! mount is usable, what is mounted, that it ends, and that this takes longer.
//!
//! A message is one datagram to the socket that the environment names, lost if nobody takes it: no
//! mount waits for it. The messages are those of the crate sd-notify; the socket is ours, for that
//! crate takes the name of an abstract one, as user sessions and containers have it, for a path.
//! Programs that the daemon starts do not inherit the name ([`SOCKET`]). Used by `cli`.

use std::ffi::OsStr;
use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

use super::log::one_line;

/// The variable that names the socket.
pub const SOCKET: &str = "NOTIFY_SOCKET";

/// How much more time is asked for, and how often.
const LONGER: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_secs(10);

/// Whoever has started the daemon, if it listens.
#[derive(Debug, Clone)]
pub struct Supervisor {
    socket: Option<SocketAddr>,
}

impl Supervisor {
    /// As the environment says.
    pub fn of_environment() -> Supervisor {
        let socket = std::env::var_os(SOCKET).and_then(|name| {
            let address = address(&name);
            let told = address.as_ref().err();
            if let Some(e) = told {
                log::debug!("{SOCKET} names no socket: {e}");
            }
            address.ok()
        });
        Supervisor { socket }
    }

    /// The mount is usable. `daemon`: the process that serves, where that is not the one that was
    /// started.
    pub fn ready(&self, what: &str, daemon: Option<u32>) {
        let what = one_line(what).to_string();
        let mut states = vec![NotifyState::Ready, NotifyState::Status(&what)];
        states.extend(daemon.map(NotifyState::MainPid));
        self.tell(&states);
    }

    /// The mount ends.
    pub fn stopping(&self, what: &str) {
        let what = one_line(what).to_string();
        self.tell(&[NotifyState::Stopping, NotifyState::Status(&what)]);
    }

    /// What follows may take long: from now on more time is asked for, as long as the process
    /// lives.
    pub fn takes_long(&self) {
        if self.socket.is_none() {
            return;
        }
        let more = u32::try_from(LONGER.as_micros()).unwrap_or(u32::MAX);
        self.tell(&[NotifyState::ExtendTimeoutUsec(more)]);
        let supervisor = self.clone();
        let ask = move || {
            loop {
                std::thread::sleep(EVERY);
                supervisor.tell(&[NotifyState::ExtendTimeoutUsec(more)]);
            }
        };
        // Without it the time has to do that it allows.
        let thread = std::thread::Builder::new().name("systemd".into());
        if let Err(e) = thread.spawn(ask) {
            log::debug!("systemd is not asked for more time: {e}");
        }
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.socket else {
            return;
        };
        if let Err(e) = send(socket, states) {
            log::debug!("systemd was not told: {e}");
        }
    }
}

fn send(socket: &SocketAddr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let mut message = String::new();
    for state in states {
        writeln!(message, "{state}").map_err(io::Error::other)?;
    }
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), socket)?;
    Ok(())
}

/// A path, or the name of an abstract socket behind `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(address: &SocketAddr, tell: impl FnOnce(&Supervisor)) -> String {
        let listener = UnixDatagram::bind_addr(address).unwrap();
        let socket = Some(address.clone());
        tell(&Supervisor { socket });
        let mut text = [0; 1000];
        let n = listener.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..n]).into_owned()
    }

    #[test]
    fn sockets_are_paths_or_abstract() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("@arrayfs-test-{}", std::process::id());
        for name in [path.as_os_str(), OsStr::new(&abstract_name)] {
            let address = address(name).unwrap();
            let text = told(&address, |supervisor| {
                supervisor.ready("/a\nb at /c", Some(7))
            });
            assert_eq!(text, "READY=1\nSTATUS=/a%0Ab at /c\nMAINPID=7\n");
        }
        assert!(address(OsStr::new("vsock:2:1234")).is_err());
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        Supervisor { socket: None }.stopping("x");
        let gone = address(OsStr::new("/no/such/socket")).ok();
        Supervisor { socket: gone }.stopping("x");
    }
}
