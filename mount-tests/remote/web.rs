//! Files of web servers, and what nobody is to see of their URLs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::arrayfs;
use crate::harness::golden;
use crate::harness::mounted::{Mounted, mount_line};
use crate::harness::object_server::{ObjectServer, Wrong};
use crate::harness::process::ARRAYFS;

const SECRET: &str = "topsecret";

fn server() -> (ObjectServer, Vec<u8>) {
    let bytes = std::fs::read(golden("bloscpack/sources/append-fits.blp")).unwrap();
    let server = ObjectServer::start();
    server.put("d/a.blp", bytes);
    let known = golden("bloscpack/sources/append-fits.blp");
    let known = arrayfs([Path::new("cat"), &known]).success().stdout;
    (server, known)
}

#[test]
fn one_file_is_mounted_and_nothing_of_its_signature_is_seen() {
    let (server, known) = server();
    let url = server.web_url("d/a.blp");
    let signed = format!(
        "{}?X-Signature={SECRET}",
        url.replace("://", &format!("://me:{SECRET}@"))
    );
    let mounted = Mounted::new(Path::new(&signed), &["log_level=debug"]);
    assert_eq!(std::fs::read(mounted.join("data")).unwrap(), known);
    let asked = server.take_asked();
    assert!(
        asked
            .iter()
            .all(|asked| asked.query["X-Signature"] == SECRET)
    );
    assert!(
        asked
            .iter()
            .all(|asked| asked.headers["authorization"].starts_with("Basic "))
    );
    let line = mount_line(mounted.path()).unwrap();
    let status = mounted.status().to_string();
    let argv = std::fs::read(format!("/proc/{}/cmdline", mounted.daemon())).unwrap();
    let log = std::fs::read_to_string(mounted.status()["log"]["to"].as_str().unwrap());
    for text in [
        line,
        status,
        String::from_utf8_lossy(&argv).into(),
        log.unwrap_or_default(),
    ] {
        assert!(!text.contains(SECRET), "{text}");
    }
    server.decide(|_, _| Some(Wrong::Status(403, Vec::new())));
    let said = arrayfs(["info", &signed]);
    assert_eq!(said.code(), Some(1));
    assert!(
        !said.stderr.contains(SECRET) && said.stderr.contains("403"),
        "{}",
        said.stderr
    );
    server.decide(|_, _| None);
}

#[test]
fn a_url_that_nobody_is_to_see_comes_from_a_file_or_from_standard_input() {
    let (server, known) = server();
    let directory = crate::harness::scratch_directory();
    let file = directory.path().join("url");
    std::fs::write(
        &file,
        format!("{}?sig={SECRET}\n", server.web_url("d/a.blp")),
    )
    .unwrap();
    let option = format!("url_file={}", file.display());
    let mounted = Mounted::new(Path::new("web"), &[&option]);
    assert_eq!(std::fs::read(mounted.join("data")).unwrap(), known);
    let mut cat = Command::new(ARRAYFS);
    cat.args(["cat", "-", "data"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    let mut input = cat.stdin.take().unwrap();
    input.write_all(&std::fs::read(&file).unwrap()).unwrap();
    drop(input);
    assert_eq!(cat.wait_with_output().unwrap().stdout, known);
}

#[test]
fn redirects_are_followed_to_where_they_may_lead() {
    let (server, known) = server();
    let target = server.web_url("d/a.blp");
    server.decide(move |asked, _| {
        let moved = vec![("Location", target.clone())];
        (asked.key == "old").then_some(Wrong::Status(302, moved))
    });
    let url = server.web_url("old");
    let read = arrayfs(["cat", &url, "data"]).success();
    assert_eq!(read.stdout, known);
    server.decide(|asked, _| {
        let moved = vec![("Location", "ftp://127.0.0.1/x".to_owned())];
        (asked.key == "old").then_some(Wrong::Status(302, moved))
    });
    arrayfs(["info", &url]).failed_saying(1, &["not followed"]);
}

#[test]
fn what_is_not_there_or_no_container_is_told() {
    let (server, _) = server();
    server.put("page.html", b"<html>".to_vec());
    arrayfs(["info", &server.web_url("none.h5")]).failed_saying(1, &["none.h5"]);
    arrayfs(["info", &server.web_url("page.html")]).failed_saying(1, &["not a container"]);
    // An array's URL, as `ls` prints it, means that array.
    let listed = arrayfs(["ls", &server.web_url("d/a.blp")]).success().text();
    arrayfs(["cat", listed.trim()]).success();
    // Two that differ in what is not shown are two.
    let both = ["a", "b"].map(|sig| format!("{}?sig={sig}", server.web_url("d/a.blp")));
    server.take_asked();
    arrayfs(["verify", &both[0], &both[1]]).success();
    let asked = server.take_asked();
    assert!(asked.iter().any(|asked| asked.query["sig"] == "b"));
    let refused = arrayfs(["refresh", &both[0]]);
    assert!(!refused.stderr.contains("sig=") && refused.stderr.contains("takes paths"));
    arrayfs(["info", "nfs://host/x"]).failed_saying(1, &["nfs:// is no source", "s3://"]);
}
