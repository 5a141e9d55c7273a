//! TLS before a server that speaks none, with a certificate of its own that nobody knows.
//!
//! Answers are carried one at a time, as HTTP/1.1 asks for them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

pub struct TlsFront {
    port: u16,
    directory: TempDir,
}

impl TlsFront {
    /// Before a port of this host. So long it takes until a handshake is answered.
    pub fn before(port: u16, handshake: Duration) -> TlsFront {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = super::scratch_directory();
        std::fs::write(directory.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let config = Arc::clone(&config);
                std::thread::spawn(move || {
                    std::thread::sleep(handshake);
                    let connection = ServerConnection::new(config).unwrap();
                    // Whoever believes nothing of the certificate goes away.
                    let _ = carry(StreamOwned::new(connection, client), port);
                });
            }
        });
        TlsFront {
            port: own,
            directory,
        }
    }

    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// What has to be known to believe it.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }
}

fn carry(mut client: impl Read + Write, port: u16) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    loop {
        let question = head(&mut client)?;
        server.write_all(&question)?;
        let answer = head(&mut server)?;
        client.write_all(&answer)?;
        let is_head = question.starts_with(b"HEAD ");
        let mut body = (&mut server).take(if is_head { 0 } else { length(&answer) });
        std::io::copy(&mut body, &mut client)?;
        client.flush()?;
    }
}

/// Up to the empty line.
fn head(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        from.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

fn length(head: &[u8]) -> u64 {
    let head = String::from_utf8_lossy(head).to_lowercase();
    let told = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    told.map_or(0, |told| told.trim().parse().unwrap())
}
