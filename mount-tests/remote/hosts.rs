//! Many daemons at one store: what one asks depends upon no other.

use std::path::Path;

use super::mount;
use crate::harness::golden;
use crate::harness::object_server::ObjectServer;
use crate::harness::reads::names;

const HOSTS: usize = 20;

/// A day's work of a host: it lists, opens and reads.
fn work(server: &ObjectServer) {
    let mounted = mount(server, "d", &[]);
    for name in names(mounted.path()) {
        let _ = std::fs::read(mounted.join(&name).join("data"));
    }
    drop(std::fs::metadata(Path::new(mounted.path())));
}

#[test]
fn requests_of_twenty_hosts_are_those_of_one_twenty_times() {
    let server = ObjectServer::of(&golden("bloscpack/sources"), "d/");
    work(&server);
    let one = server.take_asked().len();
    std::thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| work(&server));
        }
    });
    let all = server.take_asked().len();
    // Read-ahead asks for a little more or less, as it happens.
    let (least, most) = (one * HOSTS * 9 / 10, one * HOSTS * 11 / 10);
    assert!((least..=most).contains(&all), "{one} of one, {all} of all");
}
