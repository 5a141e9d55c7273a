//! What systemd is told of a mount: that it is usable, what it is, and that it ends.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::PATIENCE;
use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::places::{Places, places};
use crate::harness::process::{ARRAYFS, install_script, run, send, start, wait_for_end};
use crate::harness::python::Written;

/// A socket such as systemd listens at.
struct Listening {
    socket: UnixDatagram,
}

impl Listening {
    fn at(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Listening { socket }
    }

    /// The next message: lines of assignments.
    fn told(&self) -> Vec<String> {
        let mut text = [0; 4096];
        let n = self.socket.recv(&mut text).expect("a message");
        let text = String::from_utf8(text[..n].to_vec()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// What a mount says when it is usable.
fn status_line(places: &Places) -> String {
    let (source, mountpoint) = places.both();
    format!(
        "STATUS=serving {} at {}",
        source.display(),
        mountpoint.display()
    )
}

fn mount(places: &Places, socket: &OsStr) -> Command {
    let (source, mountpoint) = places.both();
    let mut command = Command::new(ARRAYFS);
    command.arg("mount").env("NOTIFY_SOCKET", socket);
    command.args([source, mountpoint]);
    command
}

#[test]
fn a_mount_in_the_foreground_tells_that_it_is_usable_and_that_it_ends() {
    let places = places();
    let path = places.both().0.parent().unwrap().join("notify");
    let systemd = Listening::at(&SocketAddr::from_pathname(&path).unwrap());
    let mut command = mount(&places, path.as_os_str());
    let mut daemon = start(command.arg("-f").stderr(Stdio::null())).unwrap();
    assert_eq!(systemd.told(), ["READY=1".to_owned(), status_line(&places)]);
    // Not before.
    assert!(is_mounted(places.both().1));
    let mounted = Mounted::adopt(places.both().1);
    assert_eq!(mounted.daemon(), daemon.id());
    send(daemon.id(), Signal::TERM);
    assert_eq!(systemd.told(), ["STOPPING=1", "STATUS=unmounting"]);
    assert_eq!(systemd.told(), ["EXTEND_TIMEOUT_USEC=30000000"]);
    assert_eq!(wait_for_end(&mut daemon).code(), Some(0));
    mounted.assert_ends();
}

/// An abstract socket, as in user sessions and containers.
#[test]
fn a_daemon_in_the_background_tells_its_number() {
    let places = places();
    let name = format!("arrayfs-test-{}", std::process::id());
    let systemd = Listening::at(&SocketAddr::from_abstract_name(&name).unwrap());
    run(&mut mount(&places, OsStr::new(&format!("@{name}")))).success();
    let mounted = Mounted::adopt(places.both().1);
    let number = format!("MAINPID={}", mounted.daemon());
    assert_eq!(
        systemd.told(),
        ["READY=1".to_owned(), status_line(&places), number]
    );
    drop(mounted);
    assert_eq!(systemd.told(), ["STOPPING=1", "STATUS=committing"]);
}

#[test]
fn a_mount_that_fails_tells_nothing_and_one_that_nobody_listens_to_works() {
    let places = places();
    let path = places.both().0.parent().unwrap().join("notify");
    let systemd = Listening::at(&SocketAddr::from_pathname(&path).unwrap());
    let mut command = mount(&places, path.as_os_str());
    run(command.arg("-o").arg("nonsense")).failed_saying(2, &["nonsense"]);
    systemd.socket.set_nonblocking(true).unwrap();
    assert!(systemd.socket.recv(&mut [0; 1]).is_err());
    drop(systemd);
    run(&mut mount(&places, path.as_os_str())).success();
    drop(Mounted::adopt(places.both().1));
    run(&mut mount(&places, OsStr::new("nonsense"))).success();
    drop(Mounted::adopt(places.both().1));
}

#[test]
fn the_hdf5_worker_does_not_know_of_it() {
    let written = Written::new("two");
    let directory = written.directory.path();
    let (worker, note) = (directory.join("worker"), directory.join("note"));
    let script = format!(
        "#!/bin/sh\n: >'{0}'\n[ -z \"${{NOTIFY_SOCKET+set}}\" ] || : >'{0}.told'\nexec '{ARRAYFS}' \"$@\"\n",
        note.display()
    );
    install_script(&script, &worker);
    let environment = [
        ("NOTIFY_SOCKET", "/no/such/socket"),
        ("ARRAYFS_HDF5_WORKER", worker.to_str().unwrap()),
    ];
    let mounted = Mounted::with_environment(&written.source(), &[], &environment);
    assert!(mounted.join("one.h5/numbers").exists());
    assert!(note.exists());
    assert!(!Path::new(&format!("{}.told", note.display())).exists());
}
