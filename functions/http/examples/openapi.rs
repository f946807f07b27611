//! Prints the document of `GET /openapi.json`: `just openapi`.
#![allow(clippy::print_stdout, reason = "that is what it is for")]

fn main() {
    println!("{:#}", annals_http::openapi());
}
