//! Credentials that expire while a mount is in use are renewed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::mounted::Mounted;
use crate::harness::object_server::{ObjectServer, Wrong};
use crate::harness::{golden, scratch_directory};

/// Gives keys as the agent of a container does, each time others, which soon expire.
fn agent(given: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(client.try_clone().unwrap()).lines();
            let head: Vec<_> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            assert!(
                head.iter().any(|line| line.contains("the-token")),
                "{head:?}"
            );
            let number = given.fetch_add(1, Ordering::SeqCst) + 1;
            let body = format!(
                r#"{{"AccessKeyId":"KEY{number}","SecretAccessKey":"s","Token":"t",
                "Expiration":"2020-01-01T00:00:00Z"}}"#
            );
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = client.write_all(answer.as_bytes());
        }
    });
    format!("http://127.0.0.1:{port}/keys")
}

#[test]
fn keys_that_expire_are_asked_for_anew() {
    let server = ObjectServer::of(&golden("bloscpack/sources"), "d/");
    let given = Arc::new(AtomicUsize::new(0));
    let uri = agent(Arc::clone(&given));
    let directory = scratch_directory();
    let token = directory.path().join("token");
    std::fs::write(&token, "the-token").unwrap();
    let environment = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*uri),
        (
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            token.to_str().unwrap(),
        ),
    ];
    let endpoint = format!("endpoint={}", server.endpoint());
    let url = server.url("d");
    let mounted = Mounted::with_environment(Path::new(&url), &[&endpoint], &environment);
    let first = given.load(Ordering::SeqCst);
    assert!(first > 0);
    // From now on the first key is of no use, which is found out by who asks for new ones.
    server.decide(move |asked, _| {
        let signed = asked.headers.get("authorization");
        let is_first = signed.is_none_or(|signed| signed.contains("Credential=KEY1/"));
        is_first.then_some(Wrong::Status(403, Vec::new()))
    });
    let read = || std::fs::read(mounted.join("append-fits.blp/data"));
    crate::harness::wait_until("a new key is used", || read().is_ok());
    assert!(given.load(Ordering::SeqCst) > first);
}
