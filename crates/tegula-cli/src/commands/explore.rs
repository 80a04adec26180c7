//! `tegula explore`: the explorer's page with a program in it, in a browser or as a file.
//!
//! The page is one self-contained file that `web/build.mjs` makes and that this binary contains in
//! compressed form. It is served only on the loopback address, and only to requests whose `Host`
//! names that address: a page from another site that is open in the same browser cannot read it.

use crate::documents::{self, Text};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, read_file, read_module};
use crate::options::Common;
use crate::report::Failure;
use anyhow::Context;
use clap::Args;
use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tegula_ir::PrintStyle;

/// The page without a program, compressed.
const PAGE: &[u8] = include_bytes!("../../assets/explorer.html.gz");
/// The element of the page that holds the initial program.
const INITIAL: &str = r#"<script type="application/json" id="initial">null</script>"#;
/// The maximum size of a request's head, in bytes.
const MOST_HEAD: u64 = 16 << 10;
/// The time limit for a browser to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The options of `tegula explore`.
#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, an ONNX model, or a kernel of the simulated TPU. `-` reads standard input.
    /// Without a file, the page begins with an example.
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Write the page to this HTML file instead of serving it. The file contains the program, and
    /// works without a server.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Serve the page and print its address, but open no browser.
    #[arg(long)]
    pub no_browser: bool,
}

/// Opens the explorer in a browser, or writes its page.
pub(crate) fn explore(args: &ExploreArgs, common: &Common) -> Result<u8, Failure> {
    let text = match &args.model {
        Some(path) => Some(program_text(path, &args.dims)?),
        None => None,
    };
    let page = page(text.as_deref())?;
    if let Some(path) = &args.output {
        crate::terminal::result_file::write(path, &page)?;
        let megabytes = page.len() as f64 / 1e6;
        say!(
            "{}: the explorer ({megabytes:.1} MB), which any browser can open",
            path.display()
        );
        return Ok(SUCCESS);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.context("the page cannot be served on the loopback address")?;
    let address = listener.local_addr().context("the port is not known")?;
    let link = format!("http://{address}/");
    if common.json {
        documents::print(&Text { text: link.clone() });
    } else {
        say!("The explorer is at {link}");
        say!("No data leaves this machine. Press Control-C to stop.");
    }
    if !args.no_browser {
        open_browser(&link);
    }
    serve(&listener, address, &Arc::from(page.into_bytes()))
}

/// Returns a program as text: the file's own text, or HLO text if the file is binary or sizes are
/// given on the command line.
fn program_text(path: &Path, dims: &DimArgs) -> Result<String, Failure> {
    let bytes = read_file(path)?;
    let is_as_given = dims.dims.is_empty() && dims.fill_elided.is_none() && dims.stage.is_none();
    match std::str::from_utf8(&bytes) {
        // A text is not parsed here: the page shows its errors.
        Ok(text) if is_as_given && !tegula::is_onnx(&bytes) => Ok(text.to_owned()),
        _ => {
            let source = read_module(path, dims)?;
            Ok(tegula_ir::print_module(
                &source.module,
                PrintStyle::Canonical,
            ))
        }
    }
}

/// Returns the page with this initial program.
fn page(text: Option<&str>) -> anyhow::Result<String> {
    let mut page = String::new();
    let mut decoder = GzDecoder::new(PAGE);
    decoder
        .read_to_string(&mut page)
        .context("the page in this binary is damaged")?;
    let Some(text) = text else {
        return Ok(page);
    };
    let state = serde_json::json!({ "text": text }).to_string();
    // Escape `<`, because a `</script>` in the program would end the script element.
    let state = state.replace('<', "\\u003c");
    let initial = INITIAL.replace("null", &state);
    Ok(page.replacen(INITIAL, &initial, 1))
}

/// Opens a browser if there is one; otherwise the printed address must do.
fn open_browser(link: &str) {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ if ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .all(|name| std::env::var_os(name).is_none()) =>
        {
            return;
        }
        _ => "xdg-open",
    };
    let mut command = Command::new(opener);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null());
    let _ = command.stderr(Stdio::null()).spawn();
}

/// Answers requests until the process ends.
fn serve(listener: &TcpListener, address: SocketAddr, page: &Arc<[u8]>) -> Result<u8, Failure> {
    for stream in listener.incoming() {
        // A connection that the browser closed before it was accepted is ignored.
        let Ok(stream) = stream else { continue };
        let page = Arc::clone(page);
        std::thread::spawn(move || answer(&stream, address, &page));
    }
    Ok(SUCCESS)
}

/// Answers one request and closes the connection.
fn answer(stream: &TcpStream, address: SocketAddr, page: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (path, host) = head(stream)?;
    let own = [address.to_string(), format!("localhost:{}", address.port())];
    let (status, kind, body): (_, _, &[u8]) = match path.as_deref() {
        _ if !own.contains(&host) => ("403 Forbidden", "text/plain", b"this is a local page\n"),
        Some("/") => ("200 OK", "text/html; charset=utf-8", page),
        Some(_) => ("404 Not Found", "text/plain", b"there is one page: /\n"),
        None => ("405 Method Not Allowed", "text/plain", b"only GET\n"),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)
}

/// Returns the path of a GET request, and its `Host`.
fn head(stream: &TcpStream) -> std::io::Result<(Option<String>, String)> {
    let mut lines = BufReader::new(stream.take(MOST_HEAD)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut words = first.split(' ');
    let is_get = words.next() == Some("GET");
    let path = words.next().filter(|_| is_get);
    let path = path.map(|path| path.split('?').next().unwrap_or_default().to_owned());
    let mut host = String::new();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            value.trim().clone_into(&mut host);
        }
    }
    Ok((path, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_the_program_and_no_end_of_its_script() {
        let page = page(Some("a </script> b")).expect("the page is whole");
        assert!(page.contains(r#""text":"a \u003c/script> b""#));
        assert!(!page.contains(INITIAL));
    }

    /// The page in `assets` is up to date with its sources; `node web/build.mjs` rebuilds it.
    #[test]
    fn the_page_is_that_of_its_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut digest = flate2::Crc::new();
        for folder in ["web/src", "web/examples", "crates/explorer/src"] {
            let folder_path = root.join(folder);
            let mut names: Vec<String> = Vec::new();
            let mut left = vec![folder_path.clone()];
            while let Some(path) = left.pop() {
                if path.is_dir() {
                    let entries = std::fs::read_dir(&path).expect("the folder exists");
                    left.extend(entries.flatten().map(|entry| entry.path()));
                } else {
                    let name = path
                        .strip_prefix(&folder_path)
                        .expect("it is in the folder");
                    names.push(name.to_str().expect("a name in UTF-8").to_owned());
                }
            }
            names.sort();
            for name in names {
                digest.update(format!("{folder}/{name}\0").as_bytes());
                let source = std::fs::read(folder_path.join(&name));
                digest.update(&source.expect("it can be read"));
                digest.update(b"\0");
            }
        }
        let digest = format!("{:08x}", digest.sum());
        let page = page(None).expect("the page is whole");
        assert!(
            page.contains(&format!(r#"name="tegula-sources" content="{digest}""#)),
            "the explorer's page is older than its sources: web/build-wasm.sh && node web/build.mjs"
        );
    }
}
