//! The `Dockerfile` builds packages that exist, of files that its context has, and the copies of crates are used. Images are not built here.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_context_has_every_package() {
    let ignored = read(".dockerignore");
    let included: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in &included {
        assert!(root().join(path).exists(), ".dockerignore names {path}");
    }
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let folder = member.split('/').next().unwrap();
        assert!(included.contains(&folder), ".dockerignore does not include {member}");
    }
    assert!(included.contains(&"vendor"), ".dockerignore does not include the copies of crates");
}

/// A crate of the registry in its place would bring back 44 ms of each streamed answer.
#[test]
fn the_lambda_client_is_the_copy_in_vendor() {
    let lock = read("Cargo.lock");
    let entries: Vec<&str> = lock
        .split("[[package]]")
        .filter(|entry| entry.contains("\nname = \"lambda_runtime_api_client\"\n"))
        .collect();
    let [entry] = entries[..] else { panic!("{} versions of the client: vendor/README.md", entries.len()) };
    assert!(!entry.contains("\nsource = "), "the client is not the copy in vendor/: {entry}");
}

#[test]
fn each_image_is_of_a_binary() {
    let dockerfile = read("Dockerfile");
    let after = |line: &str, word: &str| {
        let rest = line.split_once(word)?.1.trim_start();
        Some(rest.split_whitespace().next()?.to_owned())
    };
    let built: Vec<_> = dockerfile
        .lines()
        .filter_map(|line| Some((after(line, "--package")?, after(line, "--bin")?)))
        .collect();
    assert_eq!(built, [("annals-discord-relay".into(), "relay".into()), ("annals".into(), "annals".into())]);
    for (manifest, (package, binary)) in ["functions/relay/Cargo.toml", "local/Cargo.toml"].iter().zip(built)
    {
        let manifest = read(manifest);
        let names = |name: &str| manifest.lines().any(|line| line == format!("name = \"{name}\""));
        assert!(names(&package) && names(&binary), "{package} has no {binary}");
    }
}
