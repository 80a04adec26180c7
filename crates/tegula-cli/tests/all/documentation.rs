//! Checks the documentation: its commands succeed, its links resolve, every page is a chapter of
//! the book (which `.ci/run` builds), and the reference of the command line equals the help texts.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and all pages of `docs`, including the book's.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).expect("a page is text")
}

/// Returns the commands in `sh` blocks that call the command line, in order. Commands that do not
/// run on every machine are in `console` blocks.
fn commands(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            let arguments = line
                .strip_prefix("tegula ")
                .or(line.strip_prefix("cargo run --release -- "));
            commands.extend(arguments.map(str::to_owned));
        }
    }
    commands
}

/// Pages whose `sh` blocks name files that do not exist in the repository.
const NOT_RUN: [&str; 6] = [
    "devices.md",
    "jax.md",
    "objects.md",
    "onnx.md",
    "stablehlo.md",
    "tpu-kernels.md",
];

#[cfg(unix)]
#[test]
fn every_command_succeeds() {
    let examples = root().join("examples").canonicalize().expect("examples");
    let mut count = 0;
    for page in pages() {
        let name = page.file_name().and_then(|name| name.to_str());
        let name = name.expect("a page has a name");
        if NOT_RUN.contains(&name) {
            continue;
        }
        // The commands run in a scratch folder that also has the examples.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("commands-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::os::unix::fs::symlink(&examples, folder.join("examples")).expect("a link");
        for line in commands(&read(&page)) {
            let script = format!("\"$TEGULA\" {line}");
            let output = Command::new("sh")
                .args(["-c", &script])
                .env("TEGULA", env!("CARGO_BIN_EXE_tegula"))
                .current_dir(&folder)
                .output()
                .expect("there is a shell");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {line}: {error}");
            assert!(!output.stdout.is_empty(), "{name}: {line}");
            count += 1;
        }
    }
    assert!(count >= 25, "{count} commands were found");
}

/// Returns the targets of the links and images of a page, except in code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        let spans = line.split('`').step_by(2);
        for part in spans.flat_map(|span| span.split("](").skip(1)) {
            let end = part.find(')').unwrap_or(part.len());
            links.push(part[..end].to_owned());
        }
    }
    links
}

/// Returns the anchors of a page's headings, as mdBook and other renderers generate them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = String::new();
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().expect("a page is in a folder");
        for link in links(&text) {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                _ => folder.join(path),
            };
            let found = match anchor {
                "" => target.exists(),
                _ => target.is_file() && anchors(&read(&target)).iter().any(|own| own == anchor),
            };
            if !found {
                let _ = writeln!(wrong, "{}: {link}", page.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A page that is not a chapter of the book would not be found.
#[test]
fn every_page_is_a_chapter() {
    let contents = read(&root().join("docs/SUMMARY.md"));
    let chapters = links(&contents);
    let docs = root().join("docs");
    for page in pages() {
        let Ok(name) = page.strip_prefix(&docs) else {
            continue;
        };
        let name = name.to_string_lossy().replace('\\', "/");
        let is_note = name.starts_with("notes/") || name == "SUMMARY.md";
        assert!(
            is_note || chapters.contains(&name),
            "{name} is no chapter of docs/SUMMARY.md"
        );
    }
}

/// Returns the page with the help of every command.
fn reference() -> String {
    let help = |command: &str| {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let output = Command::new(env!("CARGO_BIN_EXE_tegula"))
            .args(arguments)
            .output()
            .expect("the help is printed");
        String::from_utf8(output.stdout).expect("help is text")
    };
    let general = help("");
    let mut page = String::from(
        "# The command line\n\nWhat `tegula COMMAND --help` prints. A test holds this page against it;\n\
         `TEGULA_BLESS=1` writes it.\n",
    );
    let _ = writeln!(page, "\n```text\n{}\n```", general.trim_end());
    let commands = general.split("Commands:\n").nth(1).expect("commands");
    let names = commands.lines().map_while(|line| {
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        line.starts_with("  ").then_some(name)
    });
    for name in names.filter(|name| *name != "help") {
        let text = help(name);
        let _ = writeln!(
            page,
            "\n## tegula {name}\n\n```text\n{}\n```",
            text.trim_end()
        );
    }
    // Trailing blanks are removed.
    let lines = page.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

#[test]
fn the_reference_is_what_the_command_line_says() {
    let path = root().join("docs/cli.md");
    let expected = reference();
    if std::env::var_os("TEGULA_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == expected,
        "docs/cli.md is not what the command line says: TEGULA_BLESS=1 writes it anew"
    );
}
