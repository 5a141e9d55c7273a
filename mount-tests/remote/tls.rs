//! Stores and web servers behind TLS: believed by the system's certificates, slow, or not at all.

use std::path::Path;
use std::time::Duration;

use super::arrayfs;
use crate::harness::golden;
use crate::harness::mounted::Mounted;
use crate::harness::object_server::ObjectServer;
use crate::harness::process::{ARRAYFS, run};
use crate::harness::tls_front::TlsFront;

const FILE: &str = "append-fits.blp";

fn known() -> Vec<u8> {
    let path = golden("bloscpack/sources").join(FILE);
    arrayfs([Path::new("cat"), &path]).success().stdout
}

fn served() -> ObjectServer {
    ObjectServer::of(&golden("bloscpack/sources"), "d/")
}

#[test]
fn certificates_that_the_system_knows_are_believed() {
    let server = served();
    let front = TlsFront::before(server.port(), Duration::ZERO);
    let certificate = front.certificate();
    let environment = [("SSL_CERT_FILE", certificate.to_str().unwrap())];
    let endpoint = format!("endpoint={}", front.endpoint());
    let bucket = Mounted::with_environment(
        Path::new(&server.url("d")),
        &[&endpoint, "anonymous"],
        &environment,
    );
    let array = bucket.join(FILE).join("data");
    assert_eq!(std::fs::read(array).unwrap(), known());
    let url = format!("{}/bucket/d/{FILE}", front.endpoint());
    let web = Mounted::with_environment(Path::new(&url), &[], &environment);
    assert_eq!(std::fs::read(web.join("data")).unwrap(), known());
}

#[test]
fn a_certificate_that_nobody_knows_is_an_error_that_says_so() {
    let server = served();
    let front = TlsFront::before(server.port(), Duration::ZERO);
    let url = format!("{}/bucket/d/{FILE}", front.endpoint());
    let mut command = std::process::Command::new(ARRAYFS);
    let refused = run(command.args(["cat", &url, "--timeout=5"]));
    refused.failed_saying(1, &["localhost", "certificate"]);
    assert_eq!(server.take_asked(), []);
}

#[test]
fn a_handshake_may_take_long_but_not_for_ever() {
    let server = served();
    let slow = TlsFront::before(server.port(), Duration::from_millis(700));
    let cat = |front: &TlsFront, timeout: &str| {
        let url = format!("{}/bucket/d/{FILE}", front.endpoint());
        let mut command = std::process::Command::new(ARRAYFS);
        command.env("SSL_CERT_FILE", front.certificate());
        run(command.args(["cat", &url, timeout]))
    };
    assert_eq!(cat(&slow, "--timeout=60").success().stdout, known());
    let never = TlsFront::before(server.port(), Duration::from_secs(3600));
    cat(&never, "--timeout=1").failed_saying(1, &["within 1s"]);
}
