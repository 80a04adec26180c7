//! `tegula explore`: the page contains the program, and only requests whose `Host` is its address
//! get it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it is asked");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    String::from_utf8(answer).expect("the page is text")
}

#[test]
fn the_page_is_served_to_its_own_address() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models/softmax.hlo");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .args(["explore", "--no-browser"])
        .arg(&model)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let stdout = child.stdout.take().expect("a pipe");
    let child = Ended(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let address = line.rsplit_once("http://").expect("an address").1;
    let address = address.trim().trim_end_matches('/');
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let page = ask(address, address, "/");
    assert!(page.starts_with("HTTP/1.1 200"));
    assert!(page.contains("HloModule jit_softmax"));
    assert!(ask(address, "example.org", "/").starts_with("HTTP/1.1 403"));
    assert!(ask(address, address, "/etc/passwd").starts_with("HTTP/1.1 404"));
    drop(child);
}

#[test]
fn a_page_is_written_for_a_program_in_bytecode_or_with_sizes() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explorer.html");
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models/symbolic_mlp.hlo");
    let status = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .arg("explore")
        .arg(&model)
        .args(["--dim", "p0_d0=4", "-o"])
        .arg(&output)
        .status()
        .expect("the command starts");
    assert!(status.success());
    let page = std::fs::read_to_string(&output).expect("it was written");
    assert!(page.contains("HloModule") && page.contains("f32[4,"));
}
